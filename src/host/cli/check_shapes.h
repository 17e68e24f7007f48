/* The shapes at which `check` looks at a kernel: each once, however many layers have it. */
#ifndef KAS_CLI_CHECK_SHAPES_H
#define KAS_CLI_CHECK_SHAPES_H

#include "host/space/solve/replacement.h"

/* Targets of different shape, with their bindings. */
typedef struct kas_check_shapes {
    kas_target *target;
    kas_binding *binding;
    int count;
} kas_check_shapes;

/* Those of the targets that have `kernel`; kas_check_shapes_free in any case. */
kas_status kas_check_shapes_of(const kas_replacement *replacement, const kas_kernel *kernel,
                               kas_check_shapes *out);
/* Leaves `wanted` of the shapes (0 = all), the next ones at the next turn, so that all get theirs.
 */
void kas_check_shapes_choose(kas_check_shapes *shapes, int wanted, long long turn);
void kas_check_shapes_free(kas_check_shapes *shapes);

#endif
