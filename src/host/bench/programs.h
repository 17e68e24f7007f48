/* Prepares lowered kernels for timing: it compiles them together and gives each buffer of a program
 * memory with random numbers that suit its role, so that a pass does what it does in a network.
 *
 * Programs run one after the other and share memory, buffer by buffer, as large as the largest
 * needs: a timed program finds its caches full of other data, as in a step. */
#ifndef KAS_BENCH_PROGRAMS_H
#define KAS_BENCH_PROGRAMS_H

#include "jit/ir/program.h"

typedef struct kas_bench_programs kas_bench_programs;

/* Prepares `program` [count], which must have distinct prefixes and outlive the result. `cache_dir`
 * as in kas_compiler_open. The caller frees *out with kas_bench_programs_free. */
kas_status kas_bench_programs_create(kas_device *device, kas_program *const *program, int count,
                                     const char *cache_dir, kas_bench_programs **out);
void kas_bench_programs_free(kas_bench_programs *programs); /* NULL is allowed */
/* Runs the forward pass and, if the program trains, the backward pass, and gets the seconds on
 * the device. */
kas_status kas_bench_programs_run(kas_bench_programs *programs, int number, double *seconds);

#endif
