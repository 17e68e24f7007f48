#include "host/model/layout.h"

#include <stdbool.h>
#include <stdlib.h>

enum { ALIGN = 256 };

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int larger_first(const void *a, const void *b)
{
    const kas_layout_buffer *x = *(kas_layout_buffer *const *)a,
                            *y = *(kas_layout_buffer *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : 1; /* qsort is not stable; offsets must not depend on the C library */
}

static int lower_first(const void *a, const void *b)
{
    const kas_layout_buffer *x = *(kas_layout_buffer *const *)a,
                            *y = *(kas_layout_buffer *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool meet(const kas_layout_buffer *a, const kas_layout_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Returns the offset of the lowest gap between the placed buffers that are alive together with this
 * one. `alive` is scratch of `placed` entries. */
static size_t first_fit(const kas_layout_buffer *buffer, kas_layout_buffer *const *order,
                        int placed, const kas_layout_buffer **alive)
{
    int n = 0;
    for (int i = 0; i < placed; i++)
        if (meet(buffer, order[i]))
            alive[n++] = order[i];
    qsort(alive, (size_t)n, sizeof *alive, lower_first);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (alive[i]->offset >= at + rounded(buffer->bytes))
            break;
        size_t end = alive[i]->offset + rounded(alive[i]->bytes);
        at = end > at ? end : at;
    }
    return at;
}

kas_status kas_layout_solve(kas_layout_buffer *buffers, int count, size_t *total)
{
    kas_layout_buffer **order = calloc((size_t)count + 1, sizeof *order);
    const kas_layout_buffer **alive = calloc((size_t)count + 1, sizeof *alive);
    kas_status status = KAS_OK;
    if (!order || !alive) {
        status = kas_fail(KAS_NO_MEMORY, "no memory to place %d buffers", count);
        goto out;
    }
    int used = 0;
    for (int i = 0; i < count; i++) {
        buffers[i].offset = 0;
        if (buffers[i].first <= buffers[i].last && buffers[i].bytes > 0)
            order[used++] = &buffers[i];
    }
    qsort(order, (size_t)used, sizeof *order, larger_first);
    *total = 0;
    for (int i = 0; i < used; i++) {
        order[i]->offset = first_fit(order[i], order, i, alive);
        size_t end = order[i]->offset + rounded(order[i]->bytes);
        *total = end > *total ? end : *total;
    }
out:
    free(alive);
    free(order);
    return status;
}
