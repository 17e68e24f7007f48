#include "host/train/layout.h"

#include <stdbool.h>
#include <stdlib.h>

enum { ALIGN = 256 };

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int larger_first(const void *a, const void *b)
{
    const kas_slot *x = *(kas_slot *const *)a, *y = *(kas_slot *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : 1; /* qsort is not stable; offsets must not depend on the C library */
}

static int lower_first(const void *a, const void *b)
{
    const kas_slot *x = *(kas_slot *const *)a, *y = *(kas_slot *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool meet(const kas_slot *a, const kas_slot *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest gap between the placed slots that are alive together with this one. `alive` is scratch
 * of `placed` entries. */
static size_t first_fit(const kas_slot *slot, kas_slot *const *order, int placed,
                        const kas_slot **alive)
{
    int n = 0;
    for (int i = 0; i < placed; i++)
        if (meet(slot, order[i]))
            alive[n++] = order[i];
    qsort(alive, (size_t)n, sizeof *alive, lower_first);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (alive[i]->offset >= at + rounded(slot->bytes))
            break;
        size_t end = alive[i]->offset + rounded(alive[i]->bytes);
        at = end > at ? end : at;
    }
    return at;
}

kas_status kas_layout_solve(kas_slot *slots, int count, size_t *total)
{
    kas_slot **order = calloc((size_t)count + 1, sizeof *order);
    const kas_slot **alive = calloc((size_t)count + 1, sizeof *alive);
    kas_status status = KAS_OK;
    if (!order || !alive) {
        status = kas_fail(KAS_NO_MEMORY, "no memory to place %d buffers", count);
        goto out;
    }
    int used = 0;
    for (int i = 0; i < count; i++) {
        slots[i].offset = 0;
        if (slots[i].first <= slots[i].last && slots[i].bytes > 0)
            order[used++] = &slots[i];
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
