/* A kernel lowered for one target: buffers, generated source, and the operations of both passes.
 *
 *     micro-DAG + binding --lower--> stages --differentiate--> --fuse--> --schedule--> --emit-->
 * here
 *
 * A program knows nothing of devices.  The caller gives every buffer an address, a multiple of
 * KAS_BUFFER_ALIGNMENT because kernels access 16 bytes at a time on a GPU, compiles the source
 * (many programs may be compiled together, see compile.h), and appends a pass to a plan.
 *
 * Layout of tensors.  X: [batch][h][w][x_pitch], channels c_in = parts_in * c.  Y:
 * [batch][h][w][y_pitch], channels c_out = parts_out * c.  DX and DY like X and Y.  Instances
 * (target.h) run together: inside, tensors are [batch][(h)][(w)][instance][channels...] with the
 * pitch of the flattened channels padded.
 *
 * Dtypes.  X, Y, DX, DY and weights are of the program's dtype (float32, bf16 or float16), and so
 * is what kernels keep of activations in between; gradients of weights, partial sums, indices and
 * what softmax and norm divide by are float32, and so is all arithmetic.
 *
 * Weights.  One buffer for each node with a weight, all instances.  Logically
 * [instance][group][out][in] (see space/weights.h); the order in memory is what the operation wants
 * (KRSC for a library convolution, taps first for a direct kernel) and is given by
 * kas_weight_offset. `init` says how to start: unit gain.
 *
 * Gradients are in gather form, without atomics: deterministic.  BACKWARD overwrites DX and every
 * DWEIGHT. SAVED buffers are written by FORWARD and read by BACKWARD; SCRATCH lives within one
 * pass.
 *
 * Epilogues.  What stands behind the layer (device/epilogue.h) can be done where Y is written, with
 * fixed statistics.  For each of them there is one kernel more, which FORWARD runs in place of the
 * one that writes Y; so that one compiled text serves with and without (epilogue.h).  Other folders
 * include this header. */
#ifndef KAS_JIT_IR_PROGRAM_H
#define KAS_JIT_IR_PROGRAM_H

#include "host/device/device.h"
#include "host/space/kernel.h"
#include "host/space/target.h"
#include "host/space/weights.h"

typedef enum kas_role {
    KAS_ROLE_X,
    KAS_ROLE_Y,
    KAS_ROLE_DX,
    KAS_ROLE_DY,
    KAS_ROLE_WEIGHT, /* index: number of the weight, in node order */
    KAS_ROLE_DWEIGHT,
    KAS_ROLE_SAVED,
    KAS_ROLE_SCRATCH,
    KAS_ROLE_NORM,    /* of epilogues: float32 [c_out]; index: a kas_norm_part */
    KAS_ROLE_RESIDUAL /* of epilogues: like Y */
} kas_role;

/* 1 / sqrt(variance + eps) is KAS_NORM_RSTD. */
typedef enum kas_norm_part {
    KAS_NORM_MEAN,
    KAS_NORM_RSTD,
    KAS_NORM_GAMMA,
    KAS_NORM_BETA,
    KAS_NORM_PARTS
} kas_norm_part;

typedef struct kas_buffer {
    kas_role role;
    int index;
    kas_dtype dtype; /* of its elements */
    size_t bytes;
} kas_buffer;

typedef struct kas_weight {
    int node; /* of the kernel */
    uint32_t instances, groups, fan_out, fan_in;
    kas_weight_init init;
    size_t elements;  /* of the buffer: instances * groups * fan_out * fan_in */
    size_t stride[3]; /* of instance, group, out */
    /* The kernel window's taps are the last digits of `in`:
     *     in = (channel * taps[0] + tap0) * taps[1] + tap1;  taps are 1 where there is no window */
    uint32_t in_channels, taps[2];
    size_t stride_channel, stride_tap[2];
} kas_weight;

/* Where logical element (instance, group, out, in) lies in the buffer, in elements. */
static inline size_t kas_weight_offset(const kas_weight *w, uint32_t instance, uint32_t group,
                                       uint32_t out, uint32_t in)
{
    return instance * w->stride[0] + group * w->stride[1] + out * w->stride[2] +
           in / (w->taps[0] * w->taps[1]) * w->stride_channel +
           in / w->taps[1] % w->taps[0] * w->stride_tap[0] + in % w->taps[1] * w->stride_tap[1];
}

enum { KAS_MAX_LAUNCH_ARGS = 24, KAS_BUFFER_ALIGNMENT = 16 };

/* Bytes that the lanes of a whole launch ask for (caches serve many of them again), left out what
 * neighbouring lanes share: all, those whose lanes lie side by side in memory, and those that a GPU
 * accesses 16 bytes at a time. */
