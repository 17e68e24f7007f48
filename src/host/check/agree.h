/* Checks that a lowered kernel computes what the float64 reference computes.
 *
 * Runs one kernel at several targets on a device, forward and backward, with random x, weights and
 * dy (normal; weights of variance 1 / fan_in), and compares with src/host/reference. Every output,
 * every inner buffer and the padding of x and dy are filled with NaN first. Used by the tests and
 * by `kas-gpu check`.
 *
 * A last run has NaN at some places of x: y must be NaN where the reference's is and, in kernels
 * without a library's convolution, nowhere else; and no gradient may lose all its NaN. Nothing may
 * hide that a network is broken.
 *
 * An error is max |ours - reference| over a tensor, divided by the tensor's scale: max |reference|,
 * but at least KAS_AGREE_FLOOR. (Inputs are of size 1, so what is smaller came about by
 * cancellation, and its relative error says nothing.)
 *
 * At a kink (x = 0 of ReLU, two equal operands of max) float32 may take another branch than
 * float64. Inputs are random, so that is rare; a comparison that fails is repeated with up to
 * KAS_AGREE_DRAWS fresh inputs, and the number of draws is reported. A wrong kernel is wrong for
 * all of them.
 *
 * Some kernels amplify rounding whatever their inputs: behind a softmax over two values an average
 * is constant, and a norm divides what rounding left of it by sqrt(1e-5). So when a comparison
 * fails, the checker finds how far rounding alone moves the reference: the reference runs
 * KAS_AGREE_SAMPLES times again with every node's value and gradient rounded to float32, up or down
 * at random (kas_reference_round); while that does not explain the error, as many times again, up
 * to KAS_AGREE_MOST_SAMPLES, because few of the roundings turn one near tie of a maximum over. An
 * error of at most KAS_AGREE_MARGIN times the largest movement, in the maximum and in the root mean
 * square over the tensor, is what float32 can be expected to do, and the kernel is called
 * ill-conditioned at this target. The margin is needed because a node rounds once in the reference
 * and many times on a device: exp and division are good to 1 to 4 units in the last place, and a
 * sum of n terms that cancel rounds n partial sums, which moves it by some root of n times what
 * rounding the terms does. (The first such kernel was a scale in front of a norm, whose gradient is
 * 0 but for the norm's eps: 3.8 times the movement in the maximum, over 4 in the root mean square.
 * Kernels met before it had 0.1 to 1.2.)
 *
 * So that this hides no wrong kernel, it is done only after failures, and by tensor. An error above
 * KAS_AGREE_MOST of the tensor's scale makes no kernel ill-conditioned. Rounding must explain the
 * error for every one of the KAS_AGREE_DRAWS inputs. Where rounding moves a tensor by more than
 * KAS_AGREE_TELLING of its scale, the comparison says too little and is called undecided, which is
 * no agreement; one such input makes the kernel undecided at this target. Other folders include
 * this header. */
#ifndef KAS_CHECK_AGREE_H
#define KAS_CHECK_AGREE_H

#include "host/core/buf.h"
#include "host/device/device.h"
#include "jit/compile/compile.h"
#include "jit/ir/program.h"

/* Programs in a 16-bit dtype start from inputs that the dtype holds exactly. Their tolerances
 * are 4 roundings of the largest value forward and 8 backward. Beyond that the reference is
 * rounded to the dtype, and how far that moves it is the measure, as above. There the margin is
 * small: a device computes in float32 and rounds to 16 bits what it stores, while the reference
 * rounds every node. */
#define KAS_AGREE_FLOOR 1e-3
#define KAS_AGREE_FORWARD 1e-4 /* tolerances */
#define KAS_AGREE_GRADIENT 1e-3
#define KAS_AGREE_NUMERIC 1e-4 /* reference against finite differences */
#define KAS_AGREE_MARGIN 16.0
#define KAS_AGREE_MARGIN_16_BIT 1.5
#define KAS_AGREE_MOST 0.5
#define KAS_AGREE_TELLING 0.1
enum { KAS_AGREE_DRAWS = 4, KAS_AGREE_SAMPLES = 8, KAS_AGREE_MOST_SAMPLES = 64 };

