/* A program: a kernel lowered for one target, with buffers, generated source, and the operations of
 * both passes.
 *
 *     micro-DAG + binding --lower--> tensors --differentiate--> --fuse--> --schedule-->
 *         --emit--> program
 *
 * A program knows nothing of devices. The caller gives every buffer an address, which must be a
 * multiple of KAS_BUFFER_ALIGNMENT because kernels access 16 bytes at a time on a GPU; compiles the
 * source (many programs may be compiled together, see compile.h); and appends a pass to a plan.
 *
 * Layout of tensors. X: [batch][h][w][x_pitch], channels c_in = parts_in * c. Y:
 * [batch][h][w][y_pitch], channels c_out = parts_out * c. DX and DY are like X and Y. Instances
 * (target.h) run together: inner tensors are [batch][(h)][(w)][instance][channels...], with the
 * pitch of the flattened channels padded.
 *
 * Dtypes. X, Y, DX, DY, the weights, and what kernels keep of activations in between are of the
 * program's dtype (float32, bf16 or float16). Gradients of weights, partial sums, indices and the
 * divisors of softmax and norm are float32, and so is all arithmetic.
 *
 * Weights. There is one buffer for each node with a weight, for all instances. Its logical form is
 * [instance][group][out][in] (see space/weights.h); the order in memory is what the operation wants
 * (KRSC for a library convolution, taps first for a direct kernel), and kas_weight_offset gives it.
 * `init` says how to start: unit gain.
 *
 * Gradients are in gather form, without atomics, so they are deterministic. BACKWARD overwrites
 * DX and every DWEIGHT. FORWARD writes SAVED buffers and BACKWARD reads them; SCRATCH lives
 * within one pass.
 *
 * Pieces. A batch may be cut into pieces of a few images: all operations of a pass run for one
 * piece, then for the next. On a CPU what an operation writes is so still in a cache when the next
 * one reads it. SCRATCH buffers serve all pieces; each piece has its part of X, Y, their gradients
 * and SAVED buffers. What depends on the weights and the gain alone is computed once, before the
 * first piece. The gradients of weights are kept by piece and added up at the end.
 *
 * Gain. Y is the kernel's output times a factor that the caller gives in memory, so that one text
 * serves every gain. A program without a buffer for it has the factor 1.
 *
 * Epilogues. What the network does with the layer's output (device/epilogue.h) can be done where Y
 * is written, with fixed statistics. For each epilogue there is one more kernel, which FORWARD runs
 * in place of the one that writes Y, so one compiled text serves with and without it (epilogue.h).
 * Other folders include this header. */
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
    KAS_ROLE_NORM,     /* for epilogues: float32 [c_out]; index: a kas_norm_part */
    KAS_ROLE_RESIDUAL, /* for epilogues: like Y */
    KAS_ROLE_GAIN      /* float32 [1]: the factor of Y (lower.h) */
} kas_role;

/* The vectors of a batch norm with fixed statistics. KAS_NORM_RSTD is 1 / sqrt(variance + eps). */
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
    kas_dtype dtype; /* dtype of its elements */
    bool once;       /* what it holds is the same for all pieces */
    size_t bytes;    /* of all pieces */
    size_t step;     /* from one piece to the next; 0: all pieces use the same memory */
} kas_buffer;

enum { KAS_WEIGHT_DIGITS = KAS_MAX_DIMS };

typedef struct kas_weight {
    uint32_t instances, groups, fan_out, fan_in;
    kas_weight_init init;
    size_t elements;  /* elements of the buffer: instances * groups * fan_out * fan_in */
    size_t stride[3]; /* strides of instance, group, out */
    /* The dims that are contracted, as digits of `in`, the last one fastest: in = digit 0 * size[1] +
     * digit 1, and so on; and the stride of each. Memory may have them in another order. */
    int digits;
    uint32_t size[KAS_WEIGHT_DIGITS];
    size_t stride_in[KAS_WEIGHT_DIGITS];
} kas_weight;