typedef struct kas_accessed {
    double all, contiguous, wide;
} kas_accessed;

typedef struct kas_operation {
    enum { KAS_OPERATION_LAUNCH, KAS_OPERATION_CONV } kind;
    /* LAUNCH: the kernel's struct argument is `args` pointers in this order */
    char function[48];
    size_t text, text_size; /* its place in the source; size 0: shared (share.h) */
    int unit;               /* which of the modules it is loaded with has it (units.h) */
    unsigned grid[3], block[3];
    int args, arg[KAS_MAX_LAUNCH_ARGS]; /* buffer numbers */
    int width;                          /* lanes of a thread (wide.h) */
    double flops, bytes;                /* floor of this kernel, whole batch */
    kas_accessed accessed;
    /* CONV: pointers by kas_conv_pass; buffer numbers */
    kas_conv_pass pass;
    kas_conv_desc conv;
    int x, w, y;
} kas_operation;

typedef struct kas_program {
    char prefix[32]; /* every kernel of the source starts with it: unique within a compilation */
    int batch;
    kas_target target;
    kas_binding binding;
    bool training; /* false: FORWARD only, no SAVED buffers */
    kas_dtype dtype;
    kas_buffer *buffer;
    int buffers;
    kas_weight *weight;
    int weights;
    kas_operation *forward, *backward;
    int forwards, backwards;
    int epilogues, written_by; /* which of `forward` the operations of epilogues stand in for */
    kas_epilogue *epilogue;    /* [epilogues] */
    kas_operation *epilogue_kernel; /* [epilogues] */
    char *source;                   /* dialect text without the prelude; owned */
} kas_program;

/* Which linear maps are loops of our own, which a library's convolutions: by the rule for a kind of
 * device (fc_plan.c), or all in one way, for measurements and tests.  The order of their weights
 * depends on it. */
typedef enum kas_linear_policy {
    KAS_LINEAR_GPU,
    KAS_LINEAR_CPU,
    KAS_LINEAR_DIRECT,
    KAS_LINEAR_LIBRARY
} kas_linear_policy;
/* The rule for an arch ("cpu", "sm_90") or a device ("cpu", "cuda:0"). */
kas_linear_policy kas_linear_policy_of(const char *device);

/* Raised when kas_weight_offset changes: what was written in the order of memory is told apart. */
enum { KAS_WEIGHT_ORDER = 2 };

typedef struct kas_program_options {
    int batch;
    bool training;
    kas_dtype dtype; /* of activations and weights */
    bool tf32;       /* KAS_F32: convolutions may round their factors (device.h) */
    kas_linear_policy linear_policy;
    int x_pitch, y_pitch;         /* elements; 0 = kas_pitch_of(number, channels) */
    const char *prefix;           /* e.g. "k0"; letters and digits */
    const kas_epilogue *epilogue; /* [epilogues] wanted; those without a norm are not looked at */
    int epilogues;
} kas_program_options;

/* KAS_ILLEGAL or KAS_UNSUPPORTED with a message when the kernel cannot be lowered at this target.
 */
kas_status kas_program_build(const kas_kernel *kernel, const kas_target *target,
                             const kas_binding *binding, const kas_program_options *options,
                             kas_program **out);
void kas_program_free(kas_program *program);
/* Number of an epilogue, or -1: it was not asked for, or Y is not written by a generated kernel. */
int kas_program_epilogue(const kas_program *program, kas_epilogue epilogue);
/* The program's text with the prelude, and in a comment what it is, its operations and how it is
 * compiled; for people. The kernels are the same on both devices. */
kas_status kas_program_print(const kas_program *program, bool cuda, kas_buf *out);

/* A program on a device: functions looked up and convolutions prepared once.  module[k] holds unit
 * k of the text; a program whose text was compiled as it is has one unit. */
typedef struct kas_loaded kas_loaded;
kas_status kas_program_load(kas_device *device, const kas_program *program,
                            kas_module *const *module, kas_loaded **out);
void kas_loaded_free(kas_loaded *loaded);
/* Appends one pass; address[i] is the memory of buffer i (unused ones may be NULL). KAS_USAGE when
 * one is not aligned. */
kas_status kas_loaded_append(const kas_loaded *loaded, kas_plan *plan, bool backward,
                             void *const *address);
/* FORWARD with epilogue number `epilogue`: Y is what the epilogue makes of the kernel's output. It
 * must not lie over the residual. */
kas_status kas_loaded_append_epilogue(const kas_loaded *loaded, kas_plan *plan, int epilogue,
                                      void *const *address);

#endif
