#include "jit/lean.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/resources.h"

/* Where the definition of a kernel begins and ends: in column 0, as everywhere in the dialect. */
static bool find_kernel(const char *text, const char *name, const char **first, const char **end)
{
    char head[128];
    snprintf(head, sizeof head, "KAS_KERNEL(%s,", name);
    *first = strstr(text, head);
    *end = *first ? strstr(*first, "\n}\n") : NULL;
    if (*end)
        *end += strlen("\n}\n");
    return *end != NULL;
}

static void put_switch(kas_buf *out, int lean)
{
    kas_buf_printf(out, "#undef KAS_LEAN\n#define KAS_LEAN %d\n", lean);
}

/* The rest of the text from the earliest of the listed kernels on. */
static const char *make_next_lean(const kas_resources *list, int count, const char *text,
                                  kas_buf *out)
{
    const char *first = NULL, *end = NULL;
    for (int i = 0; i < count; i++) {
        const char *from, *to;
        if (list[i].local_bytes && find_kernel(text, list[i].name, &from, &to) &&
            (!first || from < first)) {
            first = from;
            end = to;
        }
    }
    if (!first)
        return NULL;
    kas_buf_add(out, text, (size_t)(first - text));
    put_switch(out, 1);
    kas_buf_add(out, first, (size_t)(end - first));
    put_switch(out, 0);
    return end;
}

kas_status kas_lean_text(const void *image, size_t size, const char *text, long long *local_bytes,
                         kas_buf *lean)
{
    kas_resources *list;
    int count;
    *local_bytes = 0;
    const kas_status status = kas_cubin_resources(image, size, &list, &count);
    if (status == KAS_BAD_INPUT)
        return KAS_OK;
    KAS_TRY(status);
    for (int i = 0; i < count; i++)
        *local_bytes += list[i].local_bytes;
    for (const char *rest = text; lean && rest; rest = make_next_lean(list, count, rest, lean))
        text = rest;
    if (lean)
        kas_buf_puts(lean, text);
    free(list);
    return lean ? kas_buf_status(lean) : KAS_OK;
}
