/* Instructions: from their text to the form in which they run. An instruction that is not known
 * here or in the tables of lanes.h is an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/decode.h"

static bool unknown(const ptx_decoder *d, const ptx_statement *s, const char *why)
{
    return ptx_fault(d->fault, "%s: the executor does not know the instruction %s%s", d->f->name,
                     s->name, why);
}

static bool wants(const ptx_decoder *d, const ptx_statement *s, int operands)
{
    return s->operands == operands ||
           ptx_fault(d->fault, "%s: %s with %d operands", d->f->name, s->name, s->operands);
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Takes the text between braces apart, at commas; returns how many parts there are. */
static int split(char *text, char *part[PTX_VECTOR])
{
    int n = 0;
    for (char *save, *p = strtok_r(text, "{}, \t\n", &save); p;
         p = strtok_r(NULL, "{}, \t\n", &save)) {
        if (n == PTX_VECTOR)
            return PTX_VECTOR + 1;
        part[n++] = p;
    }
    return n;
}

/* Reads "%r1|%p2": a destination, and a predicate beside it. */
static bool split_predicate(ptx_decoder *d, char *text, int16_t *p)
{
    char *bar = strchr(text, '|');
    *p = -1;
    if (!bar)
        return true;
    *bar = '\0';
    return ptx_predicate(d, bar + 1, p);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Reads the element's type, u8 to f64. */
static bool read_type(const char *text, ptx_instruction *i)
{
    const int bits = atoi(text + 1);
    if (!strchr("busf", text[0]) || (bits != 8 && bits != 16 && bits != 32 && bits != 64))
        return false;
    i->size = (uint8_t)(bits / 8);
    i->mode = text[0] == 's';
    return true;
}

static bool read_modifier(const char *text, ptx_instruction *i)
{
    static const struct {
        const char *name;
        ptx_space space;
    } spaces[] = {{"global", PTX_GLOBAL},
                  {"shared", PTX_SHARED_SPACE},
                  {"local", PTX_LOCAL_SPACE},
                  {"param", PTX_PARAM}};
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
        if (strcmp(text, spaces[k].name) == 0) {
            i->space = spaces[k].space;
            return true;
        }
    if (strcmp(text, "v2") == 0 || strcmp(text, "v4") == 0) {
        i->count = (uint8_t)(text[1] - '0');
        return true;
    }
    const bool read_only = strcmp(text, "nc") == 0;
    i->read_only |= read_only;
    return read_only || strcmp(text, "volatile") == 0;
}

/* Reads what stands behind "ld." or "st.". */
static bool read_modifiers(ptx_decoder *d, const ptx_statement *s, ptx_instruction *i)
{
    char name[PTX_NAME];
    snprintf(name, sizeof name, "%s", s->name + 3);
    for (char *save, *p = strtok_r(name, ".", &save); p; p = strtok_r(NULL, ".", &save))
        if (!read_modifier(p, i) && !read_type(p, i))
            return unknown(d, s, "");
    return i->size || unknown(d, s, "");
}

/* Reads "[%rd1+8]": a register, or a variable's address, and an offset. */
static bool read_address(ptx_decoder *d, char *text, ptx_instruction *i)
{
    char *end = strchr(text, ']'), *plus = strchr(text, '+');
    if (text[0] != '[' || !end)
        return ptx_fault(d->fault, "%s: %s is no address", d->f->name, text);
    *end = '\0';
    if (plus) {
        *plus = '\0';
        i->offset = strtoll(plus + 1, NULL, 0);
    }
    return ptx_operand(d, text + 1, 8, &i->a);
}

static bool read_values(ptx_decoder *d, const ptx_statement *s, char *text, ptx_instruction *i)
{
    char *part[PTX_VECTOR];
    if (split(text, part) != i->count)
        return ptx_fault(d->fault, "%s: %s with other than %d registers", d->f->name, s->name,
                         i->count);
    /* What a store writes may be an immediate. */
    i->wide = i->size == 1 ? 2 : i->size;
    for (int k = 0; k < i->count; k++)
        if (ptx_register_bytes(d, part[k]))
            i->wide = (uint8_t)ptx_register_bytes(d, part[k]);
    for (int k = 0; k < i->count; k++)
        if (!ptx_operand(d, part[k], i->wide, &i->part[k]))
            return false;
    return true;
}

static uint8_t class_of_space(ptx_space space, bool load)
{
    return space == PTX_SHARED_SPACE  ? PTX_SHARED
           : space == PTX_LOCAL_SPACE ? PTX_LOCAL
           : space == PTX_PARAM       ? PTX_PARAMETER
           : load                     ? PTX_LOAD
                                      : PTX_STORE;
}

static bool decode_memory(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    const bool load = s->name[0] == 'l';
    i->kind = load ? PTX_LOAD_KIND : PTX_STORE_KIND;
    i->count = 1;
    if (!wants(d, s, 2) || !read_modifiers(d, s, i))
        return false;
    i->class = class_of_space(i->space, load);
    return read_address(d, s->operand[load], i) && read_values(d, s, s->operand[!load], i);
}

/* "cp.async.ca.shared.global [%rd1], [%rd2], 4" and "cp.async.wait_all". */
static bool decode_copy(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    if (strcmp(s->name, "cp.async.wait_all") == 0) {
        i->kind = PTX_COPIED;
        i->class = PTX_SHARED;
        return wants(d, s, 0);
    }
    i->kind = PTX_COPY_KIND;
    i->class = PTX_LOAD;
    i->size = 4;
    i->count = 1;
    if (!wants(d, s, 3) || strcmp(s->name, "cp.async.ca.shared.global") != 0 ||
        strcmp(s->operand[2], "4") != 0)
        return unknown(d, s, " but of 4 bytes");
    if (!read_address(d, s->operand[1], i))
        return false;
    i->b = i->a;
    return i->offset == 0 && read_address(d, s->operand[0], i) && i->offset == 0;
}

/* ---- predicates ------------------------------------------------------------------------------ */

/* setp: "setp.lt.and.s32 %p1, %r1, %r2, %p2" combines with a predicate. */
static bool decode_set(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    static const char *const combine[] = {
        [PTX_AND] = ".and.", [PTX_OR] = ".or.", [PTX_XOR] = ".xor."};
    char name[PTX_NAME];
    snprintf(name, sizeof name, "%s", s->name);
    i->kind = PTX_SET;
    i->p[1] = -1;
    int operands = 3;
    for (int k = 0; k < 3; k++) {
        char *at = strstr(name, combine[k]);
        if (!at)
            continue;
        memmove(at, at + strlen(combine[k]) - 1, strlen(at + strlen(combine[k]) - 1) + 1);
        i->mode = (uint8_t)k;
        operands = 4;
    }
    const ptx_operation *o = ptx_operation_find(name);
    if (!o)
        return unknown(d, s, "");
    i->fn = o->fn;
    i->class = o->class;
    return wants(d, s, operands) && ptx_predicate(d, s->operand[0], &i->p[0]) &&
           ptx_operand(d, s->operand[1], o->a, &i->a) &&
           ptx_operand(d, s->operand[2], o->b, &i->b) &&
           (operands == 3 || ptx_predicate(d, s->operand[3], &i->p[1]));
}

static bool decode_select(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    if (!read_type(s->name + strlen("selp."), i))
        return unknown(d, s, "");
    i->kind = PTX_SELECT;
    i->class = PTX_INTEGER;
    return wants(d, s, 4) && ptx_operand(d, s->operand[0], i->size, &i->d) &&
           ptx_operand(d, s->operand[1], i->size, &i->a) &&
           ptx_operand(d, s->operand[2], i->size, &i->b) &&
           ptx_predicate(d, s->operand[3], &i->p[0]);
}

static bool decode_insert(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    ptx_ref *const ref[] = {&i->d, &i->a, &i->b, &i->c, &i->part[0]};
    i->kind = PTX_INSERT;
    i->class = PTX_INTEGER;
    i->size = strcmp(s->name, "bfi.b64") == 0 ? 8 : 4;
    if (!wants(d, s, 5))
        return false;
    for (int k = 0; k < 5; k++)
        if (!ptx_operand(d, s->operand[k], k < 3 ? i->size : 4, ref[k]))
            return false;
    return true;
}

static bool decode_logic(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    static const char *const names[] = {[PTX_AND] = "and.pred",
                                        [PTX_OR] = "or.pred",
                                        [PTX_XOR] = "xor.pred",
                                        [PTX_NOT] = "not.pred",
                                        [PTX_MOVE] = "mov.pred"};
    int k = 0;
    while (k <= PTX_MOVE && strcmp(s->name, names[k]) != 0)
        k++;
    if (k > PTX_MOVE)
        return unknown(d, s, "");
    const int sources = k <= PTX_XOR ? 2 : 1;
    i->kind = PTX_PREDICATE;
    i->class = PTX_INTEGER;
    i->mode = (uint8_t)k;
    i->p[1] = i->p[2] = -1;
    if (!wants(d, s, 1 + sources) || !ptx_predicate(d, s->operand[0], &i->p[0]))
        return false;
    for (int n = 1; n <= sources; n++) {
        if (s->operand[n][0] == '%') {
            if (!ptx_predicate(d, s->operand[n], &i->p[n]))
                return false;
        } else
            i->offset = atoi(s->operand[n]) ? -1 : 0;
    }
    return true;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* mov between a register and registers that are its parts. */
static bool decode_pack(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    char *part[PTX_VECTOR];
    const bool pack = s->operand[1][0] == '{';
    const unsigned bytes = (unsigned)atoi(s->name + strlen("mov.b")) / 8;
    const int n = split(s->operand[pack], part);
    i->kind = pack ? PTX_PACK : PTX_UNPACK;
    i->class = PTX_INTEGER;
    if (!starts(s->name, "mov.b") || n < 2 || n > PTX_VECTOR || bytes < 4)
        return unknown(d, s, " with braces");
    i->count = (uint8_t)n;
    i->size = (uint8_t)(bytes / (unsigned)n);
    if (!ptx_operand(d, s->operand[!pack], bytes, &i->d))
        return false;
    for (int k = 0; k < n; k++)
        if (!ptx_operand(d, part[k], i->size, &i->part[k]))
            return false;
    return true;
}

static bool decode_shuffle(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    static const char *const names[] = {[PTX_BFLY] = "shfl.sync.bfly.b32",
                                        [PTX_DOWN] = "shfl.sync.down.b32",
                                        [PTX_UP] = "shfl.sync.up.b32",
                                        [PTX_IDX] = "shfl.sync.idx.b32"};
    int k = 0;
    while (k <= PTX_IDX && strcmp(s->name, names[k]) != 0)
        k++;
    if (k > PTX_IDX)
        return unknown(d, s, "");
    i->kind = PTX_SHUFFLE_KIND;
    i->class = PTX_SHUFFLE;
    i->mode = (uint8_t)k;
    return wants(d, s, 5) && split_predicate(d, s->operand[0], &i->p[0]) &&
           ptx_operand(d, s->operand[0], 4, &i->d) && ptx_operand(d, s->operand[1], 4, &i->a) &&
           ptx_operand(d, s->operand[2], 4, &i->b) && ptx_operand(d, s->operand[3], 4, &i->c) &&
           ptx_operand(d, s->operand[4], 4, &i->part[0]);
}

/* "mma.sync... {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f5, %f6, %f7, %f8}". */
static bool decode_mma(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    static const char *const names[] = {
        [PTX_MMA_TF32] = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        [PTX_MMA_BF16] = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        [PTX_MMA_F16] = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"};
    static const int registers[] = {4, 4, 2, 4};
    char *part[PTX_VECTOR];
    int k = 0, parts = 0;
    while (k <= PTX_MMA_F16 && strcmp(s->name, names[k]) != 0)
        k++;
    if (k > PTX_MMA_F16)
        return unknown(d, s, "");
    i->kind = PTX_MMA_KIND;
    i->class = PTX_TENSOR;
    i->mode = (uint8_t)k;
    if (!wants(d, s, 4))
        return false;
    for (int o = 0; o < 4; o++) {
        if (split(s->operand[o], part) != registers[o])
            return unknown(d, s, " with other registers");
        for (k = 0; k < registers[o]; k++)
            if (!ptx_operand(d, part[k], 4, &i->part[parts++]))
                return false;
    }
    return true;
}

static bool decode_branch(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    i->kind = PTX_BRANCH_KIND;
    i->class = PTX_BRANCH;
    if (!wants(d, s, 1))
        return false;
    if (d->branches == d->branch_room) {
        d->branch_room = d->branch_room ? 2 * d->branch_room : 64;
        void *grown = realloc(d->branch, (size_t)d->branch_room * sizeof *d->branch);
        if (!grown)
            ptx_new(SIZE_MAX); /* ends the process */
        d->branch = grown;
    }
    snprintf(d->branch[d->branches].label, PTX_NAME, "%s", s->operand[0]);
    d->branch[d->branches++].instruction = (int)(i - d->f->code);
    return true;
}

static bool decode_barrier(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    i->kind = PTX_BARRIER_KIND;
    i->class = PTX_BARRIER;
    return wants(d, s, 1) &&
           (strcmp(s->operand[0], "0") == 0 || unknown(d, s, " for a barrier other than 0"));
}

static bool decode_alu(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    const ptx_operation *o = ptx_operation_find(s->name);
    if (!o || o->sets)
        return unknown(d, s, "");
    const unsigned bytes[] = {o->d, o->a, o->b, o->c};
    ptx_ref *const ref[] = {&i->d, &i->a, &i->b, &i->c};
    i->kind = PTX_ALU;
    i->moves = starts(s->name, "mov.");
    i->class = o->class;
    i->size = o->d;
    i->fn = o->fn;
    int n = 0;
    while (n < 4 && bytes[n])
        n++;
    if (!wants(d, s, n))
        return false;
    for (int k = 0; k < n; k++)
        if (!ptx_operand(d, s->operand[k], bytes[k], ref[k]))
            return false;
    for (int k = n; k < 4; k++)
        *ref[k] = i->a; /* read by nothing */
    return true;
}

static bool decode_any(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    if (starts(s->name, "ld.") || starts(s->name, "st."))
        return decode_memory(d, s, i);
    if (starts(s->name, "cp.async."))
        return decode_copy(d, s, i);
    if (starts(s->name, "setp."))
        return decode_set(d, s, i);
    if (starts(s->name, "selp."))
        return decode_select(d, s, i);
    if (strcmp(s->name, "bfi.b32") == 0 || strcmp(s->name, "bfi.b64") == 0)
        return decode_insert(d, s, i);
    if (starts(s->name, "shfl."))
        return decode_shuffle(d, s, i);
    if (starts(s->name, "mma."))
        return decode_mma(d, s, i);
    if (strstr(s->name, ".pred"))
        return decode_logic(d, s, i);
    if (strcmp(s->name, "bra") == 0 || strcmp(s->name, "bra.uni") == 0)
        return decode_branch(d, s, i);
    if (strcmp(s->name, "bar.sync") == 0)
        return decode_barrier(d, s, i);
    if (starts(s->name, "mov.b") && s->operands == 2 &&
        (s->operand[0][0] == '{' || s->operand[1][0] == '{'))
        return decode_pack(d, s, i);
    if (strcmp(s->name, "ret") == 0) {
        i->kind = PTX_RETURN;
        i->class = PTX_BRANCH;
        return wants(d, s, 0);
    }
    return decode_alu(d, s, i);
}

bool ptx_decode(ptx_decoder *d, ptx_statement *s, ptx_instruction *i)
{
    i->guard = -1;
    i->p[0] = -1;
    i->negated = s->negated;
    return (!s->guard || ptx_predicate(d, s->guard, &i->guard)) && decode_any(d, s, i);
}
