/* Hash-consing: equal byte strings get equal small numbers. */
#ifndef KAS_JIT_INTERN_H
#define KAS_JIT_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "host/core/arena.h"

typedef struct kas_intern {
    struct kas_intern_entry {
        const void *data;
        uint32_t size, hash;
    } * entry;
    int count, capacity;
    int *slot; /* open addressing; -1 = empty */
    int slots;
} kas_intern;

void kas_intern_free(kas_intern *table);
/* The number of `data` (padding bytes zeroed by the caller); copied into `arena` when new.  -1 when
 * memory is exhausted. */
int kas_intern_put(kas_intern *table, kas_arena *arena, const void *data, size_t size);

static inline const void *kas_intern_get(const kas_intern *table, int number)
{
    return table->entry[number].data;
}

#endif
