#include "host/data/order.h"

#include <inttypes.h>
#include <stdlib.h>

#include "host/core/random.h"

static kas_status order_by_blocks(kas_rng *rng, const uint32_t *index, uint32_t count,
                                  uint32_t *order)
{
    uint32_t blocks = (count - 1) / KAS_SHUFFLE_BLOCK + 1, at = 0, window = 0;
    uint32_t *block = malloc(sizeof *block * blocks);
    if (!block)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of %" PRIu32 " blocks", blocks);
    for (uint32_t b = 0; b < blocks; b++)
        block[b] = b;
    kas_rng_shuffle(rng, block, blocks);
    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t first = block[b] * KAS_SHUFFLE_BLOCK;
        uint32_t size = count - first < KAS_SHUFFLE_BLOCK ? count - first : KAS_SHUFFLE_BLOCK;
        for (uint32_t i = first; i < first + size; i++)
            order[at++] = index ? index[i] : i;
        if ((b + 1) % KAS_SHUFFLE_BLOCKS == 0 || b + 1 == blocks) {
            kas_rng_shuffle(rng, order + window, at - window);
            window = at;
        }
    }
    free(block);
    return KAS_OK;
}

kas_status kas_epoch_order(uint64_t seed, uint32_t epoch, kas_shuffle shuffle,
                           const uint32_t *index, uint32_t count, uint32_t *order)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_SHUFFLE, epoch);
    if (shuffle == KAS_SHUFFLE_WINDOW && count > 0)
        return order_by_blocks(&rng, index, count, order);
    for (uint32_t i = 0; i < count; i++)
        order[i] = index ? index[i] : i;
    kas_rng_shuffle(&rng, order, count);
    return KAS_OK;
}
