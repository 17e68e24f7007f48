#include "host/data/read_ahead.h"

#include <stdlib.h>
#include <string.h>

enum {
    AHEAD = 256,
    WINDOW = KAS_SHUFFLE_BLOCK * KAS_SHUFFLE_BLOCKS,
    GAP = 8 /* up to this many unwanted images between two wanted ones are read too */
};

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Requests images of rising numbers, in as few runs as possible. */
static void ask_runs(const kas_storage *s, const uint32_t *number, uint32_t count)
{
    for (uint32_t i = 0; i < count;) {
        uint32_t first = number[i], last = first;
        while (++i < count && number[i] - last <= GAP)
            last = number[i];
        kas_storage_prefetch(s, first, last - first + 1);
    }
}

/* Requests the part of the next window that belongs to `position`, the first of a block. */
static void ask_next_window(const kas_storage *s, const uint32_t *order, uint32_t count,
                            uint32_t position)
{
    uint32_t sorted[WINDOW];
    uint64_t start = ((uint64_t)position / WINDOW + 1) * WINDOW;
    uint32_t part = position % WINDOW;
    if (start + part >= count)
        return;
    uint32_t size = count - start < WINDOW ? (uint32_t)(count - start) : WINDOW;
    memcpy(sorted, order + start, size * sizeof *sorted);
    qsort(sorted, size, sizeof *sorted, by_value);
    uint32_t left = size - part;
    ask_runs(s, sorted + part, left < KAS_SHUFFLE_BLOCK ? left : KAS_SHUFFLE_BLOCK);
}

void kas_read_ahead_begin(const kas_storage *s, const uint32_t *order, uint32_t count,
                          uint32_t first)
{
    for (uint32_t p = first; p < count && p - first < AHEAD; p++)
        kas_storage_prefetch(s, order[p], 1);
}

void kas_read_ahead(const kas_storage *s, kas_shuffle shuffle, const uint32_t *order,
                    uint32_t count, uint32_t from, uint32_t to)
{
    for (uint32_t p = from; p < to; p++) {
        if (count - p > AHEAD)
            kas_storage_prefetch(s, order[p + AHEAD], 1);
        if (shuffle == KAS_SHUFFLE_WINDOW && p % KAS_SHUFFLE_BLOCK == 0)
            ask_next_window(s, order, count, p);
    }
}
