/* The programs that the evaluation of a candidate asks the JIT for, stage by stage.
 *
 * They are defined in one place, so that the helper that compiles ahead of need (ahead.h) makes
 * what a worker asks for later: the same text for the same compiler has the same key in the cache
 * (jit/compile/compile.h).  No device is needed. */
#ifndef KAS_SEARCH_WORKER_PROGRAMS_H
#define KAS_SEARCH_WORKER_PROGRAMS_H

#include "host/study/options.h"
#include "jit/programs.h"

typedef enum kas_stage {
    KAS_STAGE_CALIBRATION, /* inference in float32 (score/calibrate.h) */
    KAS_STAGE_LATENCY,     /* inference in the study's precision */
    KAS_STAGE_IMITATION,   /* with --imitate: both passes in float32 or TF32 */
    KAS_STAGE_TRAINING,    /* both passes */
    KAS_STAGE_FINAL,       /* the same of a final training, of whose batch each rank has a part */
    KAS_STAGES
} kas_stage;

/* Lowers what the stage asks for on `device` (as kas_linear_policy_of has it). `tuned`: folder of
 * tuned schedules (jit/tuned.h), or NULL. */
kas_status kas_stage_build(const kas_replacement *replacement, const kas_search_options *options,
                           kas_stage stage, const char *device, const char *tuned,
                           kas_programs *out);

#endif
