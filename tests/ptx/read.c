/* The text of a module: kernels, what they declare, and their statements. A kernel is decoded when
 * it is first asked for. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/decode.h"

/* A kernel of the text. */
typedef struct entry {
    struct entry *next;
    char name[PTX_NAME];
    const char *head, *body, *end; /* head: what stands between the name and the body */
    ptx_function *f;               /* NULL: not decoded yet */
} entry;
struct ptx_module {
    char *text;
    entry *first, **last;
};

/* ---- a module -------------------------------------------------------------------------------- */

static void blank_comments(char *text)
{
    for (char *p = text; (p = strchr(p, '/')) != NULL; p++) {
        if (p[1] == '/')
            while (*p && *p != '\n')
                *p++ = ' ';
        if (!*p)
            return;
    }
}

static const char *skip_spaces(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

/* Returns the brace that ends what begins at this one. */
static const char *closing_brace(const char *open)
{
    int depth = 0;
    for (const char *p = open; *p; p++) {
        depth += (*p == '{') - (*p == '}');
        if (depth == 0)
            return p;
    }
    return NULL;
}

static bool add_entry(ptx_module *m, const char *at, const char **next, char fault[PTX_FAULT])
{
    entry *e = ptx_new(sizeof *e);
    *m->last = e;
    m->last = &e->next;
    sscanf(at, ".entry %159[A-Za-z0-9_$]", e->name);
    e->head = strchr(at, '(');
    e->body = strchr(at, '{');
    e->end = e->body ? closing_brace(e->body) : NULL;
    if (!e->head || !e->end)
        return ptx_fault(fault, "kernel %s has no end", e->name);
    *next = e->end;
    return true;
}

ptx_module *ptx_read(const char *text, char fault[PTX_FAULT])
{
    ptx_module *m = ptx_new(sizeof *m);
    m->text = strdup(text);
    m->last = &m->first;
    if (!m->text)
        ptx_new(SIZE_MAX);
    blank_comments(m->text);
    for (const char *p = m->text; (p = strstr(p, ".entry ")) != NULL;)
        if (!add_entry(m, p, &p, fault)) {
            ptx_free(m);
            return NULL;
        }
    if (strstr(m->text, ".version"))
        return m;
    ptx_fault(fault, "the text is not PTX: it names no .version");
    ptx_free(m);
    return NULL;
}

/* ---- declarations ---------------------------------------------------------------------------- */

static unsigned type_bytes(const char *type)
{
    return strcmp(type, "pred") == 0 ? 0 : (unsigned)atoi(type + 1) / 8;
}

/* Reads ".reg .f32 %f<9>" or ".reg .b64 %SP, %SPL". */
static bool declare_registers(ptx_decoder *d, const char *text)
{
    char type[16], names[PTX_STATEMENT];
    if (sscanf(text, ".reg .%15s %2047[^\n]", type, names) != 2)
        return ptx_fault(d->fault, "%s: a declaration of registers: %s", d->f->name, text);
    for (char *save, *p = strtok_r(names, ", \t", &save); p; p = strtok_r(NULL, ", \t", &save)) {
        p[strcspn(p, "<")] = '\0';
        ptx_names_add(&d->groups, p)->bytes = type_bytes(type);
    }
    return true;
}

/* Reads ".align 16 .b8 name[1024]", and places it in a space at the next fitting offset. */
static bool declare_variable(ptx_decoder *d, const char *text, uint64_t base, size_t *used)
{
    unsigned align = 0;
    char type[16], name[PTX_NAME];
    const char *p = strstr(text, ".align");
    int length = 0;
    if (p && sscanf(p, ".align %u%n", &align, &length) == 1)
        p += length;
    else
        p = strchr(text + 1, '.');
    if (!p || sscanf(p, " .%15s %159[^[ \t,)]%n", type, name, &length) != 2)
        return ptx_fault(d->fault, "%s: a declaration that is not understood: %s", d->f->name,
                         text);
    size_t bytes = type_bytes(type);
    align = align ? align : (unsigned)bytes;
    for (p = strchr(p + length - 1, '['); p; p = strchr(p + 1, '['))
        bytes *= (size_t)strtoull(p + 1, NULL, 0);
    *used = (*used + align - 1) / align * align;
    ptx_names_add(&d->variables, name)->value = (int64_t)(base + *used);
    *used += bytes;
    return true;
}

static bool declare_arguments(ptx_decoder *d, const entry *e)
{
    char text[PTX_STATEMENT];
    const char *end = strchr(e->head, ')');
    if (!end || end - e->head >= PTX_STATEMENT)
        return ptx_fault(d->fault, "%s: arguments without an end", e->name);
    snprintf(text, sizeof text, "%.*s", (int)(end - e->head - 1), e->head + 1);
    for (char *save, *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        const char *declaration = skip_spaces(p);
        if (*declaration && !declare_variable(d, declaration, PTX_PARAM_BASE, &d->f->args_bytes))
            return false;
    }
    return true;
}

/* Shared variables of device functions stand in front of all kernels; those that a kernel names are
 * its own. */
static bool declare_shared(ptx_decoder *d, const ptx_module *m)
{
    for (const char *p = m->text; (p = strstr(p, "\n.shared ")) != NULL;) {
        char text[PTX_STATEMENT], name[PTX_NAME];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(p + 1, ";"), p + 1);
        p++;
        const char *last = strrchr(text, ' ');
        snprintf(name, sizeof name, "%.*s", (int)strcspn(last + 1, "["), last + 1);
        if (strstr(d->f->strings, name) &&
            !declare_variable(d, text, PTX_SHARED_BASE, &d->f->shared_bytes))
            return false;
    }
    return true;
}

