/* How long do a training step and an inference take, and at what rate of arithmetic?
 *
 * With a kernel, the unmodified network (A) and the one with the kernel (B) run in turn, A B A B
 * ..., in one process, and the ratio is that of adjacent runs, so that a disturbance of the machine
 * affects both. The convolutions of A alone run in the same round. The time is reported with its
 * floor (predict/machine.h), and the bytes of the plan with those of the floor
 * (model/planned_bytes.h). --passes lists the bytes of every pass, and --times its time.
 *
 * FLOPs: a multiply-add is one.  A training step counts as three inferences (the forward pass, the
 * gradients of data and of weights), which is exact for all convolutions except the stem. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/bench/bench.h"
#include "host/bench/step_floor.h"
#include "host/bench/step_model.h"
#include "host/bench/step_passes.h"
#include "host/core/log.h"
#include "host/net/targets.h"
#include "host/space/file/assignment.h"

enum { WARM_UP = 2, REPEATS = 10, OTHER_SIDE = 32 };

/* One network at one batch size, with the kernel if one was given. */
typedef struct subject {
    const kas_bench_options *o;
    const kas_bench_sink *sink;
    kas_device *device;
    const kas_machine *machine;
    int batch, repeats;
    kas_net *net;
    kas_dataset *images;
    char kernel_name[KAS_NAME_SIZE];
    kas_target *target;
    kas_replacement replacement; /* empty where no kernel was given */
    kas_bench_model plain, changed;
} subject;

/* Seconds of each round. */
typedef struct rounds {
    kas_samples plain, changed, convs;
    kas_samples plain_host, changed_host; /* empty on the CPU */
    kas_samples ratio, share;             /* changed / plain; convs / plain */
} rounds;

