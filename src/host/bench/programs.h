/* Lowered kernels made ready to be timed: compiled together, each with memory of its own kind full
 * of random numbers, so that a pass does what it does in a network.
 *
 * Programs run one after the other and share the memory of the largest, buffer by buffer: what is
 * timed finds its data where the program before left other data, as in a step. */
#ifndef KAS_BENCH_PROGRAMS_H
#define KAS_BENCH_PROGRAMS_H

#include "jit/ir/program.h"

typedef struct kas_bench_programs kas_bench_programs;

/* `program` [count] with prefixes of their own; must outlive the result. `cache_dir` as in
 * kas_compiler_open. */
kas_status kas_bench_programs_create(kas_device *device, kas_program *const *program, int count,
                                     const char *cache_dir, kas_bench_programs **out);
void kas_bench_programs_free(kas_bench_programs *programs); /* NULL is allowed */
/* Forward and, where the program trains, backward; seconds on the device. */
kas_status kas_bench_programs_run(kas_bench_programs *programs, int number, double *seconds);

#endif
