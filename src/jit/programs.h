/* The programs of a replacement: one for each kernel and distinct shape of target.
 *
 * ResNet-20 has 18 targets but 5 shapes.  Targets of one kernel, shape and binding share a program
 * and differ in their weights.  The sources of all programs are compiled together, in a few units
 * (units.h) on all cores.
 *
 * Programs are lowered once for each stage of an evaluation (inference, training) and passed on to
 * everything in the stage that reads or runs them.  Building and compiling need no device; loading
 * does.  NULL in the place of a const kas_programs stands for the network as it is.  Other folders
 * include this header. */
#ifndef KAS_JIT_PROGRAMS_H
#define KAS_JIT_PROGRAMS_H

#include "host/space/solve/replacement.h"
#include "jit/compile/compile.h"
#include "jit/ir/program.h"

enum { KAS_TARGETS_MAX = 1024 };

typedef struct kas_programs {
    const kas_replacement *replacement; /* must outlive the programs; NULL: there are none */
    kas_program_options options;        /* they were built for */
    int *program_of;                    /* [targets]; -1 where the convolution stays */
    int count;
    kas_program **program; /* [count] */
    int modules;           /* after kas_programs_load, as is what follows */
    kas_module **module;   /* [modules] */
    kas_loaded **loaded;   /* [count] */
} kas_programs;

/* Reads batch, training, dtype, tf32, unwritten, linear_policy, lanes, piece_bytes and tuned of `options`,
 * of which `tuned` must outlive the call only; programs without gradients get the epilogues of
 * their targets. `replacement` NULL gives no programs. */
kas_status kas_programs_build(const kas_replacement *replacement,
                              const kas_program_options *options, kas_programs *out);
/* Builds program number p once more, with what `schedules` says of prefix, unwritten, schedules and
 * their listing. kas_program_free frees *out. */
kas_status kas_programs_build_again(const kas_programs *programs, int p,
                                    const kas_program_options *schedules, kas_program **out);
/* Returns whether one program serves both targets: same kernel, shape and sizes inside. */
bool kas_programs_are_one(const kas_replacement *replacement, int a, int b);
/* Returns the first target of program number p. */
int kas_programs_target(const kas_programs *programs, int p);
/* Collects the epilogues of the targets that share a program with a replaced one, each once, in the order
 * in which the program of an inference has them; returns their number. */
int kas_programs_epilogues(const kas_replacement *replacement, int target,
                           kas_epilogue epilogue[KAS_EPILOGUES_MAX]);
/* Compiles, or finds in the cache, the kernels of all programs. path: [*images], malloc'ed; may be
 * NULL when all that is wanted is that the cache has them. */
kas_status kas_programs_compile(kas_programs *programs, kas_compiler *compiler, int threads,
                                char (**path)[4096], int *images, kas_compile_stats *stats);
/* Compiles and loads, and does nothing when they are loaded; after a failure they can only be
 * freed. *compile_seconds gets the time spent waiting for a compiler, our own or another process's;
 * it is 0 when all was cached. */
kas_status kas_programs_load(kas_programs *programs, kas_device *device, const char *cache_dir,
                             double *compile_seconds);
void kas_programs_free(kas_programs *programs);

/* The number of the program of network layer `layer`; -1 when the layer is not replaced. */
int kas_programs_of_layer(const kas_programs *programs, int layer);
/* Whether the programs serve every gain: not so where a library writes Y in programs that were
 * built when all gains were 1. */
bool kas_programs_take_gains(const kas_programs *programs);
/* The gain of network layer `layer`; 1 when it is not replaced. */
float kas_programs_gain(const kas_programs *programs, int layer);

#endif
