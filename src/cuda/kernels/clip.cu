#include "kernel.h"

/* Computes the length of the whole gradient, in two passes of fixed order, and the factor that
 * limits it. */
KAS_KERNEL(kas_dev_clip_partial, kas_clip_args)
{
    KAS_SHARED(float, work, KAS_CLIP_SUMS);
    const kas_u64 first = (kas_u64)KAS_BLOCK_X * KAS_CLIP_BLOCK;
    const int count = (int)(a.count - first < KAS_CLIP_BLOCK ? a.count - first : KAS_CLIP_BLOCK);
    const int lanes = kas_imin(KAS_CLIP_SUMS, count);
    KAS_WIDE_LANE(own, KAS_CLIP_SUMS);
    kas_team_zero_one(own, lanes);
    for (int base = 0; base < count; base += KAS_CLIP_SUMS) {
        KAS_WIDE_THREADS (t, kas_imin(KAS_CLIP_SUMS, count - base)) {
            KAS_WIDE_LOAD(g, a.grad + first + base, t);
            KAS_EACH(KAS_EACH_OF(own, t) =
                         kas_fma(KAS_EACH_VALUE(g), KAS_EACH_VALUE(g), KAS_EACH_OF(own, t));)
        }
    }
    kas_team_keep_one(work, own, lanes, 1);
    const float sum = kas_block_sum(work, lanes);
    KAS_ONE_LANE
    {
        a.partial[KAS_BLOCK_X] = sum;
    }
}

/* One value for each block of the first pass. */
KAS_KERNEL(kas_dev_clip_scale, kas_clip_args)
{
    KAS_SHARED(float, work, KAS_CLIP_LANES);
    const int lanes = kas_imin(KAS_CLIP_LANES, a.blocks);
    KAS_THREADS (t, lanes) {
        float sum = 0.0f;
        for (int i = t; i < a.blocks; i += KAS_CLIP_LANES)
            sum += a.partial[i];
        work[t] = sum;
    }
    const float sum = kas_block_sum(work, lanes);
    KAS_ONE_LANE
    {
        *a.scale = kas_min(a.limit / (kas_sqrt(sum) + 1e-6f), 1.0f);
    }
}