static bool declare(ptx_decoder *d, const char *text)
{
    if (strncmp(text, ".reg", 4) == 0)
        return declare_registers(d, text);
    if (strncmp(text, ".shared", 7) == 0)
        return declare_variable(d, text, PTX_SHARED_BASE, &d->f->shared_bytes);
    if (strncmp(text, ".local", 6) == 0)
        return declare_variable(d, text, PTX_LOCAL_BASE, &d->f->local_bytes);
    if (strncmp(text, ".pragma", 7) == 0)
        return true;
    return ptx_fault(d->fault, "%s: the executor does not know the directive %s", d->f->name, text);
}

/* ---- statements ------------------------------------------------------------------------------ */

/* Takes a statement apart, which it overwrites. */
static bool take_apart(ptx_decoder *d, char *text, ptx_statement *s)
{
    *s = (ptx_statement){0};
    char *p = text;
    if (*p == '@') {
        s->negated = p[1] == '!';
        s->guard = p + 1 + s->negated;
        p = s->guard + strcspn(s->guard, " \t\n");
        *p++ = '\0';
        p = (char *)skip_spaces(p);
    }
    s->name = p;
    p += strcspn(p, " \t\n");
    if (*p)
        *p++ = '\0';
    for (p = (char *)skip_spaces(p); *p; p = (char *)skip_spaces(p)) {
        if (s->operands == PTX_OPERANDS)
            return ptx_fault(d->fault, "%s: %s with too many operands", d->f->name, s->name);
        s->operand[s->operands++] = p;
        for (int depth = 0; *p && (depth > 0 || *p != ','); p++)
            depth += (*p == '{') - (*p == '}');
        if (*p)
            *p++ = '\0';
    }
    for (int k = 0; k < s->operands; k++)
        for (size_t n = strlen(s->operand[k]);
             n > 0 && isspace((unsigned char)s->operand[k][n - 1]);)
            s->operand[k][--n] = '\0';
    return true;
}

static ptx_instruction *new_instruction(ptx_function *f)
{
    if (f->length == f->room) {
        f->room = f->room ? 2 * f->room : 256;
        f->code = realloc(f->code, (size_t)f->room * sizeof *f->code);
        if (!f->code)
            ptx_new(SIZE_MAX);
    }
    f->code[f->length] = (ptx_instruction){0};
    return &f->code[f->length++];
}

static bool add_statement(ptx_decoder *d, const char *text, int line)
{
    char copy[PTX_STATEMENT];
    ptx_statement s;
    if (text[0] == '.')
        return declare(d, text);
    if (snprintf(copy, sizeof copy, "%s", text) >= PTX_STATEMENT)
        return ptx_fault(d->fault, "%s: a statement that is too long: %.80s", d->f->name, text);
    ptx_instruction *i = new_instruction(d->f);
    i->line = line;
    i->text = text;
    return take_apart(d, copy, &s) && ptx_decode(d, &s, i);
}

