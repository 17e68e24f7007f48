/* bf16 and float16 computed in float64, straight from the definition of the formats: a sign,
 * `exponent` bits with a bias, `fraction` bits; the smallest exponent holds the numbers near 0, the
 * largest infinity and NaN. */
#ifndef TESTS_OPS_DTYPE_H
#define TESTS_OPS_DTYPE_H

#include <math.h>
#include <stdint.h>

#include "host/device/device.h"

static inline int number_fraction(kas_dtype dtype)
{
    return dtype == KAS_F32 ? 23 : dtype == KAS_BF16 ? 7 : 10;
}
/* Returns the exponent of the smallest normal number. */
static inline int number_lowest(kas_dtype dtype)
{
    return dtype == KAS_F16 ? -14 : -126;
}
static inline double number_largest(kas_dtype dtype)
{
    return ldexp(2 - ldexp(1, -number_fraction(dtype)), 1 - number_lowest(dtype));
}
/* Returns half the distance from 1 to the next number: the largest relative error of a rounding. */
static inline double number_epsilon(kas_dtype dtype)
{
    return ldexp(1, -1 - number_fraction(dtype));
}

static inline double number_value(kas_dtype dtype, uint16_t bits)
{
    const int fraction = number_fraction(dtype), wide = 15 - fraction;
    const int exponent = bits >> fraction & ((1 << wide) - 1);
    const double part = bits & ((1 << fraction) - 1), sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << wide) - 1)
        return part > 0 ? NAN : sign * INFINITY;
    const double size = exponent == 0 ? ldexp(part, number_lowest(dtype) - fraction)
                                      : ldexp(ldexp(1, fraction) + part,
                                              number_lowest(dtype) + exponent - 1 - fraction);
    return sign * size;
}

/* Returns the next value away from 0, as if the exponent had no end. */
static inline double number_next(kas_dtype dtype, uint16_t bits)
{
    const double value = number_value(dtype, bits), largest = number_largest(dtype);
    if (fabs(value) == largest)
        return copysign(ldexp(1, 2 - number_lowest(dtype)), value);
    return number_value(dtype, (uint16_t)(bits + 1));
}

/* Returns `x` rounded to the nearest number, ties to even. */
static inline double number_round(kas_dtype dtype, double x)
{
    int exponent;
    if (!isfinite(x) || x == 0)
        return x;
    frexp(x, &exponent); /* |x| in [2^(exponent-1), 2^exponent) */
    const int lowest = number_lowest(dtype);
    const int unit = (exponent - 1 > lowest ? exponent - 1 : lowest) - number_fraction(dtype);
    const double rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return fabs(rounded) > number_largest(dtype) ? copysign(INFINITY, x) : rounded;
}

/* Returns the bits of `x` after rounding. */
static inline uint16_t number_bits(kas_dtype dtype, double x)
{
    const int fraction = number_fraction(dtype), lowest = number_lowest(dtype);
    const uint16_t top = (uint16_t)((1 << (15 - fraction)) - 1) << fraction;
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double size = fabs(number_round(dtype, x));
    if (isnan(x))
        return top + 1;
    if (isinf(size))
        return sign + top;
    if (size < ldexp(1, lowest))
        return sign + (uint16_t)ldexp(size, fraction - lowest);
    int exponent;
    const double part = 2 * frexp(size, &exponent); /* in [1, 2), times 2^(exponent - 1) */
    return sign + (uint16_t)((exponent - lowest) << fraction) + (uint16_t)ldexp(part - 1, fraction);
}

#endif
