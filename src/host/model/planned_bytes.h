/* Counts the memory traffic of a step before anything runs: every pass over memory with its bytes.
 *
 * A training step on a GPU is bound by memory nearly everywhere, so its bytes say how fast it can
 * be, and its list of passes says what could be saved.  Both come from the operations of the tape
 * (tape.h) and need no device.
 *
 * How it counts: each pass of an operation reads and writes each of its tensors once, without the
 * padding of channels.  A tensor that a kernel reads again at once (the second look at a chunk, the
 * taps of a window) comes from a cache and counts once; the traffic inside a library's call
 * (transforms, workspaces) is not known and counts nothing; a bias counts as a pass of its own, as
 * it is where the library does not include it. A batch norm that is part of a kernel's epilogue
 * (jit/lower/epilogue.h) or folded into a convolution (fold.h) counts together with it as one pass.
 * The sum is a lower bound of the plan's traffic, and exact for our own kernels over tensors that
 * no cache holds.
 *
 * The floor is the traffic of a perfect fusion:
 *
 *   - The only kernels are those of layers that learn maps: convolutions, linear layers and kernels
 *     in their place.  The forward pass moves the input, the weights and the output once.  The
 *     backward pass is one kernel for both gradients: it reads the input, the output's gradient and
 *     the weights, and writes the input's gradient (where it is needed) and the weights'.  A kernel
 *     in a convolution's place counts those of these tensors that one of its passes touches.
 *   - Everything else is computed by these kernels on the way in or out, and costs only the tensors
 *     that they do not hold: a sum or product reads its second input; a norm's backward pass reads
 *     the norm's input once more; for a tensor with k readers, k - 1 gradients are read and added.
 *   - Images are read as the bytes in which they are stored, wherever a map or a norm reads them;
 *     inference is given numbers instead.  The optimiser reads and writes everything that it keeps
 *     once, and reads the gradient.
 *
 * The arithmetic counts the multiply-adds of the maps alone, and in training not the gradient of
 * the images. For a kernel in a convolution's place it counts everything that the kernel's
 * operations count. */
#ifndef KAS_MODEL_PLANNED_BYTES_H
#define KAS_MODEL_PLANNED_BYTES_H

#include "host/model/model.h"

/* One pass over memory. */
typedef struct kas_sweep {
    const char *what; /* "convolution forward", "batch norm statistics", ... */
    int layer;        /* of the network; -1: the pass belongs to the whole step */
    int operation;    /* operation of the tape to which the pass belongs (tape.h) */
    double bytes;
    double seconds; /* NaN here; bench/step_times.h measures it */
    /* The launch of a kernel in a convolution's place; NULL: a pass of the network's own */
    const kas_operation *kernel;
    bool library;            /* a library computes it: */
    kas_conv_desc conv;      /* this convolution, */
    kas_conv_pass conv_pass; /* this pass of it */
    bool activated;          /* with an activation behind it */
    bool held;               /* by weights that stay fixed (kas_conv_hold) */
    /* Of `bytes`, of a kernel's launch: those of the network's own tensors. All other tensors are of
     * one piece of the batch, and the next piece uses the same memory */
    double far;
    /* Rounds of loads for which a thread of a GPU waits, one behind the other, where a pass has few
     * threads; else 0, and launches of kernels have their own (kas_effort) */
    double rounds;
} kas_sweep;

typedef struct kas_planned_bytes {
    kas_sweep *pass; /* [passes] in the order of the step */
    int passes;
    double bytes; /* of all passes */
    double floor_bytes, floor_flops;
} kas_planned_bytes;

/* The pass of a launch of a program in the place of `layer`, on its own: it belongs to no operation. */
kas_sweep kas_sweep_of(const char *what, int layer, const kas_program *program,
                       const kas_operation *op);

/* Counts one step of the model's batch. The caller frees *out with kas_planned_bytes_free. */
kas_status kas_planned_bytes_count(const kas_model *model, kas_tape_mode mode,
                                   kas_planned_bytes *out);
/* Does the same for a model that was never created; needs no device. */
kas_status kas_planned_bytes_plan(const kas_model_options *options, kas_tape_mode mode,
                                  kas_planned_bytes *out);
void kas_planned_bytes_free(kas_planned_bytes *planned);

/* Gives all passes the measured times of the launches of a recorded step: `seconds` by launch, and
 * `mark` as in kas_step_options. An operation of the tape usually has one launch for each pass. A
 * bias that the library includes in another launch gets none; where the numbers differ for another
 * reason, the largest pass gets the time of the whole operation and the others get none. Returns
 * the time that was given. */
double kas_planned_bytes_give(kas_planned_bytes *planned, const int *mark, const double *seconds);

/* All passes of one kind together. */
typedef struct kas_sweep_kind {
    const char *what;
    int passes;
    double bytes;
    double seconds; /* of the passes that have a time */
} kas_sweep_kind;
enum { KAS_SWEEP_KINDS = 64 };
/* Sums the passes by kind and returns the number of kinds: the slowest kind first, or the largest
 * first when no pass has a time. */
int kas_planned_bytes_kinds(const kas_planned_bytes *planned,
                            kas_sweep_kind kinds[KAS_SWEEP_KINDS]);

#endif
