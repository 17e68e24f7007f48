/* Where the bytes of a step go: every pass over memory, counted before anything runs.
 *
 * A training step on a GPU is bound by memory nearly everywhere, so its bytes say how fast it can
 * be, and its list of passes says what could be saved.  Both come from the operations of the tape
 * (tape.h) and need no device.
 *
 * Counted: each pass of an operation reads and writes each of its tensors once, the channels
 * without their padding.  A tensor that a kernel reads again at once (the second look at a chunk,
 * the taps of a window) comes from a cache and counts once; what a library does inside a call
 * (transforms, workspaces) is not known and counts nothing; a bias counts as a pass of its own,
 * which it is where the library does not take it along.  A kernel in a convolution's place that
 * does the batch norm behind it (jit/lower/epilogue.h), or a convolution that it is folded into
 * (fold.h), is one pass with it.  So this is a lower bound of what the plan moves, exact for our
 * own kernels over tensors that no cache holds.
 *
 * The floor is what a perfect fusion must move:
 *
 *   - the only kernels are those of layers that learn maps: convolutions, linear layers, kernels in
 *     their place.  Forward: input, weights, output once.  Backward, one kernel for both gradients:
 *     input, the output's gradient and the weights read, the input's gradient (where anybody wants
 *     it) and that of the weights written.  Of a kernel in a convolution's place: each of these
 *     that a pass of it touches.
 *   - everything else is computed by these on the way in or out, and costs only what they do not
 *     hold: a sum or product reads its second input; a norm's backward pass reads the norm's input
 *     once more; of a tensor with k readers, k - 1 gradients are read to be added up.
 *   - images are read as the bytes that they are stored in, wherever a map or a norm reads them,
 *     but for inference, which is given numbers; the optimiser reads and writes each thing that it
 * keeps once, and reads the gradient.
 *
 * Arithmetic: the multiply-adds of the maps alone, in training without the gradient of the images;
 * of a kernel in a convolution's place all that its operations count.
 */
#ifndef KAS_MODEL_PLANNED_BYTES_H
#define KAS_MODEL_PLANNED_BYTES_H

#include "host/model/model.h"

/* One pass over memory. */
typedef struct kas_sweep {
    const char *what; /* "convolution forward", "batch norm statistics", ... */
    int layer;        /* of the network; -1: of the whole step */
    int operation;    /* of the tape that it is a part of (tape.h) */
    double bytes;
    double seconds; /* NaN here: for whoever measures (bench/step_times.h) */
} kas_sweep;

typedef struct kas_planned_bytes {
    kas_sweep *pass; /* [passes] in the order of the step */
    int passes, capacity;
    double bytes; /* of all passes */
    double floor_bytes, floor_flops;
} kas_planned_bytes;

/* Of one step of the model's batch. */
kas_status kas_planned_bytes_count(const kas_model *model, kas_tape_mode mode,
                                   kas_planned_bytes *out);
/* The same of a model that is not made: needs no device. */
kas_status kas_planned_bytes_plan(const kas_model_options *options, kas_tape_mode mode,
                                  kas_planned_bytes *out);
void kas_planned_bytes_free(kas_planned_bytes *planned);

/* Passes of one kind together: those that took longest first; without times the largest. */
typedef struct kas_sweep_kind {
    const char *what;
    int passes;
    double bytes;
    double seconds; /* of those that have a time */
} kas_sweep_kind;
enum { KAS_SWEEP_KINDS = 64 };
int kas_planned_bytes_kinds(const kas_planned_bytes *planned,
                            kas_sweep_kind kinds[KAS_SWEEP_KINDS]);

#endif
