/* Hash-consing: gives equal byte strings equal small numbers. */
#ifndef KAS_JIT_IR_HASHCONS_H
#define KAS_JIT_IR_HASHCONS_H

#include <stddef.h>
#include <stdint.h>

#include "host/core/arena.h"

typedef struct kas_hashcons {
    struct kas_hashcons_entry {
        const void *data;
        uint32_t size, hash;
    } * entry;
    int count;
    int *slot; /* open addressing; -1 = empty */
    int slots;
} kas_hashcons;

void kas_hashcons_free(kas_hashcons *table);
/* Returns the number of `data`, whose padding bytes the caller has zeroed and whose size is a multiple
 * of 8 bytes; new data are copied into `arena`. Returns -1 when memory is exhausted. */
int kas_hashcons_put(kas_hashcons *table, kas_arena *arena, const void *data, size_t size);

/* Returns the data with this number. */
static inline const void *kas_hashcons_get(const kas_hashcons *table, int number)
{
    return table->entry[number].data;
}

#endif
