/* Activation functions, shared by the kernels that apply them alone and those that fuse them.
 *
 * The kind is a constant wherever these functions are inlined (KAS_BY_ACTIVATION), so no lane
 * tests it. The derivative is computed from what the backward pass keeps: for kinds up to
 * KAS_ACT_KEEPS_OUTPUT the output, which is in memory anyway for the next layer; for the
 * others the input. */
#ifndef KAS_CUDA_KERNELS_ACTIVATION_H
#define KAS_CUDA_KERNELS_ACTIVATION_H

#define KAS_ACT_NONE 0
#define KAS_ACT_RELU 1
#define KAS_ACT_RELU6 2
#define KAS_ACT_SIGMOID 3
#define KAS_ACT_HARD_SIGMOID 4
#define KAS_ACT_KEEPS_OUTPUT 4 /* the last kind whose derivative is a function of the output */
#define KAS_ACT_SILU 5
#define KAS_ACT_HARD_SWISH 6
#define KAS_ACT_GELU 7

/* Runs call(kind) with the kind as a constant; `kind` must be uniform. */
#define KAS_BY_ACTIVATION(kind, call)                                                              \
    switch (kind) {                                                                                \
    case KAS_ACT_RELU:                                                                             \
        call(KAS_ACT_RELU);                                                                        \
        break;                                                                                     \
    case KAS_ACT_RELU6:                                                                            \
        call(KAS_ACT_RELU6);                                                                       \
        break;                                                                                     \
    case KAS_ACT_SIGMOID:                                                                          \
        call(KAS_ACT_SIGMOID);                                                                     \
        break;                                                                                     \
    case KAS_ACT_HARD_SIGMOID:                                                                     \
        call(KAS_ACT_HARD_SIGMOID);                                                                \
        break;                                                                                     \
    case KAS_ACT_SILU:                                                                             \
        call(KAS_ACT_SILU);                                                                        \
        break;                                                                                     \
    case KAS_ACT_HARD_SWISH:                                                                       \
        call(KAS_ACT_HARD_SWISH);                                                                  \
        break;                                                                                     \
    case KAS_ACT_GELU:                                                                             \
        call(KAS_ACT_GELU);                                                                        \
        break;                                                                                     \
    }

/* Runs call(kind) where rows are loaded and stored around the activation.  On a GPU the kind stays a
 * variable, and KAS_BY_ACTIVATION around the activation alone tests it once a row: a body of its own for
 * each kind takes more than twice as long to compile.  Loops over lanes on the CPU want a constant. */
#ifdef __CUDACC__
#define KAS_AROUND_ACTIVATION(kind, call) call(kind)
#else
#define KAS_AROUND_ACTIVATION(kind, call) KAS_BY_ACTIVATION(kind, call)
#endif

/* relu6(x + 3) / 6 */
KAS_FN float kas_hard_sigmoid(float x)
{
    return kas_min(kas_max(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
}

/* Returns the cumulative distribution function of the standard normal distribution. */
KAS_FN float kas_normal_cdf(float x)
{
    return 0.5f + 0.5f * kas_erf(x * 0.70710678f);
}

KAS_FN float kas_activate(int kind, float x)
{
    switch (kind) {
    case KAS_ACT_RELU:
        return kas_max(x, 0.0f);
    case KAS_ACT_RELU6:
        return kas_min(kas_max(x, 0.0f), 6.0f);
    case KAS_ACT_SIGMOID:
        return kas_sigmoid(x);
    case KAS_ACT_HARD_SIGMOID:
        return kas_hard_sigmoid(x);
    case KAS_ACT_SILU:
        return x * kas_sigmoid(x);
    case KAS_ACT_HARD_SWISH:
        return x * kas_hard_sigmoid(x);
    case KAS_ACT_GELU:
        return x * kas_normal_cdf(x);
    default:
        return x;
    }
}

/* Returns dy times the derivative; `kept` is the output or the input, by kind. NaN is beyond no
 * limit, so the comparisons name what is cut off. */
KAS_FN float kas_activate_back(int kind, float kept, float dy)
{
    switch (kind) {
    case KAS_ACT_RELU:
        return kept <= 0.0f ? 0.0f : dy;
    case KAS_ACT_RELU6:
        return ((kept <= 0.0f) | (kept >= 6.0f)) ? 0.0f : dy;
    case KAS_ACT_SIGMOID:
        return dy * (kept * (1.0f - kept));
    case KAS_ACT_HARD_SIGMOID:
        return ((kept <= 0.0f) | (kept >= 1.0f)) ? 0.0f : dy * (1.0f / 6.0f);
    case KAS_ACT_SILU: {
        const float s = kas_sigmoid(kept);
        return dy * (s * kas_fma(kept, 1.0f - s, 1.0f));
    }
    case KAS_ACT_HARD_SWISH: {
        const float inside = kas_fma(kept, 1.0f / 3.0f, 0.5f);
        return dy * (kept <= -3.0f ? 0.0f : kept >= 3.0f ? 1.0f : inside);
    }
    case KAS_ACT_GELU: {
        const float density = 0.39894228f * kas_exp(-0.5f * kept * kept);
        return dy * kas_fma(kept, density, kas_normal_cdf(kept));
    }
    default:
        return dy;
    }
}

/* ---- behind a batch norm ----------------------------------------------------------------------
 *
 * What the derivative of the activation is taken from is computed again from x, as kas_norm_apply
 * does, and is not read; with a residual that would take another tensor anyway: y. */
#define KAS_FROM_X 0
#define KAS_FROM_Y 1 /* ReLU only */

/* Returns the gradient before the activation, at one channel. */
KAS_FN float kas_norm_behind(int activation, int from, float y, float xhat, float gamma, float beta,
                             float dy)
{
    const float before = kas_fma(xhat, gamma, beta);
    const float kept = from == KAS_FROM_Y                   ? y
                       : activation <= KAS_ACT_KEEPS_OUTPUT ? kas_activate(activation, before)
                                                            : before;
    return kas_activate_back(activation, kept, dy);
}

#endif
