/* Plans of cuDNN: which engine runs a graph, with which knobs.
 *
 * The library ranks configurations of its engines for a graph. A configuration is the number of an
 * engine and some knobs. For one version of the library on one kind of GPU it stands for the same
 * kernel every time, so it can be written down (tuning.h) and made again.
 *
 * Engines that the library compiles when a plan is made stand last of a ranking, and two of them at most:
 * such a plan takes a second and more, in every process.
 *
 * Only engines whose results are the same in every run are taken, and none that rounds more than
 * its types say: no FFT, no Winograd, no inputs converted to fewer bits, no
 * reduction in 16 bits. Tensor cores are taken for 16-bit types, and for float32 where the caller
 * allows TF32. */
#ifndef KAS_CUDA_DNN_PLAN_H
#define KAS_CUDA_DNN_PLAN_H

#include "cuda/dnn_graph.h"

enum { KAS_DNN_MAX_KNOBS = 16 }; /* knobs of one configuration; the most ever seen are 8 */
typedef struct kas_dnn_knob {
    int32_t type;
    int64_t value;
} kas_dnn_knob;

typedef struct kas_dnn_choice {
    int64_t engine;
    /* Not from the ranking by heuristics, but from the list of what works anywhere */
    bool fallback;
    bool compiled; /* at run time; unknown of a choice that was written down */
    int knobs;
    kas_dnn_knob knob[KAS_DNN_MAX_KNOBS];
} kas_dnn_choice;

/* Lists at most `room` choices, best first by the library's own ranking; *count may be 0. */
kas_status kas_dnn_choices(kas_cuda *cuda, const kas_dnn_graph *graph, bool tensor_cores,
                           kas_dnn_choice *choice, int room, int *count);

typedef struct kas_dnn_plan {
    cudnnBackendDescriptor_t engine, config, plan;
    size_t workspace_bytes;
} kas_dnn_plan;

/* Makes the plan of a choice. Returns KAS_UNSUPPORTED when the engine refuses these tensors after
 * all. The graph must outlive the plan; `*out` is all zero after a failure. */
kas_status kas_dnn_plan_make(kas_cuda *cuda, const kas_dnn_graph *graph,
                             const kas_dnn_choice *choice, kas_dnn_plan *out);
void kas_dnn_plan_free(kas_cuda *cuda, kas_dnn_plan *plan);

/* Enqueues a plan on the stream of the device's handle. Pointers must be
 * aligned to KAS_CONV_ALIGNMENT. */
kas_status kas_dnn_plan_run(kas_cuda *cuda, const kas_dnn_plan *plan, const kas_conv_operands *o,
                            void *workspace);

#endif
