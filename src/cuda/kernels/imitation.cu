#include "kernel.h"

/* The share of a tensor's variance that its imitation misses (ops.h), from the statistics of both:
 * one block. Channels are weighted as the batch norm behind the tensor scales them. */
KAS_FN float kas_imitation_weight(const kas_imitation_args *a, int c)
{
    return a->gamma ? a->gamma[c] * a->gamma[c] / (a->running_var[c] + a->eps) : 1.0f;
}

KAS_KERNEL(kas_dev_imitation, kas_imitation_args)
{
    KAS_SHARED(float, missed, KAS_IMITATION_LANES);
    KAS_SHARED(float, wanted, KAS_IMITATION_LANES);
    const int lanes = kas_imin(KAS_IMITATION_LANES, a.c);
    KAS_THREADS (t, lanes) {
        float m = 0.0f, w = 0.0f;
        for (int c = t; c < a.c; c += KAS_IMITATION_LANES) {
            const float weight = kas_imitation_weight(&a, c);
            m += weight / (a.error_rstd[c] * a.error_rstd[c]);
            w += weight / (a.target_rstd[c] * a.target_rstd[c]);
        }
        missed[t] = m;
        wanted[t] = w;
    }
    const float all_missed = kas_block_sum(missed, lanes);
    const float all_wanted = kas_block_sum(wanted, lanes);
    const float scale = all_wanted > 0.0f ? 2.0f / ((float)a.rows * all_wanted) : 0.0f;
    KAS_LANES (c, a.c) {
        a.factor[c] = kas_imitation_weight(&a, c) * scale;
        a.one[c] = 1.0f;
        a.zero[c] = 0.0f;
    }
    KAS_ONE_LANE
    {
        a.sum->missed += (double)all_missed;
        a.sum->wanted += (double)all_wanted;
    }
}
