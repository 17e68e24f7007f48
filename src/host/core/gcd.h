/* The greatest common divisor. That of 0 and n is n. */
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

#endif
