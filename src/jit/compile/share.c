#include "jit/compile/share.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/buf.h"
#include "host/core/arena.h"

typedef struct entry {
    kas_buf text; /* kas_kernel_nameless */
    const char *function;
} entry;

typedef struct table {
    entry *entry;
    int entries;
} table;

static void free_table(table *t)
{
    for (int i = 0; i < t->entries; i++)
        kas_buf_free(&t->entry[i].text);
    free(t->entry);
}

kas_status kas_kernel_named(const kas_program *p, const kas_operation *op, const char *own,
                            kas_buf *out)
{
    const char *from = p->source + op->text, *end = from + op->text_size;
    const size_t length = strlen(op->function);
    while (from < end) {
        const char *name = memmem(from, (size_t)(end - from), op->function, length);
        const char *stop = name ? name : end;
        kas_buf_add(out, from, (size_t)(stop - from));
        if (name)
            kas_buf_puts(out, own);
        from = name ? name + length : end;
    }
    return kas_buf_status(out);
}

kas_status kas_kernel_nameless(const kas_program *p, const kas_operation *op, kas_buf *out)
{
    kas_buf_printf(out, "%d ", p->dtype);
    return kas_kernel_named(p, op, "", out);
}

static const entry *find(const table *t, const kas_buf *text)
{
    for (int i = 0; i < t->entries; i++)
        if (t->entry[i].text.size == text->size &&
            memcmp(t->entry[i].text.data, text->data, text->size) == 0)
            return &t->entry[i];
    return NULL;
}

static kas_status add(table *t, const kas_buf *text, const char *function)
{
    if (!KAS_GROW(t->entry, t->entries))
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was lowered");
    t->entry[t->entries++] = (entry){*text, function};
    return KAS_OK;
}

static kas_status share_one(table *t, kas_program *p, kas_operation *op)
{
    kas_buf text = {0};
    kas_status status = kas_kernel_nameless(p, op, &text);
    const entry *known = status == KAS_OK ? find(t, &text) : NULL;
    if (status == KAS_OK && !known)
        status = add(t, &text, op->function);
    if (known) {
        memcpy(op->function, known->function, sizeof op->function);
        memcpy(op->symbol, known->function, sizeof op->symbol);
        memset(p->source + op->text, 0, op->text_size); /* close_up removes it */
        op->text_size = 0;
    }
    if (known || status != KAS_OK)
        kas_buf_free(&text);
    return status;
}

static kas_status share_pass(table *t, kas_program *p, kas_operation *op, int count)
{
    for (int i = 0; i < count; i++)
        if (op[i].kind == KAS_OPERATION_LAUNCH && op[i].text_size > 0)
            KAS_TRY(share_one(t, p, &op[i]));
    return KAS_OK;
}

static size_t dropped_before(const char *source, size_t place)
{
    size_t dropped = 0;
    for (size_t i = 0; i < place; i++)
        dropped += source[i] == 0;
    return dropped;
}

static void close_up(kas_program *p, size_t length)
{
    for (int i = 0; i < p->forwards; i++)
        p->forward[i].text -= dropped_before(p->source, p->forward[i].text);
    for (int i = 0; i < p->backwards; i++)
        p->backward[i].text -= dropped_before(p->source, p->backward[i].text);
    for (int i = 0; i < p->epilogues; i++)
        p->epilogue_kernel[i].text -= dropped_before(p->source, p->epilogue_kernel[i].text);
    char *to = p->source;
    for (size_t i = 0; i < length; i++)
        if (p->source[i])
            *to++ = p->source[i];
    *to = 0;
}

kas_status kas_programs_share(kas_program *const *program, int count)
{
    table t = {0};
    kas_status status = KAS_OK;
    for (int i = 0; i < count && status == KAS_OK; i++) {
        kas_program *p = program[i];
        const size_t length = strlen(p->source);
        status = share_pass(&t, p, p->forward, p->forwards);
        if (status == KAS_OK)
            status = share_pass(&t, p, p->backward, p->backwards);
        if (status == KAS_OK)
            status = share_pass(&t, p, p->epilogue_kernel, p->epilogues);
        close_up(p, length);
    }
    free_table(&t);
    return status;
}
