#include "kernel.h"

/* Softmax, cross entropy with label smoothing and its gradient: one block for each image; then one
 * block adds up the batch in a fixed order. With z' = z - max:
 *     loss = log(sum exp z') - (1 - smoothing) z'[label] - smoothing / classes * sum z'
 * A mixed image has a second label, that of the next image, and z'[label] is then the sum of both,
 * weighted by their shares. */
KAS_FN void kas_loss_start(const kas_loss_args *a, float first, float *own)
{
    KAS_PART_THREADS (t, kas_imin(KAS_LOSS_LANES, a->classes)) {
        KAS_EACH(KAS_EACH_OF(own, t) = first;)
    }
}
KAS_FN void kas_loss_keep(const kas_loss_args *a, const float *own, float *work)
{
    KAS_PART_THREADS (t, kas_imin(KAS_LOSS_LANES, a->classes)) {
        KAS_WIDE_VALUE(value, KAS_EACH_OF(own, t));
        KAS_WIDE_STORE(work, t, value);
    }
}
/* Runs over the classes: each lane has every KAS_LOSS_LANES-th class; a lane that is cut
 * off has none. */
#define KAS_LOSS_CLASSES(base, t)                                                                  \
    for (int base = 0; base < a->classes; base += KAS_LOSS_LANES)                                  \
        KAS_PART_THREADS (t, kas_imin(KAS_LOSS_LANES, a->classes - base))

KAS_FN void kas_loss_max(const kas_loss_args *a, const float *z, float *work)
{
    KAS_WIDE_LANE(own, KAS_LOSS_LANES);
    kas_loss_start(a, -KAS_INFINITY, own);
    KAS_LOSS_CLASSES(base, t)
    {
        KAS_PART_LOAD(in, z, base + t, a->classes, a->whole);
        KAS_EACH(const int is = base + KAS_EACH_LANE(t) < a->classes;
                 KAS_EACH_OF(own, t) =
                     kas_max(KAS_EACH_OF(own, t), is ? KAS_EACH_VALUE(in) : -KAS_INFINITY);)
    }
    kas_loss_keep(a, own, work);
}

/* Finds the first place of the maximum, negated; exact below 2^24. */
KAS_FN void kas_loss_place(const kas_loss_args *a, const float *z, float max, float *work)
{
    KAS_WIDE_LANE(own, KAS_LOSS_LANES);
    kas_loss_start(a, -1e9f, own);
    KAS_LOSS_CLASSES(base, t)
    {
        KAS_PART_LOAD(in, z, base + t, a->classes, a->whole);
        KAS_EACH(const int k = base + KAS_EACH_LANE(t);
                 const int is = k < a->classes && KAS_EACH_VALUE(in) == max;
                 KAS_EACH_OF(own, t) = kas_max(KAS_EACH_OF(own, t), is ? -(float)k : -1e9f);)
    }
    kas_loss_keep(a, own, work);
}

/* Sums z - max, or its exponentials. */
KAS_FN void kas_loss_sum(const kas_loss_args *a, const float *z, float max, int exponential,
                         float *work)
{
    KAS_WIDE_LANE(own, KAS_LOSS_LANES);
    kas_loss_start(a, 0.0f, own);
    KAS_LOSS_CLASSES(base, t)
    {
        KAS_PART_LOAD(in, z, base + t, a->classes, a->whole);
        KAS_WIDE_VALUE(off, KAS_EACH_VALUE(in) - max);
        KAS_EACH(const int is = base + KAS_EACH_LANE(t) < a->classes;
                 const float value =
                     exponential ? kas_exp(KAS_EACH_VALUE(off)) : KAS_EACH_VALUE(off);
                 KAS_EACH_OF(own, t) += is ? value : 0.0f;)
    }
    kas_loss_keep(a, own, work);
}

/* Counts logits that are not finite, in evaluation. When some logit is not finite, neither is
 * the sum of z - max. That sum may overflow as well, so only then are the logits looked at one
 * by one. */
KAS_FN void kas_loss_watch(const kas_loss_args *a, const float *z, float shifted)
{
    if (a->dlogits || kas_is_finite(shifted))
        return;
    KAS_LANES (k, a->classes) {
        if (!kas_is_finite(z[k]))
            kas_raise(&a->metrics->not_finite.logits);
    }
}