/* Returns the place of logical element (instance, group, out, in) in the buffer, in elements. */
static inline size_t kas_weight_offset(const kas_weight *w, uint32_t instance, uint32_t group,
                                       uint32_t out, uint32_t in)
{
    size_t at = instance * w->stride[0] + group * w->stride[1] + out * w->stride[2];
    for (int i = w->digits; i-- > 0; in /= w->size[i])
        at += in % w->size[i] * w->stride_in[i];
    return at;
}

enum { KAS_MAX_LAUNCH_ARGS = 24, KAS_BUFFER_ALIGNMENT = 16 };

/* The bytes that the lanes of a whole launch ask for, not counting twice what neighbouring lanes
 * share (caches serve many of them again): all; those whose lanes lie side by side in memory; those
 * that a GPU accesses 16 bytes at a time. */
typedef struct kas_accessed {
    double all, contiguous, wide;
} kas_accessed;

/* What the instructions of a whole launch are, counted from the kernel's expressions before there is
 * any text (schedule/effort.c), so that its time can be predicted (host/predict/). A value that
 * depends on the lane is computed for each lane; any other value is computed once for a row of
 * lanes, or less often. A function counts as many operations as kas_fn_cost says. */
typedef struct kas_effort {
    double lanes;      /* lanes of a row, which run side by side */
    double turns;      /* how often a row of lanes begins: for each row, and for each turn of a
                          reduction around the lanes */
    double arithmetic; /* operations for each lane: plain ones */
    double functions;  /* operations for each lane: exp, division and the like */
    double loads;      /* reads and writes for each lane, side by side in memory */
    double gathers;    /* reads and writes for each lane, apart in memory */
    double reduced;    /* values that are added up outside of registers: along a row or a column, or
                          by a reduction around the lanes */
    double divisions;  /* of indices, for each lane */
    double shared;     /* operations and reads once for a row of lanes, or less often */
    /* Of a GPU. Rounds of loads for which a thread waits, one behind the other: those that the
     * cache of its multiprocessor (L1) does not hold */
    double rounds;
    double sectors;   /* bytes of the 32-byte sectors that the lanes ask L1 for */
    double near;      /* rounds that L1 holds */
    double fetched;   /* bytes of the sectors that blocks fetch and write beyond L1 */
    double registers; /* of a thread, roughly: only a compiler knows */
    double together;  /* lanes and turns of a thread that do not wait for one another */
    /* Of a CPU: */
    double scattered; /* reads and writes apart in memory, in reads whose cache lines are lost */
    double alone;     /* operations of lanes that are not computed together, in shared ones */
    double far; /* bytes of the network's own tensors; all others are of one piece of the batch */
} kas_effort;

typedef struct kas_operation {
    enum { KAS_OPERATION_LAUNCH, KAS_OPERATION_CONV } kind;
    /* LAUNCH: the kernel's struct argument is `args` pointers in this order */
    char function[48];
    /* Its place in the source; text_size 0: the kernel is shared (share.h) */
    size_t text, text_size;
    int unit;        /* number of the loaded module that has it (units.h) */
    char symbol[48]; /* its name there; `function` where the source is compiled as it is */
    unsigned grid[3], block[3];
    int args, arg[KAS_MAX_LAUNCH_ARGS]; /* buffer numbers */
    int width;                          /* lanes of a thread (wide.h) */
    int times;                          /* launches in a pass: one for each piece, or 1 */
    double flops, bytes;                /* least cost of one launch */
    kas_accessed accessed;
    kas_effort effort;
    char record[65]; /* the name of its tuned schedule; "": programs were not asked for schedules */
    /* It adds up the pieces: its one launch comes behind the last of them, that of others before the
     * first */
    bool total;
    /* CONV: x, w and y of the pass, as numbers of buffers */
    kas_conv_pass pass;
    kas_conv_desc conv;
    int x, w, y;
    size_t x_offset, y_offset; /* bytes of the buffers in front of x and y */
} kas_operation;