static void rounds_free(rounds *r)
{
    kas_samples_free(&r->plain);
    kas_samples_free(&r->changed);
    kas_samples_free(&r->convs);
    kas_samples_free(&r->plain_host);
    kas_samples_free(&r->changed_host);
    kas_samples_free(&r->ratio);
    kas_samples_free(&r->share);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static kas_status add_time(kas_samples *device, kas_samples *host, kas_bench_time time)
{
    KAS_TRY(kas_samples_add(device, time.device));
    return isfinite(time.host) ? kas_samples_add(host, time.host) : KAS_OK;
}

static kas_status one_round(subject *s, kas_bench_convs *convs, kas_tape_mode mode, rounds *r)
{
    kas_bench_time plain, changed;
    double alone;
    KAS_TRY(kas_bench_model_run(&s->plain, mode, &plain));
    if (s->o->kernel)
        KAS_TRY(kas_bench_model_run(&s->changed, mode, &changed));
    KAS_TRY(kas_bench_convs_run(convs, &alone));
    if (!r)
        return KAS_OK;
    KAS_TRY(add_time(&r->plain, &r->plain_host, plain));
    KAS_TRY(kas_samples_add(&r->convs, alone));
    KAS_TRY(kas_samples_add(&r->share, alone / plain.device));
    if (!s->o->kernel)
        return KAS_OK;
    KAS_TRY(add_time(&r->changed, &r->changed_host, changed));
    return kas_samples_add(&r->ratio, changed.device / plain.device);
}

static kas_status measure(subject *s, kas_tape_mode mode, rounds *r)
{
    kas_bench_convs *convs = NULL;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(
        kas_bench_convs_create(s->device, s->net, -1, s->batch, mode, s->o->precision, &convs),
        out);
    KAS_TRY_GOTO(kas_bench_model_begin(&s->plain, mode), out);
    if (s->o->kernel)
        KAS_TRY_GOTO(kas_bench_model_begin(&s->changed, mode), out);
    for (int i = 0; i < WARM_UP + s->repeats; i++)
        KAS_TRY_GOTO(one_round(s, convs, mode, i < WARM_UP ? NULL : r), out);
    KAS_TRY_GOTO(kas_bench_model_check(&s->plain, mode), out);
    if (s->o->kernel)
        status = kas_bench_model_check(&s->changed, mode);
out:
    kas_bench_convs_free(convs);
    return status;
}

/* ---- results --------------------------------------------------------------------------------- */

static double flops_of(const subject *s, bool changed, kas_tape_mode mode)
{
    double flops = kas_net_flops(s->net);
    if (changed)
        flops += s->replacement.solution.flops - s->replacement.solution.conv_flops;
    return flops * s->batch * (mode == KAS_TAPE_TRAIN ? 3 : 1);
}

static const char *phase_name(kas_tape_mode mode)
{
    return mode == KAS_TAPE_TRAIN ? "training" : "inference";
}

static const kas_model *model_of(const subject *s, bool changed, kas_tape_mode mode)
{
    return kas_bench_model_of(changed ? &s->changed : &s->plain, mode);
}

static double host_seconds(rounds *r, bool changed)
{
    kas_samples *host = changed ? &r->changed_host : &r->plain_host;
    return host->count ? kas_samples_quantile(host, 0.5) : NAN;
}

static void put_subject(const subject *s, bool changed, kas_tape_mode mode, kas_buf *out)
{
    char input[48];
    const kas_layer *in = &s->net->layer[0];
    snprintf(input, sizeof input, "%dx%dx%d", in->c, in->h, in->w);
    kas_line_text(out, "net", s->net->name);
    kas_line_text(out, "input", input);
    kas_line_int(out, "classes", s->net->classes);
    kas_line_int(out, "batch", s->batch);
    kas_line_text(out, "precision", kas_precision_names[s->o->precision]);
    kas_line_text(out, "phase", phase_name(mode));
    kas_line_text(out, "kernel", changed ? s->kernel_name : NULL);
}

static kas_status put_json(subject *s, bool changed, kas_tape_mode mode, rounds *r,
                           const kas_bench_floor *floor)
{
    kas_buf out = {0};
    kas_samples *seconds = changed ? &r->changed : &r->plain;
    double median = kas_samples_quantile(seconds, 0.5), flops = flops_of(s, changed, mode);
    kas_bench_line_begin(&out, "step", kas_device_get_info(s->device));
    put_subject(s, changed, mode, &out);
    kas_line_int(&out, "warm_up", WARM_UP);
    kas_line_int(&out, "repeats", seconds->count);
    kas_bench_line_spread(&out, "seconds", seconds);
    kas_line_number(&out, "images_per_second", s->batch / median);
    kas_line_number(&out, "host_seconds", host_seconds(r, changed));
    kas_line_number(&out, "flops_per_step", flops);
    kas_line_text(&out, "flops_counted",
                  "a multiply-add as one; a training step as three inferences");
    kas_line_number(&out, "gflops_per_second", flops / median / 1e9);
    kas_line_int(&out, "memory_bytes", (int64_t)kas_model_memory(model_of(s, changed, mode)));
    kas_bench_floor_line(&out, floor, s->machine, s->o->precision, median);
    if (changed)
        kas_bench_line_spread(&out, "ratio_to_unmodified", &r->ratio);
    else
        kas_bench_line_spread(&out, "convolutions_share", &r->share);
    return kas_bench_line_put(&out, s->sink);
}

static void put_row(subject *s, bool changed, kas_tape_mode mode, rounds *r,
                    const kas_bench_floor *floor, kas_table *table)
{
    char time[32], low[32], high[32], count[32];
    kas_samples *seconds = changed ? &r->changed : &r->plain;
    kas_samples *relative = changed ? &r->ratio : &r->share;
    double median = kas_samples_quantile(seconds, 0.5), flops = flops_of(s, changed, mode);
    kas_table_cell(table, "%s", s->net->name);
    kas_table_cell(table, "%s", changed ? s->kernel_name : "none");
    kas_table_cell(table, "%s", phase_name(mode));
    kas_table_cell(table, "%d", s->batch);
    kas_table_cell(table, "%s", kas_human_seconds(median, time));
    kas_table_cell(table, "%s - %s", kas_human_seconds(kas_samples_quantile(seconds, 0.25), low),
                   kas_human_seconds(kas_samples_quantile(seconds, 0.75), high));
    kas_table_cell(table, "%s", kas_human_count(s->batch / median, count));
    kas_table_cell(table, "%.2f", flops / median / 1e9);
    kas_bench_floor_cell(table, floor, s->machine, s->o->precision, median);
    kas_table_cell(table, "%s", kas_human_bytes(floor->bytes, time));
    kas_table_cell(table, "%.2f", floor->bytes / floor->floor_bytes);
    kas_table_cell(table, "%s", kas_human_seconds(host_seconds(r, changed), time));
    if (changed) {
        kas_table_cell(table, "%s", "");
        kas_table_cell(table, "%.3f", kas_samples_quantile(relative, 0.5));
        kas_table_cell(table, "%.3f - %.3f", kas_samples_quantile(relative, 0.25),
                       kas_samples_quantile(relative, 0.75));
        return;
    }
    kas_table_cell(table, "%.0f%%", 100 * kas_samples_quantile(relative, 0.5));
    kas_table_cell(table, "%s", "");
    kas_table_cell(table, "%s", "");
}

/* Writes the list of --passes and, with --times, the time of each pass. */
static kas_status put_passes(subject *s, bool changed, kas_tape_mode mode, rounds *r)
{
    kas_bench_passes passes = {
        .info = kas_device_get_info(s->device),
        .net = s->net,
        .batch = s->batch,
        .phase = phase_name(mode),
        .kernel = changed ? s->kernel_name : NULL,
        .step = kas_samples_quantile(changed ? &r->changed : &r->plain, 0.5),
    };
    kas_bench_model *model = changed ? &s->changed : &s->plain;
    kas_bench_times times;
    kas_planned_bytes planned;
    KAS_TRY(kas_planned_bytes_count(kas_bench_model_of(model, mode), mode, &planned));
    kas_status status = KAS_OK;
    if (s->o->times) {
        passes.times = &times;
        KAS_TRY_GOTO(kas_bench_model_begin(model, mode), out);
        KAS_TRY_GOTO(kas_bench_times_measure(model, mode, s->repeats, &planned, &times), out);
        KAS_TRY_GOTO(kas_bench_model_check(model, mode), out);
    }
    status = kas_bench_passes_put(&passes, &planned, s->sink);
out:
    kas_planned_bytes_free(&planned);
    return status;
}

static kas_status put(subject *s, bool changed, kas_tape_mode mode, rounds *r, kas_table *table)
{
    kas_bench_floor floor;
    KAS_TRY(
        kas_bench_floor_of(model_of(s, changed, mode), mode, s->machine, s->o->precision, &floor));
    if (s->sink->json)
        KAS_TRY(put_json(s, changed, mode, r, &floor));
    else
        put_row(s, changed, mode, r, &floor, table);
    return s->o->passes || s->o->times ? put_passes(s, changed, mode, r) : KAS_OK;
}

static kas_status run_phase(subject *s, kas_tape_mode mode, kas_table *table)
{
    rounds r = {0};
    if (!s->sink->json)
        kas_info("step: %s, %s at batch %d", s->net->name, phase_name(mode), s->batch);
    kas_status status = measure(s, mode, &r);
    if (status == KAS_OK)
        status = put(s, false, mode, &r, table);
    if (status == KAS_OK && s->o->kernel)
        status = put(s, true, mode, &r, table);
    rounds_free(&r);
    return status;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static kas_status read_kernel(subject *s)
{
    kas_assignment kernels;
    int count;
    KAS_TRY(kas_net_targets(s->net, s->o->filter, &s->target, &count));
    KAS_TRY(kas_assignment_read_file(s->o->kernel, &kernels));
    kas_status status = kas_keep_apply(&s->o->keep, s->o->kernel, s->net, s->target, count,
                                       &s->o->budget, &kernels);
    if (status == KAS_OK)
        status = kas_assignment_name(&kernels, s->kernel_name);
    if (status == KAS_OK)
        status = kas_assignment_fit(&kernels, s->target, count, &s->o->budget, &s->replacement);
    kas_assignment_free(&kernels);
    return status == KAS_OK ? status : kas_fail_context(status, "%s", s->o->kernel);
}

static kas_status prepare(subject *s, const char *name)
{
    const kas_bench_options *o = s->o;
    KAS_TRY(kas_bench_net(o, name, OTHER_SIDE, &s->net));
    KAS_TRY(kas_bench_images(s->net, KAS_BENCH_BATCHES * s->batch, &s->images));
    KAS_TRY(kas_bench_model_create(s->device, s->net, NULL, s->images, s->batch, o->precision,
                                   o->cache_dir, &s->plain));
    if (!o->kernel)
        return KAS_OK;
    KAS_TRY(read_kernel(s));
    return kas_bench_model_create(s->device, s->net, &s->replacement, s->images, s->batch,
                                  o->precision, o->cache_dir, &s->changed);
}

static void release(subject *s)
{
    kas_bench_model_free(&s->changed);
    kas_bench_model_free(&s->plain);
    kas_dataset_close(s->images);
    kas_replacement_free(&s->replacement);
    free(s->target);
    kas_net_free(s->net);
}

static int batch_of(const kas_bench_options *o)
{
    return o->batch ? o->batch : kas_recipe_default().batch;
}

static kas_status run_net(const kas_bench_options *o, const char *name, kas_device *device,
                          const kas_machine *machine, const kas_bench_sink *sink, kas_table *table)
{
    subject s = {.o = o,
                 .sink = sink,
                 .device = device,
                 .machine = machine,
                 .batch = batch_of(o),
                 .repeats = o->repeats ? o->repeats : REPEATS};
    kas_status status = prepare(&s, name);
    if (status == KAS_OK)
        status = run_phase(&s, KAS_TAPE_TRAIN, table);
    if (status == KAS_OK)
        status = run_phase(&s, KAS_TAPE_INFER, table);
    release(&s);
    return status;
}

/* The networks that are measured when none is named. The suite "models" measures all. */
static const char usual[] = "resnet20,resnet18";

static kas_status run_nets(const kas_bench_options *o, const kas_bench_sink *sink, kas_table *table)
{
    const char *list = o->net ? o->net : usual;
    char name[KAS_BENCH_NET];
    kas_device *device;
    kas_machine machine;
    KAS_TRY(kas_device_open(o->device ? o->device : "auto", o->threads, &device));
    kas_status status = kas_machine_measure(device, o->precision, o->machine, &machine);
    while (status == KAS_OK && kas_bench_next_net(&list, name))
        status = run_net(o, name, device, &machine, sink, table);
    kas_device_close(device);
    return status;
}

static kas_status run(const kas_bench_options *o, const kas_bench_sink *sink)
{
    if (o->dry_run)
        return kas_bench_passes_plan(o, o->net ? o->net : usual, batch_of(o), OTHER_SIDE, sink);
    static const kas_column columns[] = {
        {"network", KAS_LEFT},       {"kernel", KAS_LEFT},         {"phase", KAS_LEFT},
        {"batch", KAS_RIGHT},        {"median", KAS_RIGHT},        {"quartiles", KAS_LEFT},
        {"images/s", KAS_RIGHT},     {"GFLOP/s", KAS_RIGHT},       {"of floor", KAS_RIGHT},
        {"bytes", KAS_RIGHT},        {"to floor", KAS_RIGHT},      {"host", KAS_RIGHT},
        {"convolutions", KAS_RIGHT}, {"to unmodified", KAS_RIGHT}, {"quartiles", KAS_LEFT}};
    kas_table *table =
        sink->json ? NULL : kas_table_create(columns, sizeof columns / sizeof *columns);
    kas_status status = run_nets(o, sink, table);
    if (status == KAS_OK)
        status = kas_bench_table_put(
            table,
            "step: a multiply-add is one FLOP; bytes: of the plan, and by those of the floor; to "
            "unmodified: below 1 is faster",
            sink);
    kas_table_free(table);
    return status;
}

static const double step_net = 15.0;
static const double step_image = 0.02;

/* Compiling, then both phases. */
static double seconds(const kas_bench_options *o)
{
    const double runs = WARM_UP + (o->repeats ? o->repeats : REPEATS);
    return kas_bench_count_nets(o->net, 2) * (step_net + step_image * batch_of(o) * runs);
}

const kas_bench_suite kas_bench_suite_step = {
    "step", "time of a training step and of inference; with --kernel, compared", run, seconds};
