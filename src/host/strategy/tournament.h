/* Tournaments, by which evolution chooses parents. Other folders include this header. */
#ifndef KAS_STRATEGY_TOURNAMENT_H
#define KAS_STRATEGY_TOURNAMENT_H

#include "host/core/random.h"

/* Draws `size` of `count` members, which are sorted, the best first, and returns the place of the best
 * that was drawn. count >= 1. */
static inline int kas_tournament(int count, int size, kas_rng *rng)
{
    int best = count - 1;
    for (int i = 0; i < size; i++) {
        const int drawn = (int)kas_rng_below(rng, (uint32_t)count);
        best = drawn < best ? drawn : best;
    }
    return best;
}

#endif