/* A pass of a linear map that a library's convolution can compute, and loops of our own
 * (lower/fc_loops.c). */
typedef struct kas_map {
    int node; /* of the kernel */
    kas_conv_pass pass;
    bool loops;
    char record[65]; /* as an operation's */
} kas_map;

/* The library's convolution that writes Y, into which a batch norm behind it can be folded
 * (host/model/fold.h). */
typedef struct kas_fold_place {
    int operation; /* of `forward`; -1: none */
    int weight;    /* number of the weight by which it multiplies */
    int scaling;   /* the operation that multiplies this weight by the gain for it; -1: none */
} kas_fold_place;

typedef struct kas_program {
    char prefix[32]; /* every kernel's name starts with it; unique within a compilation */
    int batch;
    int pieces; /* of the batch: each pass runs them one after the other */
    kas_target target;
    kas_binding binding;
    uint32_t x_h, x_w; /* of X: the target's h and w, or the layer's input (kas_target_read) */
    bool training;     /* false: FORWARD only, no SAVED buffers */
    kas_dtype dtype;
    kas_buffer *buffer;
    int buffers;
    kas_weight *weight;
    int weights;
    kas_map *map;
    int maps;
    kas_operation *forward, *backward;
    int forwards, backwards;
    kas_fold_place fold;
    /* written_by: the operation of `forward` in whose place an epilogue's kernel runs */
    int epilogues, written_by;
    kas_epilogue *epilogue;         /* [epilogues] */
    kas_operation *epilogue_kernel; /* [epilogues] */
    char *source;                   /* dialect text without the prelude; owned */
    /* The schedules of all kernels as text (schedule/sequence_text.h), where they were asked for;
     * owned */
    char *schedules;
    /* A schedule of the file, or drawn, adds up in another order than the default one would */
    bool other_sums;
    int tuned; /* launches whose schedule is a tuned one */
} kas_program;

/* Decides which linear operators are loops of our own and which are a library's convolutions: by
 * the rule for a kind of device (fc_plan.c), or all in one way, for measurements and tests. The
 * order of their weights depends on it. KAS_LINEAR_CPU also schedules kernels for a CPU (tiles.c);
 * they are correct on every device. */
typedef enum kas_linear_policy {
    KAS_LINEAR_GPU,
    KAS_LINEAR_CPU,
    KAS_LINEAR_DIRECT,
    KAS_LINEAR_LIBRARY,
    KAS_LINEAR_UNFOLDED, /* the library's, and all windows reach it so (kas_fc_windows) */
    KAS_LINEAR_SHIFTED,
    KAS_LINEAR_MERGED
} kas_linear_policy;
/* Returns the piece_bytes of programs for a device or an arch, with that many cores: what half of
 * their nearest caches holds beside the tensors in between. 0 for a GPU. */
size_t kas_piece_bytes(kas_linear_policy policy, int cores);
/* Returns the rule for an arch ("cpu", "sm_90") or a device ("cpu", "cuda:0"). */
kas_linear_policy kas_linear_policy_of(const char *device);

/* The version of the orders of weights. It is raised when kas_weight_offset changes, or which order
 * maps have, so that files with weights in the order of memory can be told apart. */
enum { KAS_WEIGHT_ORDER = 5 };

/* Where nobody says for which processor: one number, so that texts and the version of the code are the
 * same on every machine. */
enum { KAS_PROGRAM_LANES = 16 };

