/* Measures the limits of a device: its memory bandwidth and its arithmetic rate.
 *
 * A kernel that must move B bytes and do F multiply-adds cannot take less than max(B / bandwidth, F
 * / rate): its floor. Data sheets promise more than a machine delivers, and a shared machine
 * delivers less on some days than on others, so both limits are measured in the same run as the
 * times that are compared with them: the bandwidth by adding two arrays that no cache holds, the
 * rate by the library's product of large matrices in the precision of the run. A kernel whose data
 * fits in a cache can be faster than its floor. */
#ifndef KAS_BENCH_ROOFLINE_H
#define KAS_BENCH_ROOFLINE_H

#include "host/device/device.h"
#include "host/recipe/recipe.h"

typedef struct kas_roofline {
    double bytes_per_second;
    double flops_per_second; /* a multiply-add is one FLOP */
} kas_roofline;

/* Measures medians of several runs in about a second. When `known` is not NULL, *out is a copy of
 * it and nothing is measured. */
kas_status kas_roofline_measure(kas_device *device, kas_precision precision,
                                const kas_roofline *known, kas_roofline *out);

/* Returns the floor of a kernel in seconds. */
static inline double kas_roofline_floor(const kas_roofline *r, double bytes, double flops)
{
    const double memory = bytes / r->bytes_per_second, arithmetic = flops / r->flops_per_second;
    return memory > arithmetic ? memory : arithmetic;
}

#endif
