#include "host/check/agree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/check/agree_setup.h"
#include "host/core/machine.h"
#include "jit/compile/share.h"

/* ---- verdicts -------------------------------------------------------------------------------- */

/* The most by which rounding moved one tensor, over several evaluations. */
typedef struct rounding {
    double worst, rms;
} rounding;

static float gain_of(const kas_agree_options *options, int target)
{
    return options->gain ? options->gain[target] : 1;
}

static int tensors_of(const kas_agree_setup *b)
{
    return KAS_GAP_WEIGHTS + b->program->weights + b->program->epilogues;
}

static bool is_output(const kas_agree_setup *b, int tensor)
{
    return tensor == KAS_GAP_Y || tensor >= KAS_GAP_WEIGHTS + b->program->weights;
}

static double tolerance_of(const kas_agree_setup *b, int tensor)
{
    return kas_agree_tolerance(b->judged_as, !is_output(b, tensor));
}

/* Draws KAS_AGREE_SAMPLES roundings from number `first` on, and adds what they move to r. */
static kas_status measure_rounding(kas_agree_setup *b, const kas_agree_options *o, int first,
                                   int tensors, kas_gap *gap, rounding *r)
{
    for (int sample = first; sample < first + KAS_AGREE_SAMPLES; sample++) {
        KAS_TRY(kas_agree_setup_rounding(b, o->seed + (uint64_t)sample, gap));
        for (int i = 0; i < tensors; i++) {
            r[i].worst = fmax(r[i].worst, kas_gap_worst(&gap[i]));
            r[i].rms = fmax(r[i].rms, kas_gap_rms(&gap[i]));
        }
    }
    return KAS_OK;
}

static kas_agree_verdict judge(const kas_gap *gap, double tolerance, double margin,
                               const rounding *r)
{
    if (kas_gap_worst(gap) <= tolerance)
        return KAS_AGREE_OK;
    if (gap->broken || !(kas_gap_worst(gap) <= margin * r->worst) ||
        !(kas_gap_rms(gap) <= margin * r->rms))
        return KAS_AGREE_FAILED;
    if (r->worst > KAS_AGREE_TELLING)
        return KAS_AGREE_UNDECIDED;
    return kas_gap_worst(gap) <= KAS_AGREE_MOST ? KAS_AGREE_ILL_CONDITIONED : KAS_AGREE_FAILED;
}

static bool within_tolerance(const kas_agree_setup *b, const kas_gap *gap, int tensors)
{
    bool ok = true;
    for (int i = 0; i < tensors; i++)
        ok = ok && kas_gap_worst(&gap[i]) <= tolerance_of(b, i);
    return ok;
}

/* The worst verdict over the tensors; *rounding: see kas_agreement. */
static kas_agree_verdict judge_all(const kas_agree_setup *b, const kas_gap *gap, int tensors,
                                   const struct rounding *moved, double *rounding)
{
    const double margin = b->judged_as == KAS_F32 ? KAS_AGREE_MARGIN : KAS_AGREE_MARGIN_16_BIT;
    kas_agree_verdict worst = KAS_AGREE_OK;
    *rounding = 0;
    for (int i = 0; i < tensors; i++) {
        const kas_agree_verdict verdict = judge(&gap[i], tolerance_of(b, i), margin, &moved[i]);
        worst = verdict > worst ? verdict : worst;
        if (verdict != KAS_AGREE_OK)
            *rounding = fmax(*rounding, moved[i].worst);
    }
    return worst;
}

/* Finds whether rounding explains the errors beyond the tolerance. */
static kas_status explain(kas_agree_setup *b, const kas_agree_options *o, const kas_gap *gap,
                          int tensors, kas_agreement *r)
{
    kas_status status = KAS_OK;
    kas_gap *scratch = calloc((size_t)tensors, sizeof *scratch);
    rounding *moved = calloc((size_t)tensors, sizeof *moved);
    if (!scratch || !moved)
        status = kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    r->verdict = KAS_AGREE_FAILED;
    for (int drawn = 0;
         drawn < KAS_AGREE_MOST_SAMPLES && r->verdict == KAS_AGREE_FAILED && status == KAS_OK;
         drawn += KAS_AGREE_SAMPLES) {
        status = measure_rounding(b, o, drawn, tensors, scratch, moved);
        if (status == KAS_OK)
            r->verdict = judge_all(b, gap, tensors, moved, &r->rounding);
    }
    free(scratch);
    free(moved);
    return status;
}

/* ---- one kernel at one target ---------------------------------------------------------------- */

