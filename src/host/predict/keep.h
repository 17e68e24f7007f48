/* Decides at which layers a kernel takes the place of the convolution (--keep-slower).
 *
 * A kernel need not fit every layer: 16 outputs of all inputs leave nothing where there are 16
 * channels, and in the place of a 1x1 convolution most kernels cost more than what they replace. So
 * a layer keeps its convolution where its kernel has no sizes, or where the network with that
 * kernel alone is predicted to take longer than the unmodified network.
 *
 * The decision is a file of layers, and everything behind it treats it as one: its name, the study,
 * the checkpoint and the exported model say which layers are replaced, and none of them asks a
 * machine model again. Other folders include this header. */
#ifndef KAS_PREDICT_KEEP_H
#define KAS_PREDICT_KEEP_H

#include "host/predict/predict.h"
#include "host/space/file/assignment.h"

/* Gives each layer the kernel that the assignment has for it, or none where that has no sizes.
 * `kernels` becomes an assignment of layers, in canonical form, unless every layer has a kernel
 * already. Returns KAS_ILLEGAL when no layer is left, and says why the last one is not. */
kas_status kas_keep_where_none_fits(const kas_target *targets, int count, const kas_budget *budget,
                                    kas_assignment *kernels);

/* Does so, and then takes the kernel away from each layer at which it is predicted to be slower.
 * Free sizes may grow when others are gone, so it asks again until nothing changes. KAS_ILLEGAL as
 * above; KAS_OVER_BUDGET when what is kept costs too much. */
kas_status kas_keep_slower(const kas_predictor *predictor, const kas_target *targets, int count,
                           const kas_budget *budget, kas_assignment *kernels);

/* What a command that takes --keep-slower asks for. */
typedef struct kas_keep {
    const char *machine; /* as kas_machine_find takes it; NULL: every layer has a kernel */
    const char *device;  /* which device "auto" means there, as --device names it; NULL: any */
    int threads;         /* of a CPU */
    int batch;           /* 0: KAS_KEEP_BATCH */
    kas_precision precision;
} kas_keep;
enum { KAS_KEEP_BATCH = 32 };

/* Does what `keep` asks for, or nothing, and reports the layers that are kept. `name` stands for
 * the kernels in the report. */
kas_status kas_keep_apply(const kas_keep *keep, const char *name, const kas_net *net,
                          const kas_target *targets, int count, const kas_budget *budget,
                          kas_assignment *kernels);

#endif
