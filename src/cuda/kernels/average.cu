#include "kernel.h"

/* A moving average of parameters: average += renew * (value - average). */
KAS_KERNEL(kas_dev_average, kas_average_args)
{
    const kas_u64 first = (kas_u64)KAS_BLOCK_X * KAS_UPDATE_BLOCK;
    const int count =
        (int)(a.count - first < KAS_UPDATE_BLOCK ? a.count - first : KAS_UPDATE_BLOCK);
    const float renew = a.rows[a.state->step].renew;
    const float *value = a.value + first;
    float *average = a.average + first;
    KAS_WATCH(found);
    KAS_WIDE_LANES (i, count) {
        KAS_WIDE_LOAD(now, value, i);
        KAS_WIDE_LOAD(before, average, i);
        KAS_WIDE_VALUE(after, kas_fma(renew, KAS_EACH_VALUE(now) - KAS_EACH_VALUE(before),
                                      KAS_EACH_VALUE(before)));
        KAS_WIDE_STORE(average, i, after);
        KAS_WATCH_VALUE(found, after)
    }
    KAS_WATCH_END(found, a.watch);
}
