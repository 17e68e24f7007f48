#include "jit/ir/hashcons.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"

/* Two words at a time, each in a chain of multiplications of its own: lowering spends a tenth of its
 * time here. */
static uint32_t hash_words(const void *data, size_t size)
{
    const unsigned char *at = data, *end = at + size;
    uint64_t even = size, odd = 0, word[2];
    for (; end - at >= 16; at += 16) {
        memcpy(word, at, 16);
        even = (even ^ word[0]) * UINT64_C(0x9e3779b97f4a7c15);
        odd = (odd ^ word[1]) * UINT64_C(0xc2b2ae3d27d4eb4f);
        even ^= even >> 32;
        odd ^= odd >> 32;
    }
    if (at < end) {
        memcpy(word, at, 8);
        even ^= word[0];
    }
    even = (even ^ (odd << 17 | odd >> 47)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(even ^ even >> 32);
}

void kas_hashcons_free(kas_hashcons *table)
{
    free(table->entry);
    free(table->slot);
    *table = (kas_hashcons){0};
}

static int rehash(kas_hashcons *table)
{
    int slots = table->slots ? table->slots * 2 : 256;
    int *slot = malloc(sizeof *slot * (size_t)slots);
    if (!slot)
        return -1;
    memset(slot, 0xff, sizeof *slot * (size_t)slots);
    for (int i = 0; i < table->count; i++) {
        int at = (int)(table->entry[i].hash & (uint32_t)(slots - 1));
        while (slot[at] >= 0)
            at = (at + 1) & (slots - 1);
        slot[at] = i;
    }
    free(table->slot);
    table->slot = slot;
    table->slots = slots;
    return 0;
}

static int append(kas_hashcons *table, kas_arena *arena, const void *data, size_t size,
                  uint32_t hash)
{
    if (!KAS_GROW(table->entry, table->count))
        return -1;
    void *copy = kas_arena_alloc(arena, size);
    if (!copy)
        return -1;
    memcpy(copy, data, size);
    table->entry[table->count] = (struct kas_hashcons_entry){copy, (uint32_t)size, hash};
    return table->count++;
}

int kas_hashcons_put(kas_hashcons *table, kas_arena *arena, const void *data, size_t size)
{
    uint32_t hash = hash_words(data, size);
    if (2 * (table->count + 1) > table->slots && rehash(table) != 0)
        return -1;
    int at = (int)(hash & (uint32_t)(table->slots - 1));
    for (; table->slot[at] >= 0; at = (at + 1) & (table->slots - 1)) {
        const struct kas_hashcons_entry *e = &table->entry[table->slot[at]];
        if (e->hash == hash && e->size == size && memcmp(e->data, data, size) == 0)
            return table->slot[at];
    }
    int number = append(table, arena, data, size, hash);
    if (number >= 0)
        table->slot[at] = number;
    return number;
}
