/* The programs that a candidate's evaluation asks the JIT for, stage by stage.
 *
 * Kept in one place, so that what is compiled ahead of need (ahead.h) is what a worker asks for
 * later: the same text for the same compiler has the same key in the cache (jit/compile/compile.h).
 * No device is needed. */
#ifndef KAS_SEARCH_WORKER_PROGRAMS_H
#define KAS_SEARCH_WORKER_PROGRAMS_H

#include "host/study/options.h"
#include "jit/replaced.h"

typedef enum kas_stage {
    KAS_STAGE_SCREEN,   /* inference in float32 (score/screen.h) */
    KAS_STAGE_LATENCY,  /* inference in the study's precision: in float32 that of the screen */
    KAS_STAGE_TRAINING, /* both passes, also of the final training */
    KAS_STAGES
} kas_stage;

/* But for `maps`, which is a device's. */
kas_program_options kas_stage_programs(const kas_search_options *options, kas_stage stage);

/* Compiles what the stage asks for, or finds it in the cache; `stats` gets what it took. */
kas_status kas_stage_compile(const kas_replacement *replacement, const kas_search_options *options,
                             kas_stage stage, kas_compiler *compiler, int threads,
                             kas_compile_stats *stats);

#endif
