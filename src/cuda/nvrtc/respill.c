#include "cuda/nvrtc/respill.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/nvrtc/resources.h"

/* Finds where the definition of a kernel begins and ends: in column 0, as everywhere
 * in the dialect. */
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

/* Returns the rest of the text from the earliest of the listed kernels on. */
static const char *make_next_lean(const kas_respill *respill, const char *text, kas_buf *out)
{
    const char *first = NULL, *end = NULL;
    for (int i = 0; i < respill->count; i++) {
        const char *from, *to;
        if (find_kernel(text, respill->kernel[i].name, &from, &to) && (!first || from < first)) {
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

kas_status kas_respill_text(const char *text, const kas_respill *respill, kas_buf *out)
{
    for (const char *rest = text; rest; rest = make_next_lean(respill, rest, out))
        text = rest;
    kas_buf_puts(out, text);
    return kas_buf_status(out);
}

kas_status kas_respill_find(const void *image, size_t size, kas_respill *respill)
{
    int count;
    *respill = (kas_respill){0};
    const kas_status status = kas_cubin_resources(image, size, &respill->kernel, &count);
    if (status == KAS_BAD_INPUT)
        return KAS_OK;
    KAS_TRY(status);
    for (int i = 0; i < count; i++)
        if (respill->kernel[i].local_bytes > 0)
            respill->kernel[respill->count++] = respill->kernel[i];
    return KAS_OK;
}

static int local_bytes_of(const kas_resources *list, int count, const char *name, int otherwise)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].local_bytes;
    return otherwise;
}

kas_status kas_respill_keep_better(const void *image, size_t size, kas_respill *respill)
{
    kas_resources *now;
    int count, kept = 0;
    KAS_TRY(kas_cubin_resources(image, size, &now, &count));
    for (int i = 0; i < respill->count; i++) {
        const kas_resources *k = &respill->kernel[i];
        if (local_bytes_of(now, count, k->name, k->local_bytes) < k->local_bytes)
            respill->kernel[kept++] = *k;
    }
    respill->count = kept;
    free(now);
    return KAS_OK;
}

void kas_respill_free(kas_respill *respill)
{
    free(respill->kernel);
    *respill = (kas_respill){0};
}