static kas_status compare_gaps(kas_agree_setup *b, const kas_agree_options *o, kas_gap *gap,
                               kas_agreement *r)
{
    const int tensors = tensors_of(b);
    KAS_TRY(kas_agree_setup_gaps(b, gap));
    r->dx = kas_gap_worst(&gap[KAS_GAP_DX]);
    for (int i = 0; i < tensors; i++) {
        double *worst = is_output(b, i) ? &r->forward : &r->dweight;
        if (i != KAS_GAP_DX)
            *worst = fmax(*worst, kas_gap_worst(&gap[i]));
    }
    return within_tolerance(b, gap, tensors) ? KAS_OK : explain(b, o, gap, tensors, r);
}

static kas_status attempt(kas_agree_setup *b, const kas_agree_options *o, int turn,
                          kas_agreement *r)
{
    *r = (kas_agreement){.draws = turn + 1};
    KAS_TRY(kas_agree_setup_run(b, o, turn, false));
    kas_gap *gap = calloc((size_t)tensors_of(b), sizeof *gap);
    if (!gap)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    const kas_status status = compare_gaps(b, o, gap, r);
    for (int i = 0; i < tensors_of(b); i++)
        r->digest = r->digest * 31 + gap[i].digest;
    free(gap);
    return status;
}

/* Combines the results of several inputs. One that agrees within the tolerance is enough,
 * because a wrong kernel is wrong for all of them; that only rounding parts the two sides must
 * hold for every one. */
static kas_agreement together(const kas_agreement *a, const kas_agreement *b)
{
    if (a->verdict == KAS_AGREE_OK || b->verdict == KAS_AGREE_OK)
        return a->verdict == KAS_AGREE_OK ? *a : *b;
    return a->verdict >= b->verdict ? *a : *b;
}

static kas_status compare_all(kas_agree_setup *b, const kas_agree_options *o, kas_agreement *r)
{
    KAS_TRY(attempt(b, o, 0, r));
    const uint64_t digest = r->digest;
    for (int turn = 1; turn < KAS_AGREE_DRAWS && r->verdict != KAS_AGREE_OK; turn++) {
        kas_agreement next;
        KAS_TRY(attempt(b, o, turn, &next));
        *r = together(r, &next);
        r->draws = turn + 1;
    }
    r->digest = digest;
    if (o->directions > 0) {
        KAS_TRY(kas_reference_check_gradient(b->reference, b->x, (const double *const *)b->weight,
                                             b->dy, o->directions, o->seed, &r->numeric));
        if (!(r->numeric <= KAS_AGREE_NUMERIC))
            r->verdict = KAS_AGREE_FAILED;
    }
    return KAS_OK;
}

static void count_operations(const kas_program *p, kas_agreement *r)
{
    r->operations = p->forwards + p->backwards;
    for (int i = 0; i < p->forwards; i++)
        r->convolutions += p->forward[i].kind == KAS_OPERATION_CONV;
    for (int i = 0; i < p->backwards; i++)
        r->convolutions += p->backward[i].kind == KAS_OPERATION_CONV;
}

/* Returns whether NaN is lost from a tensor, and looks at nothing else. A library's convolution may
 * spread NaN (a Winograd tile, a product with a zero that stands for no weight): in kernels with
 * one NaN must only not be lost. In a gradient the products of NaN with the zeros around an image
 * are left out, so only the loss of all NaN counts. */
static bool loses_nan(const kas_agreement *r, const kas_gap *gap, bool output)
{
    if (output)
        return r->convolutions ? gap->lost > 0 : gap->broken;
    return gap->nan > 0 && gap->lost == gap->nan;
}

static kas_status compare_nan(kas_agree_setup *b, const kas_agree_options *o, kas_agreement *r)
{
    const int tensors = tensors_of(b);
    KAS_TRY(kas_agree_setup_run(b, o, 0, true));
    kas_gap *gap = calloc((size_t)tensors, sizeof *gap);
    if (!gap)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    const kas_status status = kas_agree_setup_gaps(b, gap);
    for (int i = 0; i < tensors && status == KAS_OK; i++)
        r->nan_lost = r->nan_lost || loses_nan(r, &gap[i], is_output(b, i));
    free(gap);
    if (r->nan_lost)
        r->verdict = KAS_AGREE_FAILED;
    return status;
}

static kas_status run_one(kas_device *device, const kas_kernel *kernel, const kas_program *program,
                          kas_module *module, const kas_agree_options *o, float gain,
                          kas_agreement *r)
{
    kas_agree_setup b;
    kas_status status = kas_agree_setup_open(&b, device, kernel, program, module, o, gain);
    if (status == KAS_OK)
        status = compare_all(&b, o, r);
    if (status == KAS_OK) {
        count_operations(program, r);
        status = compare_nan(&b, o, r);
    }
    kas_agree_setup_free(&b);
    return status;
}

/* ---- all targets in one text ----------------------------------------------------------------- */

/* Cuts the batch as the CPU device does, but in two at least. A schedule file is for the whole
 * batch. */
