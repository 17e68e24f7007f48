/* Predicts how long a network takes, from what its launches do, without compiling or running it.
 *
 * The launches come from the tape of a step (model/planned_bytes.h) and, for kernels in the place
 * of convolutions, from their programs, which are lowered but not compiled: grid, bytes, and what
 * the instructions are (kas_effort). A machine model (machine.h) gives each launch four times,
 *
 *     memory       its bytes at the bandwidth of the smallest cache that holds them, or of memory
 *     arithmetic   its instructions, on as many cores as it has blocks for; of a library's
 *                  convolution, its multiply-adds at the rate times an efficiency by class of shape
 *     latency      what the threads of one block wait for, as often as blocks follow one another
 *     launch       what a launch costs that does nothing
 *
 * and predicts launch + the longest of the other three, or, on a CPU, which has no other threads to
 * run meanwhile, launch + all three. Which one is the longest is the launch's bound. The time of a step is the sum over its launches, which run one after the other.
 *
 * Nothing here changes after it was made, so threads may share it. Other folders include this
 * header. */
#ifndef KAS_PREDICT_PREDICT_H
#define KAS_PREDICT_PREDICT_H

#include "host/model/planned_bytes.h"
#include "host/predict/machine.h"

typedef enum kas_bound {
    KAS_BOUND_MEMORY,
    KAS_BOUND_ARITHMETIC,
    KAS_BOUND_LATENCY,
    KAS_BOUND_LAUNCH,
    KAS_BOUNDS
} kas_bound;
extern const char *const kas_bound_names[]; /* "memory", ..., NULL */

typedef struct kas_estimate {
    double part[KAS_BOUNDS]; /* seconds by bound */
    double seconds, floor;   /* floor: what the hardware cannot go below, whatever the code is */
    kas_bound bound;
} kas_estimate;

/* Predicts one pass of a step. */
kas_estimate kas_predict_pass(const kas_machine *machine, const kas_sweep *pass);

/* Lowers a replacement for predictions on a machine, for inference or training: programs without
 * text, which cannot be compiled. The caller frees *out with kas_programs_free. */
kas_status kas_predict_lower(const kas_machine *machine, const kas_replacement *replacement,
                             int batch, kas_precision precision, bool training, kas_programs *out);

typedef struct kas_prediction {
    kas_planned_bytes planned; /* the launches, with `seconds` as predicted; their `kernel` points
                                  into the programs */
    kas_estimate *estimate;    /* [planned.passes] */
    double seconds, floor;     /* of the forward pass: sums */
} kas_prediction;

/* Predicts the forward pass of `batch` images through a network, as a search measures latency.
 * `programs` are built for inference at this batch and precision (kas_predict_lower, or as they are
 * run); NULL: the unmodified network. The caller frees *out with kas_prediction_free. */
kas_status kas_predict(const kas_machine *machine, const kas_net *net, kas_programs *programs,
                       int batch, kas_precision precision, kas_prediction *out);
void kas_prediction_free(kas_prediction *prediction);

/* ---- for a search ------------------------------------------------------------------------------
 *
 * A predictor answers for one candidate after the other, in a process that opens no device. Compare
 * ratios to the unmodified network, not seconds: what the model has wrong for all launches of a
 * machine then cancels. A candidate is slow when
 *
 *     seconds / kas_predictor_unmodified(p) > allowed ratio * kas_predictor_margin(p) */
typedef struct kas_predictor kas_predictor;

/* Makes a predictor for forward passes of `batch` images (KAS_LATENCY_BATCH in a search). `net` must
 * outlive it, the machine need not. The caller frees *out with kas_predictor_free. */
kas_status kas_predictor_create(const kas_machine *machine, const kas_net *net, int batch,
                                kas_precision precision, kas_predictor **out);
void kas_predictor_free(kas_predictor *predictor); /* NULL is allowed */
/* Predicts a candidate: lowers its programs, once for each distinct shape of target, and drops them
 * again. Costs some milliseconds of one core. Returns KAS_ILLEGAL or KAS_UNSUPPORTED where a kernel
 * cannot be lowered, as its compilation later would. Threads may call it at once. */
kas_status kas_predict_candidate(const kas_predictor *predictor, const kas_replacement *replacement,
                                 double *seconds);
double kas_predictor_unmodified(const kas_predictor *predictor); /* seconds */
/* The factor by which a prediction must exceed a limit before a candidate is discarded: the
 * machine's margin, or 2 for a machine that was never calibrated. */
double kas_predictor_margin(const kas_predictor *predictor);

#endif
