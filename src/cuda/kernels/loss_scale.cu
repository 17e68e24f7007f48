#include "kernel.h"

/* The loss scale of float16 (ops.h). From the sums of clip.cu's first pass it decides whether the
 * step counts, the factor of its gradient, and the next scale. */
KAS_KERNEL(kas_dev_loss_scale, kas_loss_scale_args)
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
        const float scale = a.state->scale, length = kas_sqrt(sum) / scale;
        const float limited = a.limit > 0.0f ? kas_min(a.limit / (length + 1e-6f), 1.0f) : 1.0f;
        const int finite = sum - sum == 0.0f;
        const kas_u32 good = finite ? a.state->good + 1 : 0;
        const int grows = good >= a.patience;
        const float next = finite ? (grows ? 2.0f * scale : scale) : 0.5f * scale;
        *a.factor = finite ? limited / scale : 0.0f;
        a.state->scale = kas_min(kas_max(next, KAS_SCALE_LEAST), KAS_SCALE_MOST);
        a.state->good = grows ? 0 : good;
        a.state->skipped += finite ? 0 : 1;
    }
}
