/* Cuts the text of a candidate's programs into units, which are compiled separately, and compiles
 * of each unit what no earlier candidate has.
 *
 * Cuts lie between kernels, so that several cores can compile one candidate. A unit should hold
 * many kernels, because starting the compiler and reading the prelude cost as much as a kernel or
 * more. The cut depends on the text and the architecture alone, so a process that compiles a
 * candidate ahead of need finds the same units.
 *
 * Inference and training of a candidate have kernels in common, and so have children and their
 * parents: of the kernels of 40 children of 8 parents half were there before. So a unit's kernels
 * are named by their texts, the cache knows for each kernel an image that has it
 * (compile_known.c), and a unit is compiled without the kernels that are known. */
#ifndef KAS_JIT_COMPILE_UNITS_H
#define KAS_JIT_COMPILE_UNITS_H

#include "host/core/buf.h"
#include "jit/compile/compile.h"
#include "jit/ir/program.h"

typedef struct kas_unit_kernel {
    const kas_operation *operation; /* in whose program its text stands */
    int unit;
    size_t at, size; /* its place in the unit's text */
} kas_unit_kernel;

typedef struct kas_units {
    int count;
    kas_buf *text; /* [count] */
    int kernels;
    kas_unit_kernel *kernel; /* [kernels], in the order of the texts */
} kas_units;

/* Cuts the texts of `programs`, whose equal kernels are shared (share.h), for `arch` (compile.h),
 * and sets `unit` and `symbol` of every launch. `programs` must outlive the units. Call
 * kas_units_free also after a failure. */
kas_status kas_units_cut(kas_program *const *program, int programs, const char *arch,
                         kas_units *out);
void kas_units_free(kas_units *units);

/* Finds or makes an image for each kernel of the units of `programs`: path [*count], malloc'ed.
 * Sets `unit` of every launch to the number of its image. Threads, stats and failures are those of
 * kas_compile_all. */
kas_status kas_units_compile(const kas_units *units, kas_program *const *program, int programs,
                             kas_compiler *compiler, int threads, char (**path)[4096], int *count,
                             kas_compile_stats *stats);

#endif
