#include "host/core/random.h"

#include <math.h>

void kas_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0;
        uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u; /* golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

kas_rng kas_rng_make(uint64_t seed, kas_purpose purpose, uint64_t stream)
{
    /* Philox itself mixes the purpose into the key, so that seeds that differ by a small number do
     * not give the keys of other purposes. */
    const uint32_t counter[4] = {(uint32_t)purpose, 0, 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t mixed[4];
    kas_philox4x32(counter, key, mixed);
    return (kas_rng){
        .key = {mixed[0], mixed[1]},
        .counter = {0, 0, (uint32_t)stream, (uint32_t)(stream >> 32)},
        .used = 4,
    };
}

uint32_t kas_rng_u32(kas_rng *rng)
{
    if (rng->used == 4) {
        kas_philox4x32(rng->counter, rng->key, rng->block);
        if (++rng->counter[0] == 0)
            rng->counter[1]++;
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

uint32_t kas_rng_below(kas_rng *rng, uint32_t n)
{
    /* This is Lemire's multiplication, which draws again in the small zone that would be biased. */
    for (;;) {
        uint64_t product = (uint64_t)kas_rng_u32(rng) * n;
        /* The zone has -n % n < n numbers: the division is seldom needed. */
        if ((uint32_t)product >= n || (uint32_t)product >= -n % n)
            return (uint32_t)(product >> 32);
    }
}

void kas_rng_shuffle(kas_rng *rng, uint32_t *values, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t k = kas_rng_below(rng, i), moved = values[i - 1];
        values[i - 1] = values[k];
        values[k] = moved;
    }
}

double kas_rng_unit(kas_rng *rng)
{
    uint64_t high = kas_rng_u32(rng), low = kas_rng_u32(rng);
    return (double)((high << 21) ^ (low >> 11)) * 0x1p-53;
}

double kas_rng_normal(kas_rng *rng)
{
    double u = 1.0 - kas_rng_unit(rng); /* (0, 1] */
    double v = kas_rng_unit(rng);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}