static inline int kas_agree_bits(kas_dtype dtype) /* bits of a significand */
{
    return dtype == KAS_F32 ? 24 : dtype == KAS_BF16 ? 8 : 11;
}
static inline double kas_agree_tolerance(kas_dtype dtype, bool gradient)
{
    if (dtype == KAS_F32)
        return gradient ? KAS_AGREE_GRADIENT : KAS_AGREE_FORWARD;
    return (gradient ? 8.0 : 4.0) / (1 << kas_agree_bits(dtype));
}

typedef enum kas_agree_verdict {               /* from best to worst */
                                 KAS_AGREE_OK, /* within the tolerances */
                                 /* Not within them, but rounding explains it */
                                 KAS_AGREE_ILL_CONDITIONED,
                                 KAS_AGREE_UNDECIDED, /* rounding would explain nearly anything */
                                 KAS_AGREE_FAILED
} kas_agree_verdict;

typedef struct kas_agree_options {
    int batch;
    uint64_t seed;
    int directions; /* directions of finite differences; 0 = none */
    bool whole;     /* x holds whole numbers, so that operands tie and hit kinks exactly */
    int pitch_more; /* elements by which the pitch of x and y exceeds kas_pitch_of */
    kas_dtype dtype;
    bool tf32; /* KAS_F32: convolutions may round their factors, and tolerances are float16's */
    bool inference; /* the forward pass alone: gradients count as equal */
    bool gained;    /* the program takes a gain though it is 1 */
    kas_linear_policy linear_policy;
    /* [epilogues] that are checked, too, where a kernel of ours writes Y; with `inference` */
    const kas_epilogue *epilogue;
    int epilogues;
    const float *gain; /* [count] factors of the outputs; NULL: 1 */
    /* Schedules of kernels, for one target and a batch that is not cut into pieces (program.h);
     * NULL: the default ones */
    const struct kas_schedule_file *schedule_file;
    uint64_t schedule_seed; /* not 0: target i has schedules drawn by this number + i (program.h) */
} kas_agree_options;

typedef struct kas_agreement {
    /* Relative errors. forward: of Y, and of what the epilogues make of it; dweight: the worst weight */
    double forward, dx, dweight;
    double numeric; /* reference against finite differences; 0 when not asked for */
    /* The most by which rounding moves a tensor that is not within its tolerance, relative like the
     * errors; 0 where all are */
    double rounding;
    int draws;     /* number of inputs drawn */
    bool nan_lost; /* NaN is not where the reference has it: the verdict is failed */
    kas_agree_verdict verdict;
    int operations, convolutions; /* in both passes */
    uint64_t digest;              /* of all outputs on the first inputs: equal where all bits are */
} kas_agreement;

/* The options with which a check builds the program of target number i, called `prefix`. */
kas_program_options kas_agree_program(const kas_agree_options *options, const kas_target *target,
                                      int i, const char *prefix);

/* Checks a kernel at `count` targets; `result` is [count]. A kernel that disagrees is a result; a
 * status other than KAS_OK says that the check itself failed. */
kas_status kas_agree(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                     const kas_target *target, const kas_binding *binding, int count,
                     const kas_agree_options *options, kas_agreement *result);

/* Checks the programs of training, then those of inference. A result is that of training, with the
 * larger error and the worse verdict of the two. */
kas_status kas_agree_both(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                          const kas_target *target, const kas_binding *binding, int count,
                          const kas_agree_options *options, kas_agreement *result);

/* Appends the text of a kernel's programs at all targets to `text`, with an epilogue's kernel for
 * each (lower/epilogue.h): for a check that only asks whether a compiler takes it. */
kas_status kas_agree_text(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, int count, const kas_agree_options *options,
                          kas_buf *text);

#endif
