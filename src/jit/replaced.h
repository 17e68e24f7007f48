/* The programs of a replacement: one for each distinct target shape, compiled together.
 *
 * ResNet-20 has 18 targets but 5 shapes; targets of one shape (and binding) share a program and
 * differ in their weights.  All sources of a candidate make one text, because starting the compiler
 * costs more than a kernel.  Building needs no device (--dry-run); loading does. */
#ifndef KAS_JIT_REPLACED_H
#define KAS_JIT_REPLACED_H

#include "host/space/solve.h"
#include "jit/compile.h"
#include "jit/program.h"

/* A kernel put in the place of a network's targets. */
typedef struct kas_replacement {
    const kas_kernel *kernel;
    const kas_target *target; /* [targets], in the order of solution->binding */
    const kas_solution *solution;
} kas_replacement;

enum { KAS_REPLACED_MAX = 1024 }; /* targets */

typedef struct kas_replaced {
    int targets;
    const kas_target *target; /* [targets]; the caller's */
    int *program_of;          /* [targets] */
    int programs;
    kas_program **program; /* [programs] */
    kas_module *module;    /* after kas_replaced_load */
    kas_loaded **loaded;   /* [programs] */
} kas_replaced;

/* `replacement` NULL gives an empty one. */
kas_status kas_replaced_build(const kas_replacement *replacement, int batch, bool training,
                              kas_replaced *out);
/* The text of all programs, which is compiled as one; appended. */
kas_status kas_replaced_text(const kas_replaced *replaced, kas_buf *text);
/* Compiles (or finds in the cache) and loads; *compile_seconds gets the time of the compiler, 0
 * when it was cached. */
kas_status kas_replaced_load(kas_replaced *replaced, kas_device *device, const char *cache_dir,
                             double *compile_seconds);
void kas_replaced_free(kas_replaced *replaced);

/* The program and loaded program of network layer `layer`; -1 when it is not replaced. */
int kas_replaced_program_of_layer(const kas_replaced *replaced, int layer);

#endif
