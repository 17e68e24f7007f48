#include "host/search/worker/programs.h"

#include "host/model/model.h"

kas_program_options kas_stage_programs(const kas_search_options *options, kas_stage stage)
{
    const kas_precision precision = (kas_precision)options->recipe.precision;
    switch (stage) {
    case KAS_STAGE_TRAINING:
        return kas_model_program_options(&(kas_model_options){
            .batch = options->recipe.batch, .training = true, .precision = precision});
    case KAS_STAGE_LATENCY:
        return kas_model_program_options(
            &(kas_model_options){.batch = KAS_LATENCY_BATCH, .precision = precision});
    default:
        return (kas_program_options){.batch = KAS_LATENCY_BATCH};
    }
}

kas_status kas_stage_compile(const kas_replacement *replacement, const kas_search_options *options,
                             kas_stage stage, kas_compiler *compiler, int threads,
                             kas_compile_stats *stats)
{
    kas_program_options programs = kas_stage_programs(options, stage);
    kas_replaced replaced;
    *stats = (kas_compile_stats){0};
    programs.linear_policy = kas_linear_policy_of(kas_compiler_arch(compiler));
    KAS_TRY(kas_replaced_build(replacement, &programs, &replaced));
    const kas_status status = kas_replaced_compile(&replaced, compiler, threads, NULL, NULL, stats);
    kas_replaced_free(&replaced);
    return status;
}
