/* Does a lowered kernel compute what the float64 reference computes?
 *
 * Runs one kernel at several targets on a device, forward and backward, with random x, weights and
 * dy (normal; weights of variance 1 / fan_in), every output and every inner buffer filled with NaN
 * first and NaN in the padding of x and dy, and compares with src/host/reference.  Used by the
 * tests and by `kas-gpu check`.
 *
 * A last run has NaN at some places of x: y must be NaN where the reference's is and, in kernels
 * without a library's convolution, nowhere else, and no gradient may lose all NaN: none may hide
 * that a network is broken.
 *
 * An error is max |ours - reference| over a tensor, divided by the tensor's scale: max |reference|,
 * but at least KAS_AGREE_FLOOR (of values whose inputs are of size 1: what is smaller came about by
 * cancellation, and its relative error says nothing).
 *
 * At a kink (x = 0 of ReLU, two equal operands of max) float32 may take another branch than
 * float64.  Inputs are random, so that is rare; a comparison that fails is repeated with up to
 * KAS_AGREE_DRAWS fresh inputs, and how many were drawn is reported.  A wrong kernel is wrong for
 * all of them.
 *
 * Some kernels amplify rounding whatever their inputs: behind a softmax over two values an average
 * is constant, and a norm divides what rounding left of it by sqrt(1e-5).  So a comparison that
 * fails asks how far rounding alone moves the reference: KAS_AGREE_SAMPLES times the reference runs
 * again with every node's value and gradient rounded to float32, up or down at random
 * (kas_reference_round).  An error of at most KAS_AGREE_MARGIN times the largest movement, in the
 * maximum and in the root mean square over the tensor, is what float32 can be expected to do, and
 * the kernel is called ill-conditioned at this target.  The margin is there because a node rounds
 * once in the reference and many times on a device: exp and division are good to 1 to 4 units in
 * the last place, and a sum of n terms that cancel rounds n partial sums, which moves it by some
 * root of n times what rounding the terms does (the first was a scale in front of a norm, whose
 * gradient is 0 but for the norm's eps: 3.8 times the movement in the maximum, over 4 in the root
 * mean square; kernels met before it had 0.1 to 1.2).
 *
 * So that this hides no wrong kernel: it is asked of failures only, and by tensor; an error
 * above KAS_AGREE_MOST of the tensor's scale makes no kernel ill-conditioned; every one of the
 * KAS_AGREE_DRAWS inputs must find its error explained; and where rounding moves a tensor by more
 * than KAS_AGREE_TELLING of its scale, the comparison says too little and is called undecided,
 * which is no agreement.  Where one of the inputs says so, the kernel is undecided at this target.
 * Other folders include this header. */
#ifndef KAS_CHECK_AGREE_H
#define KAS_CHECK_AGREE_H

#include "host/core/buf.h"
#include "host/device/device.h"
#include "jit/compile/compile.h"
#include "jit/ir/program.h"

/* Programs of 16-bit numbers start from inputs that the dtype holds exactly; their tolerances are
 * 4 roundings of the largest value forward, 8 backward, and beyond that the reference is rounded to
 * the number: how far that moves it is the measure, as above.  There the margin is small: a device
 * computes in float32 and rounds to 16 bits what it stores, the reference every node.
 */
#define KAS_AGREE_FLOOR 1e-3
#define KAS_AGREE_FORWARD 1e-4 /* tolerances */
#define KAS_AGREE_GRADIENT 1e-3
#define KAS_AGREE_NUMERIC 1e-4 /* reference against finite differences */
#define KAS_AGREE_MARGIN 16.0
#define KAS_AGREE_MARGIN_16_BIT 1.5
#define KAS_AGREE_MOST 0.5
#define KAS_AGREE_TELLING 0.1
enum { KAS_AGREE_DRAWS = 4, KAS_AGREE_SAMPLES = 8 };

static inline int kas_agree_bits(kas_dtype dtype) /* of a significand */
{
    return dtype == KAS_F32 ? 24 : dtype == KAS_BF16 ? 8 : 11;
}
static inline double kas_agree_tolerance(kas_dtype dtype, bool gradient)
{
    if (dtype == KAS_F32)
        return gradient ? KAS_AGREE_GRADIENT : KAS_AGREE_FORWARD;
    return (gradient ? 8.0 : 4.0) / (1 << kas_agree_bits(dtype));
}

typedef enum kas_agree_verdict {                            /* the later the worse */
                                 KAS_AGREE_OK,              /* within the tolerances */
                                 KAS_AGREE_ILL_CONDITIONED, /* not, but rounding explains it */
                                 KAS_AGREE_UNDECIDED, /* rounding would explain nearly anything */
                                 KAS_AGREE_FAILED
} kas_agree_verdict;

typedef struct kas_agree_options {
    int batch;
    uint64_t seed;
    int directions; /* of finite differences; 0 = none */
    bool whole;     /* x in whole numbers, so that operands tie and hit kinks exactly */
    int pitch_more; /* elements by which the pitch of x and y exceeds kas_pitch_of */
    kas_dtype dtype;
    kas_linear_policy linear_policy;
} kas_agree_options;

typedef struct kas_agreement {
    double forward, dx, dweight; /* relative errors; dweight: the worst weight */
    double numeric;              /* reference against finite differences; 0 when not asked for */
    double rounding; /* the most by which rounding moves a tensor that is not within its tolerance;
                        relative like the errors, 0 where all are */
    int draws;       /* inputs tried */
    bool nan_lost;   /* NaN in x is not where the reference has it: the verdict is failed */
    kas_agree_verdict verdict;
    int operations, convolutions; /* of both passes */
} kas_agreement;

/* `result` [count]. A kernel that disagrees is a result; a status is a failure to find out. */
kas_status kas_agree(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                     const kas_target *target, const kas_binding *binding, int count,
                     const kas_agree_options *options, kas_agreement *result);

/* The text of a kernel's programs at all targets, an epilogue's kernel with them (epilogue.h), for
 * a compiler that is only asked whether it takes it. Appended to `text`. */
kas_status kas_agree_text(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, int count, const kas_agree_options *options,
                          kas_buf *text);

#endif