KAS_KERNEL(kas_dev_cross_entropy, kas_loss_args)
{
    KAS_SHARED(float, work, KAS_LOSS_LANES);
    const int image = KAS_BLOCK_X, label = a.labels[image];
    const int lanes = kas_imin(KAS_LOSS_LANES, a.classes);
    const float *z = a.logits + (kas_i64)image * a.pitch;
    const float share = a.rows ? a.rows[a.state->step].share : 1.0f;
    int second = a.rows ? a.labels[image + 1 < a.n ? image + 1 : 0] : label;
    second = second == KAS_DEV_NO_LABEL ? label : second;
    float *dz = a.dlogits + (a.dlogits ? (kas_i64)image * a.pitch_d : 0);
    if (label == KAS_DEV_NO_LABEL) { /* uniform in the block */
        KAS_ONE_LANE
        {
            a.loss[image] = 0.0f;
            a.hit[image] = 0.0f;
        }
        if (a.dlogits)
            KAS_PART_LANES (k, a.classes) {
                KAS_WIDE_VALUE(none, 0.0f);
                KAS_PART_STORE(dz, k, none, a.classes, a.whole);
            }
        return;
    }
    kas_loss_max(&a, z, work);
    const float max = kas_block_max(work, lanes);
    kas_loss_place(&a, z, max, work);
    const float answer = -kas_block_max(work, lanes);
    kas_loss_sum(&a, z, max, 0, work);
    const float shifted = kas_block_sum(work, lanes);
    kas_loss_watch(&a, z, shifted);
    kas_loss_sum(&a, z, max, 1, work);
    const float total = kas_block_sum(work, lanes);
    const float rest = a.smoothing / (float)a.classes;
    KAS_ONE_LANE
    {
        const float hit = share * (z[label] - max) + (1.0f - share) * (z[second] - max);
        a.loss[image] = kas_log(total) - (1.0f - a.smoothing) * hit - rest * shifted;
        a.hit[image] = answer == (float)(share < 0.5f ? second : label) ? 1.0f : 0.0f;
    }
    if (a.dlogits) {
        const float mean = (a.scale ? a.scale->scale : 1.0f) / (float)a.n, scale = 1.0f / total;
        const float first_target = (1.0f - a.smoothing) * share;
        const float second_target = (1.0f - a.smoothing) * (1.0f - share);
        KAS_PART_LANES (k, a.classes) {
            KAS_PART_LOAD(in, z, k, a.classes, a.whole);
            KAS_WIDE_VALUE(target, rest + (KAS_EACH_LANE(k) == label ? first_target : 0.0f) +
                                       (KAS_EACH_LANE(k) == second ? second_target : 0.0f));
            KAS_WIDE_VALUE(d, (kas_exp(KAS_EACH_VALUE(in) - max) * scale - KAS_EACH_VALUE(target)) *
                                  mean);
            KAS_PART_STORE(dz, k, d, a.classes, a.whole);
        }
    }
}

/* Adds up three values for each image; a lane has one image at a time. */
KAS_KERNEL(kas_dev_cross_entropy_total, kas_loss_args)
{
    KAS_SHARED(float, loss, KAS_LOSS_LANES);
    KAS_SHARED(float, hit, KAS_LOSS_LANES);
    KAS_SHARED(float, seen, KAS_LOSS_LANES);
    const int lanes = kas_imin(KAS_LOSS_LANES, a.n);
    KAS_THREADS (t, lanes) {
        float l = 0.0f, h = 0.0f, s = 0.0f;
        for (int i = t; i < a.n; i += KAS_LOSS_LANES) {
            l += a.loss[i];
            h += a.hit[i];
            s += a.labels[i] == KAS_DEV_NO_LABEL ? 0.0f : 1.0f;
        }
        loss[t] = l;
        hit[t] = h;
        seen[t] = s;
    }
    const float sum = kas_block_sum(loss, lanes);
    const float hits = kas_block_sum(hit, lanes);
    const float counted = kas_block_sum(seen, lanes);
    KAS_ONE_LANE
    {
        a.metrics->loss_sum += (double)sum;
        a.metrics->correct += (kas_u64)hits;
        a.metrics->counted += (kas_u64)counted;
        a.metrics->batch_loss = counted > 0.0f ? (double)sum / (double)counted : 0.0;
    }
}
