/* Random rounding of the reference's values: see kas_reference_round. */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

void kas_reference_round(kas_reference *ref, int bits, uint64_t seed)
{
    ref->bits = bits;
    ref->rounding = kas_rng_make(seed, KAS_PURPOSE_TEST, UINT64_MAX);
}

static double round_one(double value, int bits, kas_rng *rng)
{
    int exponent;
    const double scaled = ldexp(frexp(value, &exponent), bits), below = floor(scaled);
    if (!isfinite(value) || below == scaled)
        return value;
    return ldexp(below + (kas_rng_u32(rng) & 1), exponent - bits);
}

double kas_ref_inner(const kas_ref_values *v, double value)
{
    kas_reference *ref = v->rounded;
    if (!ref->bits)
        return value;
    return value + ldexp(kas_rng_u32(&ref->rounding) & 1 ? value : -value, -ref->bits);
}

void kas_ref_round(kas_reference *ref, double *values, size_t size)
{
    for (size_t i = 0; ref->bits && i < size; i++)
        values[i] = round_one(values[i], ref->bits, &ref->rounding);
}
