#include "host/check/agree_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/reference/kernel/reference.h"

/* Finds whether a schedule of the file adds up in another order than the default one. */
static kas_status find_order(const kas_kernel *kernel, const kas_target *target,
                             const kas_binding *binding, const kas_agree_options *o, bool *other)
{
    const kas_program_options options = {.batch = o->batch,
                                         .training = true,
                                         .dtype = o->dtype,
                                         .gained = kas_agree_gain(o, 0) != 1,
                                         .linear_policy = o->linear_policy,
                                         .unwritten = true,
                                         .prefix = "k0",
                                         .schedule_file = o->schedule_file};
    kas_program *program;
    KAS_TRY(kas_program_build(kernel, target, binding, &options, &program));
    *other = program->other_sums;
    kas_program_free(program);
    return KAS_OK;
}

/* Compares the bits that a file's schedules give with those of the default ones. */
static kas_status compare_bits(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                               const kas_target *target, const kas_binding *binding,
                               const kas_agree_options *options, bool *same)
{
    kas_agreement own, usual;
    kas_agree_options o = *options;
    kas_schedule_file *none = calloc(1, sizeof *none); /* prescribes nothing */
    if (!none)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    o.directions = 0; /* the reference was checked */
    kas_status status = kas_agree(device, compiler, kernel, target, binding, 1, &o, &own);
    o.schedule_file = none;
    if (status == KAS_OK)
        status = kas_agree(device, compiler, kernel, target, binding, 1, &o, &usual);
    free(none);
    if (status == KAS_OK)
        *same = own.digest == usual.digest;
    return status;
}

/* Says how long a check of many images will take, by the time that the reference takes for one. */
static kas_status tell_time(const kas_kernel *kernel, const kas_target *target,
                            const kas_binding *binding, const kas_agree_options *o)
{
    enum { LONG = 10, PASSES = 20 /* forward passes that three checks take about as long as */ };
    double unused;
    const double began = kas_monotonic();
    KAS_TRY(kas_reference_output_deviation(kernel, target, binding, 1, o->seed, &unused));
    const double seconds = (kas_monotonic() - began) * PASSES * o->batch;
    if (seconds > LONG)
        kas_info("the float64 reference takes about %.0f s for the %d images of %s", seconds,
                 o->batch, o->schedule_file->path);
    return KAS_OK;
}

kas_status kas_agree_schedule(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                              const kas_target *target, const kas_binding *binding,
                              const kas_agree_options *options, kas_agreement *result,
                              kas_schedule_bits *bits)
{
    const bool cpu = strcmp(kas_compiler_arch(compiler), "cpu") == 0;
    kas_agree_options o = *options;
    kas_compiler *apart = NULL;
    bool other_sums = false, same = false;
    o.batch = options->schedule_file->batch;
    o.linear_policy = options->schedule_file->cpu ? KAS_LINEAR_CPU : KAS_LINEAR_GPU;
    KAS_TRY(tell_time(kernel, target, binding, &o));
    KAS_TRY(find_order(kernel, target, binding, &o, &other_sums));
    KAS_TRY(kas_agree(device, compiler, kernel, target, binding, 1, &o, result));
    if (cpu)
        KAS_TRY(kas_compiler_open("cpu+apart", NULL, &apart));
    const kas_status status =
        compare_bits(device, cpu ? apart : compiler, kernel, target, binding, &o, &same);
    kas_compiler_close(apart);
    *bits = same         ? KAS_BITS_SAME
            : other_sums ? KAS_BITS_OTHER_SUMS
            : cpu        ? KAS_BITS_WRONG
                         : KAS_BITS_CONTRACTED;
    if (*bits == KAS_BITS_WRONG)
        result->verdict = KAS_AGREE_FAILED;
    return status;
}
