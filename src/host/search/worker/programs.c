#include "host/search/worker/programs.h"

#include "host/model/model.h"

kas_status kas_stage_build(const kas_replacement *replacement, const kas_search_options *options,
                           kas_stage stage, const char *device, const char *tuned,
                           kas_programs *out)
{
    const kas_precision precision = (kas_precision)options->recipe.precision;
    kas_model_options of[KAS_STAGES] = {
        [KAS_STAGE_CALIBRATION] = {.batch = KAS_LATENCY_BATCH},
        [KAS_STAGE_LATENCY] = {.batch = KAS_LATENCY_BATCH, .precision = precision},
        [KAS_STAGE_IMITATION] = {.batch = options->recipe.batch,
                                 .training = true,
                                 .precision = precision == KAS_PRECISION_TF32 ? KAS_PRECISION_TF32
                                                                              : KAS_PRECISION_FP32},
        [KAS_STAGE_TRAINING] = {.batch = options->recipe.batch,
                                .training = true,
                                .precision = precision},
        [KAS_STAGE_FINAL] = {.batch = options->recipe.batch / options->ranks,
                             .training = true,
                             .precision = precision}};
    of[stage].tuned = tuned;
    return kas_model_build_programs(&of[stage], replacement, device, out);
}