static size_t piece_bytes(const kas_agree_options *o, const kas_target *t)
{
    const size_t most = kas_piece_bytes(o->linear_policy, kas_cores());
    const uint32_t channels = t->c_in > t->c_out ? t->c_in : t->c_out;
    const size_t half = kas_dtype_size(o->dtype) * channels * t->h * t->w *
                        (size_t)(o->batch > 1 ? o->batch / 2 : 1);
    return o->schedule_file ? 0 : most < half ? most : half;
}

kas_program_options kas_agree_program(const kas_agree_options *o, const kas_target *target, int i,
                                      const char *prefix)
{
    return (kas_program_options){
        .batch = o->batch,
        .training = !o->inference,
        .dtype = o->dtype,
        .tf32 = o->tf32,
        .gained = o->gained || gain_of(o, i) != 1,
        .linear_policy = o->linear_policy,
        .lanes = kas_cpu_lanes(),
        .piece_bytes = piece_bytes(o, target),
        .x_pitch = kas_pitch_of(o->dtype, (int)target->c_in) + o->pitch_more,
        .y_pitch = kas_pitch_of(o->dtype, (int)target->c_out) + o->pitch_more,
        .prefix = prefix,
        .epilogue = o->epilogue,
        .epilogues = o->epilogues,
        .schedule_file = o->schedule_file,
        .schedule_seed = o->schedule_seed ? o->schedule_seed + (uint64_t)i : 0};
}

static kas_status build_programs(const kas_kernel *kernel, const kas_target *target,
                                 const kas_binding *binding, int count, const kas_agree_options *o,
                                 const kas_epilogue *epilogue, int epilogues, kas_program **program,
                                 kas_buf *text)
{
    for (int i = 0; i < count; i++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "k%d", i);
        kas_program_options options = kas_agree_program(o, &target[i], i, prefix);
        options.epilogue = epilogue;
        options.epilogues = epilogues;
        KAS_TRY(kas_program_build(kernel, &target[i], &binding[i], &options, &program[i]));
    }
    KAS_TRY(kas_programs_share(program, count));
    for (int i = 0; i < count; i++)
        kas_buf_puts(text, program[i]->source);
    return kas_buf_status(text);
}

kas_status kas_agree(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                     const kas_target *target, const kas_binding *binding, int count,
                     const kas_agree_options *options, kas_agreement *result)
{
    kas_status status = KAS_OK;
    kas_buf text = {0};
    char path[4096];
    kas_module *module = NULL;
    kas_program **program = calloc((size_t)count + 1, sizeof *program);
    if (!program)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    KAS_TRY_GOTO(build_programs(kernel, target, binding, count, options, options->epilogue,
                                options->epilogues, program, &text),
                 done);
    KAS_TRY_GOTO(kas_compile(compiler, kas_buf_text(&text), path, NULL), done);
    KAS_TRY_GOTO(kas_module_load(device, path, &module), done);
    for (int i = 0; i < count; i++)
        KAS_TRY_GOTO(
            run_one(device, kernel, program[i], module, options, gain_of(options, i), &result[i]),
            done);
done:
    kas_module_free(module);
    for (int i = 0; i < count; i++)
        kas_program_free(program[i]);
    free(program);
    kas_buf_free(&text);
    return status;
}

static void add_inference(kas_agreement *r, const kas_agreement *inference)
{
    r->forward = fmax(r->forward, inference->forward);
    r->rounding = fmax(r->rounding, inference->rounding);
    r->draws = r->draws > inference->draws ? r->draws : inference->draws;
    r->nan_lost = r->nan_lost || inference->nan_lost;
    r->verdict = r->verdict > inference->verdict ? r->verdict : inference->verdict;
}

kas_status kas_agree_both(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                          const kas_target *target, const kas_binding *binding, int count,
                          const kas_agree_options *options, kas_agreement *result)
{
    kas_agree_options o = *options;
    kas_agreement *inference = calloc((size_t)count + 1, sizeof *inference);
    if (!inference)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    kas_status status =
        kas_agree(device, compiler, kernel, target, binding, count, options, result);
    o.inference = true;
    o.directions = 0; /* the reference was checked */
    if (status == KAS_OK)
        status = kas_agree(device, compiler, kernel, target, binding, count, &o, inference);
    for (int i = 0; i < count && status == KAS_OK; i++)
        add_inference(&result[i], &inference[i]);
    free(inference);
    return status;
}

kas_status kas_agree_text(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, int count, const kas_agree_options *options,
                          kas_buf *text)
{
    /* The epilogue that takes most registers */
    static const kas_epilogue most = {
        .norm = true, .residual = true, .activation = KAS_ACTIVATION_GELU};
    kas_program **program = calloc((size_t)count + 1, sizeof *program);
    if (!program)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    const kas_status status =
        build_programs(kernel, target, binding, count, options, &most, 1, program, text);
    for (int i = 0; i < count; i++)
        kas_program_free(program[i]);
    free(program);
    return status;
}
