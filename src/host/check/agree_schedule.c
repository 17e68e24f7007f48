#include "host/check/agree_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/reference/kernel/reference.h"
#include "jit/programs.h"

const char *const kas_schedule_bits_names[] = {
    [KAS_BITS_SAME] = "as",
    [KAS_BITS_OTHER_SUMS] = "other than (sums have another order)",
    [KAS_BITS_CONTRACTED] = "other than (a GPU's compiler contracts products and sums)",
    [KAS_BITS_WRONG] = "other than (though sums have the same order)"};

/* A kernel at one target. */
typedef struct scheduled {
    kas_device *device;
    const kas_kernel *kernel;
    const kas_target *target;
    const kas_binding *binding;
    kas_agree_options options;
} scheduled;

/* Finds whether a schedule of the file adds up in another order than the default one. */
static kas_status find_order(const scheduled *s, bool *other)
{
    kas_program_options options = kas_agree_program(&s->options, s->target, 0, "k0");
    options.unwritten = true;
    kas_program *program;
    KAS_TRY(kas_program_build(s->kernel, s->target, s->binding, &options, &program));
    *other = program->other_sums;
    kas_program_free(program);
    return KAS_OK;
}

static kas_status agree(const scheduled *s, kas_compiler *compiler, const kas_agree_options *o,
                        kas_agreement *result)
{
    return kas_agree(s->device, compiler, s->kernel, s->target, s->binding, 1, o, result);
}

/* Compares the bits that a file's schedules give with those of the default ones. */
static kas_status compare_bits(const scheduled *s, kas_compiler *compiler, bool *same)
{
    kas_agreement own, usual;
    kas_agree_options o = s->options;
    kas_schedule_file *none = calloc(1, sizeof *none); /* prescribes nothing */
    if (!none)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    o.directions = 0; /* the reference was checked */
    kas_status status = agree(s, compiler, &o, &own);
    o.schedule_file = none;
    if (status == KAS_OK)
        status = agree(s, compiler, &o, &usual);
    free(none);
    if (status == KAS_OK)
        *same = own.digest == usual.digest;
    return status;
}

/* Says how long a check of many images will take, by the time that the reference takes for one. */
static kas_status tell_time(const scheduled *s)
{
    enum { LONG = 10, PASSES = 20 /* forward passes that three checks take about as long as */ };
    const kas_agree_options *o = &s->options;
    double unused;
    const double began = kas_monotonic();
    KAS_TRY(kas_reference_output_deviation(s->kernel, s->target, s->binding, 1, o->seed, &unused));
    const double seconds = (kas_monotonic() - began) * PASSES * o->batch;
    if (seconds > LONG)
        kas_info("the float64 reference takes about %.0f s for the %d images of %s", seconds,
                 o->batch, o->schedule_file->path);
    return KAS_OK;
}

/* The options of the program that the file is for, as the tuner builds it. */
static kas_agree_options options_of(const kas_agree_options *options,
                                    const kas_replacement *replacement)
{
    const kas_schedule_file *file = options->schedule_file;
    kas_agree_options o = *options;
    o.batch = file->batch;
    o.dtype = file->dtype;
    o.tf32 = file->tf32;
    o.inference = file->inference;
    o.gained = kas_replacement_scales(replacement);
    o.linear_policy = file->cpu ? KAS_LINEAR_CPU : KAS_LINEAR_GPU;
    return o;
}

kas_status kas_agree_schedule(kas_device *device, kas_compiler *compiler,
                              const kas_replacement *replacement, int t,
                              const kas_agree_options *options, kas_agreement *result,
                              kas_schedule_bits *bits)
{
    const bool cpu = strcmp(kas_compiler_arch(compiler), "cpu") == 0;
    const float gain = kas_replacement_gain(replacement, t);
    scheduled s = {.device = device,
                   .kernel = kas_replacement_kernel(replacement, t),
                   .target = &replacement->target[t],
                   .binding = &replacement->solution.binding[t],
                   .options = options_of(options, replacement)};
    kas_compiler *apart = NULL;
    bool other_sums = false, same = false;
    kas_epilogue epilogue[KAS_EPILOGUES_MAX];
    s.options.gain = &gain;
    s.options.epilogue = epilogue;
    s.options.epilogues =
        s.options.inference ? kas_programs_epilogues(replacement, t, epilogue) : 0;
    KAS_TRY(tell_time(&s));
    KAS_TRY(find_order(&s, &other_sums));
    KAS_TRY(agree(&s, compiler, &s.options, result));
    if (cpu)
        KAS_TRY(kas_compiler_open("cpu+apart", NULL, &apart));
    const kas_status status = compare_bits(&s, cpu ? apart : compiler, &same);
    kas_compiler_close(apart);
    *bits = same         ? KAS_BITS_SAME
            : other_sums ? KAS_BITS_OTHER_SUMS
            : cpu        ? KAS_BITS_WRONG
                         : KAS_BITS_CONTRACTED;
    if (*bits == KAS_BITS_WRONG)
        result->verdict = KAS_AGREE_FAILED;
    return status;
}