/* Returns the length of a label at p, "name:", without the colon; 0 where there is none. */
static size_t label_length(const char *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '$')
        n++;
    return p[n] == ':' ? n : 0;
}

/* Reads the body, which it cuts into statements. */
static bool add_statements(ptx_decoder *d, char *body, int line)
{
    for (char *p = body; *p;) {
        if (isspace((unsigned char)*p) || *p == '{' || *p == '}') {
            line += *p++ == '\n';
            continue;
        }
        const size_t label = label_length(p);
        if (label) {
            p[label] = '\0';
            ptx_names_add(&d->labels, p)->value = d->f->length;
            p += label + 1;
            continue;
        }
        char *end = strchr(p, ';');
        if (!end)
            return ptx_fault(d->fault, "%s: a statement without an end: %.80s", d->f->name, p);
        *end = '\0';
        if (!add_statement(d, p, line))
            return false;
        for (; p < end; p++)
            line += *p == '\n';
        p++;
    }
    return true;
}

static bool set_targets(ptx_decoder *d)
{
    for (int k = 0; k < d->branches; k++) {
        const ptx_named *label = ptx_names_find(&d->labels, d->branch[k].label);
        if (!label)
            return ptx_fault(d->fault, "%s: no label %s", d->f->name, d->branch[k].label);
        d->f->code[d->branch[k].instruction].target = (int)label->value;
    }
    return true;
}

/* ---- a kernel -------------------------------------------------------------------------------- */

static void free_function(ptx_function *f)
{
    if (!f)
        return;
    free(f->code);
    free(f->constant);
    free(f->constant_units);
    free(f->hits);
    free(f->lanes);
    free(f->strings);
    free(f);
}

static int line_of(const ptx_module *m, const char *at)
{
    int line = 1;
    for (const char *p = m->text; p < at; p++)
        line += *p == '\n';
    return line;
}

static ptx_function *decode_entry(const ptx_module *m, const entry *e, char fault[PTX_FAULT])
{
    ptx_function *f = ptx_new(sizeof *f);
    ptx_decoder d = {.f = f, .fault = fault};
    snprintf(f->name, sizeof f->name, "%s", e->name);
    f->strings = strndup(e->body + 1, (size_t)(e->end - e->body - 1));
    if (!f->strings)
        ptx_new(SIZE_MAX);
    const bool ok = declare_arguments(&d, e) && declare_shared(&d, m) &&
                    add_statements(&d, f->strings, line_of(m, e->body)) && set_targets(&d);
    ptx_names *const names[] = {&d.registers, &d.groups, &d.variables, &d.labels};
    for (int k = 0; k < 4; k++)
        ptx_names_free(names[k]);
    free(d.branch);
    if (!ok) {
        free_function(f);
        return NULL;
    }
    ptx_find_joins(f);
    f->hits = ptx_new((size_t)f->length * sizeof *f->hits);
    f->lanes = ptx_new((size_t)f->length * sizeof *f->lanes);
    return f;
}

ptx_function *ptx_find(ptx_module *m, const char *name, char fault[PTX_FAULT])
{
    fault[0] = '\0';
    for (entry *e = m->first; e; e = e->next)
        if (strcmp(e->name, name) == 0) {
            if (!e->f)
                e->f = decode_entry(m, e, fault);
            return e->f;
        }
    return NULL;
}

const ptx_function *ptx_next(const ptx_module *m, const ptx_function *behind)
{
    const entry *e = m->first;
    while (behind && e && e->f != behind)
        e = e->next;
    if (behind && e)
        e = e->next;
    while (e && !e->f)
        e = e->next;
    return e ? e->f : NULL;
}

size_t ptx_args_size(const ptx_function *f)
{
    return f->args_bytes;
}

const char *ptx_name(const ptx_function *f)
{
    return f->name;
}

void ptx_free(ptx_module *m)
{
    for (entry *e = m->first, *next; e; e = next) {
        next = e->next;
        free_function(e->f);
        free(e);
    }
    free(m->text);
    free(m);
}
