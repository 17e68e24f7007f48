/* kas-gpu check: checks that the generated code of a kernel computes what the kernel means. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/agree_schedule.h"
#include "host/cli/check/gpus.h"
#include "host/cli/check/shapes.h"
#include "host/cli/given.h"
#include "host/cli/net_options.h"
#include "host/core/log.h"
#include "host/report/line.h"
#include "host/space/file/assignment.h"
#include "host/space/sample/sampler.h"

enum { MAX_FILES = 4096, SIDE = 16 /* of images */ };
static const char *const sources[] = {"cuda", "cpu", NULL}; /* as in kas_linear_policy */

typedef struct check_options {
    kas_cli_common common;
    kas_cli_net net;
    kas_agree_options agree;
    const char *device;
    int sampled;
    kas_space space;
    int per_layer; /* kas_per_layer */
    int shapes;    /* shapes of a sampled kernel to check; 0 = all */
    bool nvrtc;
    const char *schedule;
    bool says_precision, assumes_input;
    const char *file[MAX_FILES];
    int files;
} check_options;

enum {
    KEY_SAMPLED = 0x200,
    KEY_NVRTC,
    KEY_DIRECTIONS,
    KEY_SHAPES,
    KEY_SPACE,
    KEY_PRECISION,
    KEY_PER_LAYER,
    KEY_SCHEDULE,
    KEY_SOURCE
};

static const struct argp_option option_list[] = {
    {"batch", 'b', "N", 0, "Images at once (default 2)", 0},
    {"device", 'D', "D", 0, "auto, cpu, cuda or cuda:N (default auto)", 0},
    {"sampled", KEY_SAMPLED, "N", 0,
     "Also check N sampled kernels whose output is neither lost nor blown up at initialisation", 0},
    {"space", KEY_SPACE, "SPACE", 0, "Space of the sampled kernels: canvas (default) or nas-pte",
     0},
    {"per-layer", KEY_PER_LAYER, "yes|no", 0,
     "--space nas-pte: kernels of the sequences of single layers, each at its own layers "
     "(default), "
     "or of one sequence for all",
     0},
    {"shapes", KEY_SHAPES, "N", 0,
     "Look at N of the network's shapes for each sampled kernel, at others for the next one "
     "(default all)",
     0},
    {"seed", 's', "S", 0, "Seed of the sampled kernels and of the inputs (default 0)", 0},
    {"nvrtc", KEY_NVRTC, 0, 0, "Also compile everything by NVRTC for sm_80 and sm_90", 0},
    {"schedule", KEY_SCHEDULE, "FILE", 0,
     "Check one kernel with the schedules of a file that show --schedule or tune has written, at "
     "its layer, batch, device, phase and precision, also against the bits that the default "
     "schedules give",
     0},
    {"source", KEY_SOURCE, "DEVICE", 0,
     "Check the code that is generated for cuda (default) or cpu, whatever device runs it; "
     "training and search on the CPU device run that for cpu",
     0},
    {"precision", KEY_PRECISION, "P", 0,
     "How kernels store activations and weights: fp32 (default), bf16 or fp16", 0},
    {"directions", KEY_DIRECTIONS, "N", 0,
     "Random directions of the finite differences (default 1; 0 leaves them out)", 0},
    {0}};

