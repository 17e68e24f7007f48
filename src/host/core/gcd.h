/* The greatest common divisor, and divisors within a limit. gcd(0, n) is n. */
#ifndef KAS_CORE_GCD_H
#define KAS_CORE_GCD_H

#include <stdint.h>

static inline uint64_t kas_gcd(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Of their absolute values. */
static inline int64_t kas_gcd_signed(int64_t a, int64_t b)
{
    return (int64_t)kas_gcd(a < 0 ? -(uint64_t)a : (uint64_t)a, b < 0 ? -(uint64_t)b : (uint64_t)b);
}

/* Returns the largest divisor of `size` that is at most `most`; 1 where there is none. */
static inline int64_t kas_divisor_within(int64_t size, int64_t most)
{
    int64_t divisor = size < most ? size : most;
    while (divisor > 1 && size % divisor)
        divisor--;
    return divisor > 1 ? divisor : 1;
}

#endif