typedef struct kas_program_options {
    int batch;
    bool training;
    kas_dtype dtype; /* dtype of activations and weights */
    bool tf32;       /* KAS_F32: convolutions may round their factors (device.h) */
    /* The gain may not be 1. A program in which a library's convolution writes Y takes one only
     * then; every other program has a buffer for it anyway. */
    bool gained;
    /* No text: operations are counted but cannot be run, and have no args */
    bool unwritten;
    kas_linear_policy linear_policy;
    int lanes;            /* float32 values of a CPU's vector; 0: KAS_PROGRAM_LANES */
    size_t piece_bytes;   /* most bytes of X or of Y in a piece; 0: the batch is one piece */
    int x_pitch, y_pitch; /* elements; 0 = kas_pitch_of(dtype, channels) */
    const char *prefix;   /* e.g. "k0"; letters and digits */
    /* [epilogues] that are wanted; those without a norm are ignored */
    const kas_epilogue *epilogue;
    int epilogues;
    /* Schedules of some kernels, in place of the default ones, and who computes some maps
     * (schedule/schedule_file.h); NULL */
    const struct kas_schedule_file *schedule_file;
    bool list_schedules; /* the program gets `schedules`, and launches the names of their records */
    /* Not 0: schedules of the other kernels are drawn at random by this number (schedule/vary.h) */
    uint64_t schedule_seed;
    /* Folder with tuned schedules of single launches and maps (jit/tuned.h); those of the file come first.
     * NULL: there are none */
    const char *tuned;
} kas_program_options;

/* Lowers a kernel at a target; kas_program_free frees the result. Returns KAS_ILLEGAL or
 * KAS_UNSUPPORTED with a message when the kernel cannot be lowered there, KAS_BAD_INPUT or
 * KAS_ILLEGAL for a schedule file with a mistake. */
kas_status kas_program_build(const kas_kernel *kernel, const kas_target *target,
                             const kas_binding *binding, const kas_program_options *options,
                             kas_program **out);
void kas_program_free(kas_program *program);
/* Returns the number of an epilogue, or -1 when it was not asked for or no generated
 * kernel writes Y. Then a library's convolution may take it (`fold`). */
int kas_program_epilogue(const kas_program *program, kas_epilogue epilogue);
/* Appends, for people, the program's text with the prelude and a comment that says what it is, its
 * operations and how it is compiled. The kernels are the same on both devices. */
kas_status kas_program_print(const kas_program *program, bool cuda, kas_buf *out);

/* A program on a device, with functions looked up and convolutions prepared once. module[k] holds
 * unit k of the text; a program whose text was compiled whole has one unit. */
typedef struct kas_loaded kas_loaded;
/* Looks up the functions of a program in its modules and prepares its convolutions; kas_loaded_free
 * frees the result. The program, the device and the modules must outlive it. */
kas_status kas_program_load(kas_device *device, const kas_program *program,
                            kas_module *const *module, kas_loaded **out);
void kas_loaded_free(kas_loaded *loaded);
/* Appends one pass to a plan. address[i] is the memory of buffer i; unused ones may be NULL.
 * Returns KAS_USAGE when one is not aligned. */
kas_status kas_loaded_append(const kas_loaded *loaded, kas_plan *plan, bool backward,
                             void *const *address);
/* Appends FORWARD with epilogue number `epilogue`: Y gets the epilogue of the kernel's output. Y
 * must not overlap the residual. */
kas_status kas_loaded_append_epilogue(const kas_loaded *loaded, kas_plan *plan, int epilogue,
                                      void *const *address);
/* Appends FORWARD with the library's convolution that writes Y (`fold`) in one call with its epilogue:
 * w, the biases and the residual are those of `call`, which has neither x nor y. Appends nothing and
 * sets *taken to false where the device does not take the call. */
kas_status kas_loaded_append_folded(const kas_loaded *loaded, kas_plan *plan,
                                    kas_conv_epilogue epilogue, const kas_conv_call *call,
                                    void *const *address, bool *taken);
/* Returns the prepared convolution of operation i of FORWARD. */
kas_conv *kas_loaded_conv(const kas_loaded *loaded, int i);

#endif
