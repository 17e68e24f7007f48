#include "kernel.h"

/* The optimisers, over all parameters at once (ops.h): groups of 64, so that all of them can be
 * accessed 16 bytes at a time. */

/* Writes the copy of the parameters that convolutions read, where its dtype is another one. */
#if KAS_DTYPE == 0
#define KAS_UPDATE_COPY(i, value)
#else
#define KAS_UPDATE_COPY(i, value) KAS_WIDE_STORE_REAL(copy, i, value);
#endif

/* Returns whether the step is skipped because its gradient is not finite: only for float16, where
 * the loss scale says so. */
#define KAS_UPDATE_SKIPS(scale) (KAS_DTYPE == 2 && (scale) == 0.0f)

KAS_FN float kas_update_scale(const kas_update_args *a)
{
    return a->grad_scale ? *a->grad_scale : 1.0f;
}
KAS_FN int kas_update_count(const kas_update_args *a, kas_u64 first)
{
    return (int)(a->count - first < KAS_UPDATE_BLOCK ? a->count - first : KAS_UPDATE_BLOCK);
}

/* SGD with momentum and weight decay. */
KAS_KERNEL(kas_dev_sgd, kas_update_args)
{
    const kas_u64 first = (kas_u64)KAS_BLOCK_X * KAS_UPDATE_BLOCK;
    const int count = kas_update_count(&a, first);
    const float lr = a.rows[a.state->step].lr, scale = kas_update_scale(&a);
    if (KAS_UPDATE_SKIPS(scale))
        return;
    const float momentum = a.momentum;
    float *p = a.param + first, *v = a.first + first;
    const float *grad = a.grad + first, *decay = a.decay + (first >> KAS_UPDATE_SHIFT);
#if KAS_DTYPE != 0
    kas_real *copy = a.copy + first;
#endif
    KAS_WATCH(found);
    KAS_WIDE_LANES (i, count) {
        const float shrink = decay[i >> KAS_UPDATE_SHIFT];
        KAS_WIDE_LOAD(value, p, i);
        KAS_WIDE_LOAD(velocity, v, i);
        KAS_WIDE_LOAD(gradient, grad, i);
        KAS_WIDE_VALUE(g, kas_fma(shrink, KAS_EACH_VALUE(value), scale * KAS_EACH_VALUE(gradient)));
        KAS_WIDE_VALUE(moved, kas_fma(momentum, KAS_EACH_VALUE(velocity), KAS_EACH_VALUE(g)));
        KAS_WIDE_VALUE(updated,
                       KAS_EACH_VALUE(value) - lr * kas_fma(a.along_velocity, KAS_EACH_VALUE(moved),
                                                            a.along_gradient * KAS_EACH_VALUE(g)));
        KAS_WIDE_STORE(v, i, moved);
        KAS_WIDE_STORE(p, i, updated);
        KAS_UPDATE_COPY(i, updated)
        KAS_WATCH_VALUE(found, updated)
    }
    KAS_WATCH_END(found, a.watch);
}

/* Adam with decoupled weight decay. */
KAS_KERNEL(kas_dev_adamw, kas_update_args)
{
    const kas_u64 first = (kas_u64)KAS_BLOCK_X * KAS_UPDATE_BLOCK;
    const int count = kas_update_count(&a, first);
    const kas_dev_row row = a.rows[a.state->step];
    const float scale = kas_update_scale(&a), step = row.lr * row.correction1;
    if (KAS_UPDATE_SKIPS(scale))
        return;
    float *p = a.param + first, *m = a.first + first, *v = a.second + first;
    const float *grad = a.grad + first, *decay = a.decay + (first >> KAS_UPDATE_SHIFT);
#if KAS_DTYPE != 0
    kas_real *copy = a.copy + first;
#endif
    KAS_WATCH(found);
    KAS_WIDE_LANES (i, count) {
        const float shrink = decay[i >> KAS_UPDATE_SHIFT];
        KAS_WIDE_LOAD(value, p, i);
        KAS_WIDE_LOAD(first_moment, m, i);
        KAS_WIDE_LOAD(second_moment, v, i);
        KAS_WIDE_LOAD(gradient, grad, i);
        KAS_WIDE_VALUE(g, scale * KAS_EACH_VALUE(gradient));
        KAS_WIDE_VALUE(mean,
                       kas_fma(a.beta1, KAS_EACH_VALUE(first_moment), a.rest1 * KAS_EACH_VALUE(g)));
        KAS_WIDE_VALUE(square, kas_fma(a.beta2, KAS_EACH_VALUE(second_moment),
                                       a.rest2 * KAS_EACH_VALUE(g) * KAS_EACH_VALUE(g)));
        KAS_WIDE_VALUE(kept, KAS_EACH_VALUE(value) - row.lr * shrink * KAS_EACH_VALUE(value));
        KAS_WIDE_VALUE(updated, KAS_EACH_VALUE(kept) - step * KAS_EACH_VALUE(mean) /
                                                           kas_fma(kas_sqrt(KAS_EACH_VALUE(square)),
                                                                   row.correction2, a.epsilon));
        KAS_WIDE_STORE(m, i, mean);
        KAS_WIDE_STORE(v, i, square);
        KAS_WIDE_STORE(p, i, updated);
        KAS_UPDATE_COPY(i, updated)
        KAS_WATCH_VALUE(found, updated)
    }
    KAS_WATCH_END(found, a.watch);
}
