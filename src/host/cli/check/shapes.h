/* Collects the shapes at which `check` tests a kernel: each program once, however many layers have
 * it. */
#ifndef KAS_CLI_CHECK_SHAPES_H
#define KAS_CLI_CHECK_SHAPES_H

#include "host/space/solve/replacement.h"

/* Targets of different shapes, with their bindings and gains: [count] each. */
typedef struct kas_check_shapes {
    kas_target *target;
    kas_binding *binding;
    float *gain; /* of the first layer of each shape */
    int count;
} kas_check_shapes;

/* Collects the shapes of the targets that have `kernel`. The caller calls kas_check_shapes_free,
 * also after a failure. */
kas_status kas_check_shapes_of(const kas_replacement *replacement, const kas_kernel *kernel,
                               kas_check_shapes *out);
/* Keeps only `wanted` of the shapes (0 = all). Successive values of `turn` choose successive
 * shapes, so that all of them are tested in time. */
void kas_check_shapes_choose(kas_check_shapes *shapes, int wanted, long long turn);
/* Asks whether the kernel's output has a usual size at all shapes (kas_reference_output_deviation). */
kas_status kas_check_shapes_screen(const kas_check_shapes *shapes, const kas_kernel *kernel,
                                   int batch, uint64_t seed, bool *passes);
void kas_check_shapes_free(kas_check_shapes *shapes);

#endif
