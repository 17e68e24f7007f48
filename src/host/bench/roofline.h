/* What a device can do at most, measured here and now.
 *
 * A kernel that must move B bytes and do F multiply-adds cannot take less than max(B / bandwidth,
 * F / rate): its floor.  Data sheets say more than a machine gives, and a shared machine gives less
 * today than yesterday, so both ceilings are measured in the same run as what is held against them:
 * the bandwidth by adding two arrays that no cache holds, the rate by a large product of matrices
 * in the precision of the run, as the library computes it.  What fits in a cache can beat its
 * floor. */
#ifndef KAS_BENCH_ROOFLINE_H
#define KAS_BENCH_ROOFLINE_H

#include "host/device/device.h"
#include "host/recipe/recipe.h"

typedef struct kas_roofline {
    double bytes_per_second;
    double flops_per_second; /* a multiply-add is one */
} kas_roofline;

/* Medians of several runs; about a second. With `known` (may be NULL) that is the result. */
kas_status kas_roofline_measure(kas_device *device, kas_precision precision,
                                const kas_roofline *known, kas_roofline *out);

static inline double kas_roofline_floor(const kas_roofline *r, double bytes, double flops)
{
    const double memory = bytes / r->bytes_per_second, arithmetic = flops / r->flops_per_second;
    return memory > arithmetic ? memory : arithmetic;
}

#endif
