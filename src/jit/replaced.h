/* The programs of a replacement: one for each kernel and distinct target shape, compiled together.
 *
 * ResNet-20 has 18 targets but 5 shapes; targets of one kernel and shape (and binding) share a
 * program and differ in their weights.  The sources of a candidate are compiled together, in a few
 * units (units.h) on all cores.  Building and compiling need no device; loading does.  Other
 * folders include this header. */
#ifndef KAS_JIT_REPLACED_H
#define KAS_JIT_REPLACED_H

#include "host/space/solve/replacement.h"
#include "jit/compile/compile.h"
#include "jit/ir/program.h"

enum { KAS_REPLACED_MAX = 1024 }; /* targets */

typedef struct kas_replaced {
    int targets;
    const kas_target *target; /* [targets]; the caller's */
    int *program_of;          /* [targets]; -1 where the convolution stays */
    int programs;
    kas_program **program; /* [programs] */
    int modules;           /* after kas_replaced_load, as is what follows */
    kas_module **module;   /* [modules] */
    kas_loaded **loaded;   /* [programs] */
} kas_replaced;

/* Of `options` batch, training, dtype and tf32 count; programs without gradients get the epilogues
 * of their targets. `replacement` NULL gives an empty one. */
kas_status kas_replaced_build(const kas_replacement *replacement,
                              const kas_program_options *options, kas_replaced *out);
/* Compiles (or finds in the cache) the units of all programs. path: [*units], malloc'ed; may be
 * NULL when all that is wanted is that the cache has them. */
kas_status kas_replaced_compile(kas_replaced *replaced, kas_compiler *compiler, int threads,
                                char (**path)[4096], int *units, kas_compile_stats *stats);
/* Threads that compile for an item on this device: those it computes with on the CPU, all cores
 * where the work is a GPU's. */
int kas_compile_threads(const kas_device_info *info);
/* Compiles and loads; *compile_seconds gets the time spent waiting for a compiler, one's own or
 * another process's, 0 when all was cached. */
kas_status kas_replaced_load(kas_replaced *replaced, kas_device *device, const char *cache_dir,
                             double *compile_seconds);
void kas_replaced_free(kas_replaced *replaced);

/* The program and loaded program of network layer `layer`; -1 when it is not replaced. */
int kas_replaced_program_of_layer(const kas_replaced *replaced, int layer);

#endif