static const kas_cli_value values[] = {
    {'b', KAS_CLI_INT(check_options, agree.batch, 1, 65536)},
    {'s', KAS_CLI_SEED(check_options, agree.seed)},
    {'D', KAS_CLI_TEXT(check_options, device)},
    {KEY_SAMPLED, KAS_CLI_INT(check_options, sampled, 1, 1000000)},
    {KEY_SPACE, KAS_CLI_CHOICE(check_options, space, kas_space_names)},
    {KEY_SHAPES, KAS_CLI_INT(check_options, shapes, 1, 1000000)},
    {KEY_PRECISION, KAS_CLI_CHOICE(check_options, agree.dtype, kas_dtype_names)},
    {KEY_SOURCE, KAS_CLI_CHOICE(check_options, agree.linear_policy, sources)},
    {KEY_NVRTC, KAS_CLI_FLAG(check_options, nvrtc)},
    {KEY_DIRECTIONS, KAS_CLI_INT(check_options, agree.directions, 0, 1000)},
    {KEY_SCHEDULE, KAS_CLI_TEXT(check_options, schedule)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    check_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->common;
        return 0;
    case KEY_PER_LAYER:
        if (strcmp(arg, "yes") != 0 && strcmp(arg, "no") != 0)
            argp_error(state, "--per-layer: expected yes or no, found \"%s\"", arg);
        o->per_layer = strcmp(arg, "yes") == 0 ? KAS_PER_LAYER_YES : KAS_PER_LAYER_NO;
        return 0;
    case KEY_PRECISION:
        o->says_precision = true;
        return kas_cli_set(state, option_list, values, key, arg);
    case ARGP_KEY_ARG:
        if (o->files == MAX_FILES)
            argp_error(state, "more than %d kernel files", MAX_FILES);
        o->file[o->files++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (o->files == 0 && o->sampled == 0)
            argp_error(state,
                       "no kernel is given; give kernel files or, for example, --sampled 20");
        if (!o->sampled)
            kas_cli_refuse(state, "space per-layer shapes", "needs --sampled");
        if (o->space != KAS_SPACE_NAS_PTE)
            kas_cli_refuse(state, "per-layer", "needs --space nas-pte");
        if (o->schedule && (o->files != 1 || o->sampled || o->nvrtc || o->agree.linear_policy))
            argp_error(state, "--schedule is for one kernel file and names its device: leave out "
                              "--sampled, --nvrtc and --source");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Checks kernels: forward and gradients on a device against the float64 reference, and the "
    "reference against finite differences, at every distinct shape that a network replaces.\n\n"
    "  kas-gpu check kernels/involution.json\n"
    "  kas-gpu check kernels/*.json --nvrtc\n"
    "  kas-gpu check kernels/*.json --device cpu --source cpu --precision bf16\n"
    "  kas-gpu check layers.json --net resnet20\n"
    "  kas-gpu check --sampled 300 --seed 1 --nvrtc\n"
    "  kas-gpu check --sampled 2000 --shapes 1 --net resnet20 --input 3x8x8 --nvrtc\n"
    "  kas-gpu check kernels/involution.json --net resnet18 --schedule s.txt\n"
    "\vThe network is resnet18 unless --net says otherwise. Images are small (3x16x16) unless "
    "--input or a schedule file says otherwise, because the reference is slow. Of several files "
    "those that do not fit the network are left out, and the summary counts them. An error is the "
    "largest difference in a tensor, divided by its largest value. A comparison is ill-conditioned "
    "when rounding to float32 moves the reference itself beyond the tolerance and explains the "
    "error; undecided when it would explain nearly any error. The exit code is 1 when a kernel "
    "fails, or is undecided at every shape. A sampled kernel whose output is not finite or has a "
    "standard deviation outside [0.01, 100] at initialisation is screened out, because float32 "
    "says little of it: another one is drawn in its place. Gains of a file are checked with it.";

typedef struct checker {
    const check_options *o;
    kas_net *net;
    kas_target *targets;
    int count;
    kas_device *device;
    kas_compiler *compiler;
    kas_check_gpus gpus; /* of --nvrtc */
    long long kernels, comparisons, failures, redrawn;
    long long verdict[KAS_AGREE_FAILED + 1], ill_kernels;
    long long left_out;             /* files that do not fit the network */
    long long screened;             /* sampled kernels that the screen left out */
    double forward, gradient;       /* largest errors within tolerance */
    double ill_error, ill_rounding; /* of ill-conditioned kernels */
    double numeric;
    kas_schedule_file schedule; /* of --schedule */
    kas_schedule_bits bits;
} checker;

/* ---- one kernel ------------------------------------------------------------------------------ */

static const char *const verdicts[] = {"ok", "ill-conditioned", "undecided", "failed"};

static void tell_verdict(const checker *c, const kas_agreement *a)
{
    if (a->verdict == KAS_AGREE_FAILED)
        printf("  FAILED");
    else
        printf("  %s", verdicts[a->verdict]);
    if (a->nan_lost)
        printf(" (NaN in x does not come out where the reference has it)");
    if (a->rounding > 0)
        printf(" (float32 rounding alone: %.1e)", a->rounding);
    if (c->o->schedule)
        printf(", bits %s by the default schedules", kas_schedule_bits_names[c->bits]);
    printf("%s\n", a->draws > 1 ? " (inputs drawn again)" : "");
}

static kas_status tell(checker *c, const char *name, const kas_target *t, const kas_agreement *a)
{
    if (!c->o->common.json) {
        printf("%-16s  %-16s %4u -> %-4u %3ux%-3u %ux%u  forward %.1e  dx %.1e  dweight %.1e", name,
               t->name, t->c_in, t->c_out, t->h, t->w, t->kernel_h, t->kernel_w, a->forward, a->dx,
               a->dweight);
        if (c->o->agree.directions)
            printf("  differences %.1e", a->numeric);
        tell_verdict(c, a);
        return KAS_OK;
    }
    kas_buf line = {0};
    kas_line_begin(&line);
    kas_line_text(&line, "kind", "check");
    kas_line_text(&line, "kernel", name);
    kas_line_text(&line, "layer", t->name);
    kas_line_int(&line, "c_in", t->c_in);
    kas_line_int(&line, "c_out", t->c_out);
    kas_line_int(&line, "h", t->h);
    kas_line_int(&line, "w", t->w);
    kas_line_int(&line, "operations", a->operations);
    kas_line_int(&line, "convolutions", a->convolutions);
    kas_line_number(&line, "forward", a->forward);
    kas_line_number(&line, "dx", a->dx);
    kas_line_number(&line, "dweight", a->dweight);
    kas_line_number(&line, "differences", c->o->agree.directions ? a->numeric : NAN);
    kas_line_int(&line, "draws", a->draws);
    kas_line_number(&line, "rounding", a->rounding);
    kas_line_bool(&line, "nan_lost", a->nan_lost);
    if (c->o->schedule)
        kas_line_bool(&line, "same_bits", c->bits == KAS_BITS_SAME);
    kas_line_text(&line, "result", verdicts[a->verdict]);
    kas_line_end(&line);
    return kas_print_buf(&line);
}

static void count_result(checker *c, const kas_agreement *a)
{
    c->comparisons++;
    c->verdict[a->verdict]++;
    c->failures += a->verdict == KAS_AGREE_FAILED;
    c->redrawn += a->draws > 1;
    c->numeric = fmax(c->numeric, a->numeric);
    if (a->verdict == KAS_AGREE_OK) {
        c->forward = fmax(c->forward, a->forward);
        c->gradient = fmax(c->gradient, fmax(a->dx, a->dweight));
    } else if (a->verdict == KAS_AGREE_ILL_CONDITIONED) {
        c->ill_error = fmax(c->ill_error, fmax(a->forward, fmax(a->dx, a->dweight)));
        c->ill_rounding = fmax(c->ill_rounding, a->rounding);
    }
}

static void count_kernel(checker *c, const char *name, const kas_agreement *result, int count)
{
    int of[KAS_AGREE_FAILED + 1] = {0};
    for (int i = 0; i < count; i++)
        of[result[i].verdict]++;
    c->ill_kernels += of[KAS_AGREE_ILL_CONDITIONED] + of[KAS_AGREE_UNDECIDED] > 0;
    if (count == 0 || of[KAS_AGREE_UNDECIDED] < count)
        return;
    c->failures++;
    kas_warn("%s: rounding explains nearly any error at every shape: the check proves nothing",
             name);
}

static kas_status check_shapes(checker *c, const kas_kernel *kernel, const char *name,
                               const kas_check_shapes *s)
{
    kas_agreement *result = calloc((size_t)s->count, sizeof *result);
    if (!result)
        return kas_fail(KAS_NO_MEMORY, "out of memory");
    kas_agree_options options = c->o->agree;
    const long long refused = c->gpus.refused;
    options.gain = s->gain;
    kas_status status = (options.linear_policy == KAS_LINEAR_CPU ? kas_agree_both : kas_agree)(
        c->device, c->compiler, kernel, s->target, s->binding, s->count, &options, result);
    for (int i = 0; i < s->count && status == KAS_OK; i++) {
        count_result(c, &result[i]);
        status = tell(c, name, &s->target[i], &result[i]);
    }
    if (status == KAS_OK)
        count_kernel(c, name, result, s->count);
    free(result);
    if (status == KAS_OK)
        status = kas_check_gpus_compile(&c->gpus, kernel, name, s, &c->o->agree);
    c->failures += c->gpus.refused - refused;
    return status;
}

/* Checks a kernel. One that cannot be lowered, compiled or run counts as a failure of that kernel,
 * and the next one is checked. */
static kas_status check_kernel(checker *c, const kas_kernel *kernel, const char *name,
                               const kas_check_shapes *s)
{
    const kas_status status = check_shapes(c, kernel, name, s);
    c->kernels++;
    kas_print_flush();
    if (status == KAS_OK || status == KAS_NO_MEMORY || status == KAS_DEVICE_LOST ||
        status == KAS_MACHINE)
        return status;
    c->failures++;
    kas_warn("%s: %s", name, kas_error());
    return KAS_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Checks kernel k at the shapes of its own layers. A sampled one (turn >= 0) is screened and looked
 * at in the shapes whose turn it is. */
static kas_status check_at_layers(checker *c, const kas_replacement *r, int k, long long turn)
{
    const kas_kernel *kernel = &r->kernel[k];
    kas_check_shapes s = {0};
    char name[KAS_NAME_SIZE];
    bool passes = true;
    kas_status status = kas_kernel_name(kernel, name);
    if (status == KAS_OK)
        status = kas_check_shapes_of(r, kernel, &s);
    if (status == KAS_OK && turn >= 0) {
        kas_check_shapes_choose(&s, c->o->shapes, turn);
        status = kas_check_shapes_screen(&s, kernel, c->o->agree.batch, c->o->agree.seed, &passes);
    }
    if (status == KAS_OK && passes)
        status = check_kernel(c, kernel, name, &s);
    c->screened += !passes;
    kas_check_shapes_free(&s);
    return status;
}

/* Checks the kernel of the schedule file's layer. A mistake of the file ends the command. */
static kas_status check_scheduled(checker *c, const kas_replacement *r)
{
    char name[KAS_NAME_SIZE];
    int t = 0;
    while (t < c->count && strcmp(c->targets[t].name, c->schedule.layer) != 0)
        t++;
    const kas_kernel *kernel = t < c->count ? kas_replacement_kernel(r, t) : NULL;
    if (!kernel)
        return kas_fail(KAS_BAD_INPUT, "%s: layer %s is no replaced convolution of %s",
                        c->o->schedule, c->schedule.layer, c->net->file);
    KAS_TRY(kas_kernel_name(kernel, name));
    kas_agreement result;
    kas_agree_options options = c->o->agree;
    options.schedule_file = &c->schedule;
    const kas_status status =
        kas_agree_schedule(c->device, c->compiler, r, t, &options, &result, &c->bits);
    if (status != KAS_OK && c->o->assumes_input)
        return kas_fail_context(status,
                                "the file has no line input; give --input if its images "
                                "are not %dx%dx%d",
                                c->o->net.c, c->o->net.h, c->o->net.w);
    KAS_TRY(status);
    c->kernels++;
    count_result(c, &result);
    count_kernel(c, name, &result, 1);
    return tell(c, name, &c->targets[t], &result);
}

/* Among several files, one that does not fit the network is left out with a message. */
static kas_status check_file(checker *c, const char *path)
{
    kas_assignment kernels;
    kas_replacement r;
    KAS_TRY(kas_assignment_read_file(path, &kernels));
    kas_status status = kas_cli_fit(&c->o->net, path, c->net, c->targets, c->count, &kernels, &r);
    kas_assignment_free(&kernels);
    if (kas_is_misfit(status) && c->o->files > 1) {
        kas_warn("left out: %s", kas_error());
        c->left_out++;
        return KAS_OK;
    }
    if (kas_is_misfit(status))
        return kas_fail_context(KAS_BAD_INPUT, "a kernel does not fit %s", c->net->file);
    KAS_TRY(status);
    if (c->o->schedule)
        status = check_scheduled(c, &r);
    for (int k = 0; k < r.kernels && status == KAS_OK && !c->o->schedule; k++)
        status = check_at_layers(c, &r, k, -1);
    kas_replacement_free(&r);
    return status;
}

static kas_status check_files(checker *c)
{
    for (int i = 0; i < c->o->files; i++)
        KAS_TRY(check_file(c, c->o->file[i]));
    if (c->kernels == 0 && !c->o->sampled)
        return kas_fail(KAS_BAD_INPUT, "no kernel was checked, because none fits %s", c->net->file);
    return KAS_OK;
}

/* Checks all kernels of a sample, until `wanted` kernels were checked. */
static kas_status check_sample(checker *c, const kas_sample *sample, long long wanted)
{
    const kas_replacement *r = &sample->replacement;
    for (int k = 0; k < r->kernels && c->kernels < wanted; k++)
        KAS_TRY(check_at_layers(c, r, k, (long long)sample->index + k));
    return KAS_OK;
}

static kas_status check_sampled(checker *c)
{
    kas_sample_options options = kas_sample_defaults();
    kas_sampler *sampler = NULL;
    options.space = c->o->space;
    options.per_layer = c->o->per_layer;
    options.seed = c->o->agree.seed;
    options.budget = c->o->net.budget;
    KAS_TRY(kas_sample_options_check(&options));
    KAS_TRY(kas_sampler_create(&options, c->targets, c->count, &sampler));
    kas_status status = KAS_OK;
    const long long wanted = c->kernels + c->o->sampled;
    while (c->kernels < wanted && status == KAS_OK) {
        kas_sample s;
        status = kas_sampler_next(sampler, 0, &s);
        if (status != KAS_OK)
            break;
        status = check_sample(c, &s, wanted);
        kas_sample_free(&s);
    }
    kas_sampler_free(sampler);
    return status;
}

/* Takes the images of a schedule file, unless --input says which; without either they are small. */
static kas_status choose_input(check_options *o, const kas_schedule_file *file)
{
    kas_cli_net *net = &o->net;
    const bool said = net->h > 0;
    if (said && file->h > 0 && (net->c != file->c || net->h != file->h || net->w != file->w))
        return kas_fail(KAS_USAGE, "--input %dx%dx%d: %s is for %dx%dx%d", net->c, net->h, net->w,
                        o->schedule, file->c, file->h, file->w);
    o->assumes_input = !said && !file->h;
    if (!said && file->h > 0) {
        net->c = file->c;
        net->h = file->h;
        net->w = file->w;
    } else if (!said) {
        net->h = net->w = SIDE;
    }
    return KAS_OK;
}

static kas_status read_schedule(const check_options *o, kas_schedule_file *file)
{
    KAS_TRY(kas_schedule_file_read(o->schedule, file));
    if (o->says_precision && (file->tf32 || file->dtype != o->agree.dtype))
        return kas_fail(KAS_USAGE, "--precision %s: %s is for %s", kas_dtype_names[o->agree.dtype],
                        o->schedule, file->tf32 ? "tf32" : kas_dtype_names[file->dtype]);
    return KAS_OK;
}

static kas_status open_all(check_options *o, checker *c)
{
    if (o->schedule)
        KAS_TRY(read_schedule(o, &c->schedule));
    KAS_TRY(choose_input(o, &c->schedule));
    KAS_TRY(kas_cli_net_targets(&o->net, &c->net, &c->targets, &c->count));
    KAS_TRY(kas_device_open(o->device, o->common.threads, &c->device));
    KAS_TRY(kas_compiler_open(kas_device_get_info(c->device)->arch, NULL, &c->compiler));
    return o->nvrtc ? kas_check_gpus_open(&c->gpus) : KAS_OK;
}

static kas_status summary(const checker *c)
{
    const bool cpu = c->o->schedule ? c->schedule.cpu : c->o->agree.linear_policy == KAS_LINEAR_CPU;
    const kas_dtype dtype = c->o->schedule ? c->schedule.dtype : c->o->agree.dtype;
    if (c->o->common.json) {
        kas_buf line = {0};
        kas_line_begin(&line);
        kas_line_text(&line, "kind", "summary");
        kas_line_text(&line, "source", sources[cpu]);
        kas_line_int(&line, "kernels", c->kernels);
        kas_line_int(&line, "comparisons", c->comparisons);
        kas_line_int(&line, "nvrtc_compilations", c->gpus.compiled);
        kas_line_int(&line, "nvrtc_kernels", c->gpus.kernels);
        kas_line_int(&line, "nvrtc_most_registers", c->gpus.registers);
        kas_line_int(&line, "nvrtc_with_local_memory", c->gpus.local);
        kas_line_int(&line, "nvrtc_accesses", c->gpus.accesses);
        kas_line_int(&line, "nvrtc_16_byte_accesses", c->gpus.wide);
        kas_line_number(&line, "bytes_accessed", c->gpus.accessed.all);
        kas_line_number(&line, "bytes_contiguous", c->gpus.accessed.contiguous);
        kas_line_number(&line, "bytes_16_byte_accesses", c->gpus.accessed.wide);
        kas_line_int(&line, "failures", c->failures);
        kas_line_int(&line, "left_out", c->left_out);
        kas_line_int(&line, "screened_out", c->screened);
        kas_line_int(&line, "inputs_drawn_again", c->redrawn);
        kas_line_int(&line, "ill_conditioned", c->verdict[KAS_AGREE_ILL_CONDITIONED]);
        kas_line_int(&line, "undecided", c->verdict[KAS_AGREE_UNDECIDED]);
        kas_line_int(&line, "ill_conditioned_kernels", c->ill_kernels);
        kas_line_number(&line, "ill_conditioned_error", c->ill_error);
        kas_line_number(&line, "ill_conditioned_rounding", c->ill_rounding);
        kas_line_number(&line, "forward", c->forward);
        kas_line_number(&line, "gradient", c->gradient);
        kas_line_number(&line, "differences", c->o->agree.directions ? c->numeric : NAN);
        kas_line_end(&line);
        return kas_print_buf(&line);
    }
    printf("\nkernels: %lld; comparisons on %s%s: %lld (%lld with inputs drawn again); NVRTC "
           "compilations: %lld; failures: %lld\n"
           "largest errors: forward %.1e (tolerance %.0e), gradients %.1e (%.0e)",
           c->kernels, kas_device_get_info(c->device)->name, cpu ? " of the code for CPUs" : "",
           c->comparisons, c->redrawn, c->gpus.compiled, c->failures, c->forward,
           kas_agree_tolerance(dtype, false), c->gradient, kas_agree_tolerance(dtype, true));
    if (c->o->agree.directions)
        printf(", reference against finite differences %.1e (%.0e)", c->numeric, KAS_AGREE_NUMERIC);
    printf("\n");
    if (c->ill_kernels)
        printf("ill-conditioned: %lld comparisons (largest error %.1e; float32 rounding alone: "
               "%.1e), undecided: %lld, of %lld kernels\n",
               c->verdict[KAS_AGREE_ILL_CONDITIONED], c->ill_error, c->ill_rounding,
               c->verdict[KAS_AGREE_UNDECIDED], c->ill_kernels);
    if (c->left_out)
        printf("left out, because they do not fit %s: %lld of %d files\n", c->net->file,
               c->left_out, c->o->files);
    if (c->o->sampled)
        printf("screened out, because their outputs vanish or explode at initialisation: %lld of "
               "%lld sampled kernels\n",
               c->screened, c->screened + c->o->sampled);
    if (c->gpus.compiled)
        printf("GPU kernels compiled: %lld; at most %d registers a thread; with local memory "
               "(spills): %lld\n",
               c->gpus.kernels, c->gpus.registers, c->gpus.local);
    if (c->gpus.compiled)
        printf("instructions on global memory: %lld, of which %.1f%% access 16 bytes; these move "
               "%.1f%% of the bytes that lanes request, and %.1f%% of the bytes of accesses whose "
               "lanes lie side by side\n",
               c->gpus.accesses, 100.0 * (double)c->gpus.wide / fmax(1, (double)c->gpus.accesses),
               100 * c->gpus.accessed.wide / fmax(1, c->gpus.accessed.all),
               100 * c->gpus.accessed.wide / fmax(1, c->gpus.accessed.contiguous));
    return KAS_OK;
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_check_net_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "[KERNEL.json ...]", doc, children, 0, 0};
    static check_options o; /* large */
    o = (check_options){
        .net = kas_cli_net_defaults(), .agree = {.batch = 2, .directions = 1}, .device = "auto"};
    o.per_layer = KAS_PER_LAYER_AUTO;
    o.net.name = "resnet18";
    o.net.h = o.net.w = 0; /* choose_input */
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_cli_keep_on_device(&o.net, o.device, o.common.threads);
    static checker c; /* large */
    c.o = &o;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(open_all(&o, &c), out);
    KAS_TRY_GOTO(check_files(&c), out);
    if (o.sampled)
        KAS_TRY_GOTO(check_sampled(&c), out);
    KAS_TRY_GOTO(summary(&c), out);
    if (c.failures)
        status =
            kas_fail(KAS_FAILURE, "%lld failures; kernels checked: %lld", c.failures, c.kernels);
out:
    kas_check_gpus_close(&c.gpus);
    kas_schedule_file_free(&c.schedule);
    kas_compiler_close(c.compiler);
    kas_device_close(c.device);
    free(c.targets);
    kas_net_free(c.net);
    return status;
}

const kas_command kas_command_check = {
    "check", "Check kernels on a device against the float64 reference", run};
