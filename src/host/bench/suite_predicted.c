/* How long does every launch of a set of programs take on a GPU, and which are far from their
 * floor?
 *
 * Nothing is compiled or run: a machine model predicts each launch (predict/predict.h). The
 * programs are the unmodified network's training step and, for each kernel and each shape of
 * target, the kernel's program, forward and backward. The launches that lose most time come first.
 * The sums say what share of the time lies in launches that are near their floor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/bench/bench.h"
#include "host/core/arena.h"
#include "host/core/log.h"
#include "host/model/planned_bytes.h"
#include "host/net/targets.h"
#include "host/predict/predict.h"
#include "host/space/file/assignment.h"
#include "host/space/sample/sampler.h"

enum { SAMPLED = 24, BATCH = 64, SIDE = 32, SHOWN = 40, NAME = 64 };
static const double near_floor = 2;

typedef struct launch {
    char kernel[NAME]; /* "": of the unmodified network */
    char layer[NAME];
    char launch[NAME]; /* name of the function, or what the pass does */
    bool backward, library;
    double bytes;
    unsigned grid[3], block[3];
    kas_estimate estimate;
} launch;

typedef struct subject {
    const kas_bench_options *o;
    const kas_bench_sink *sink;
    kas_machine machine;
    kas_net *net;
    kas_target *target;
    int targets, batch, sampled;
    launch *launch;
    int launches;
    kas_samples ratio; /* of a program's sum to the sum of its floors */
} subject;

/* ---- launches -------------------------------------------------------------------------------- */

static kas_status add(subject *s, const char *kernel, const char *layer, bool backward,
                      const kas_sweep *pass)
{
    if (!KAS_GROW(s->launch, s->launches))
        return kas_fail(KAS_NO_MEMORY, "no memory for %d launches", s->launches + 1);
    launch *l = &s->launch[s->launches++];
    *l = (launch){.backward = backward,
                  .library = pass->library,
                  .bytes = pass->bytes,
                  .estimate = kas_predict_pass(&s->machine, pass)};
    snprintf(l->kernel, sizeof l->kernel, "%s", kernel);
    snprintf(l->layer, sizeof l->layer, "%s", layer);
    if (pass->library)
        snprintf(l->launch, sizeof l->launch, "%s %dx%d %d:%d/%d", pass->what, pass->conv.kernel_h,
                 pass->conv.kernel_w, pass->conv.c_in, pass->conv.c_out, pass->conv.groups);
    else
        snprintf(l->launch, sizeof l->launch, "%s",
                 pass->kernel ? pass->kernel->function : pass->what);
    if (pass->kernel) {
        memcpy(l->grid, pass->kernel->grid, sizeof l->grid);
        memcpy(l->block, pass->kernel->block, sizeof l->block);
    }
    return KAS_OK;
}

/* Ends a program, whose launches begin at `first`. */
static kas_status end_program(subject *s, int first)
{
    double seconds = 0, floor = 0;
    for (int i = first; i < s->launches; i++) {
        seconds += s->launch[i].estimate.seconds;
        floor += s->launch[i].estimate.floor;
    }
    return s->launches > first ? kas_samples_add(&s->ratio, seconds / floor) : KAS_OK;
}

static kas_status add_network(subject *s)
{
    const kas_model_options options = {
        .net = s->net, .batch = s->batch, .training = true, .precision = s->o->precision};
    kas_planned_bytes planned;
    kas_status status = KAS_OK;
    const int first = s->launches;
    KAS_TRY(kas_planned_bytes_plan(&options, KAS_TAPE_TRAIN, &planned));
    for (int i = 0; i < planned.passes && status == KAS_OK; i++) {
        const kas_sweep *pass = &planned.pass[i];
        status = add(s, "", pass->layer < 0 ? "" : s->net->layer[pass->layer].name, false, pass);
    }
    kas_planned_bytes_free(&planned);
    return status == KAS_OK ? end_program(s, first) : status;
}

static kas_status add_operations(subject *s, const char *kernel, const kas_program *p,
                                 bool backward)
{
    const kas_operation *op = backward ? p->backward : p->forward;
    const int count = backward ? p->backwards : p->forwards;
    for (int i = 0; i < count; i++) {
        static const char *const what[] = {"forward", "data", "weights"};
        const kas_sweep pass = kas_sweep_of(what[op[i].pass], -1, p, &op[i]);
        KAS_TRY(add(s, kernel, p->target.name, backward, &pass));
    }
    return KAS_OK;
}

static kas_status add_replacement(subject *s, const char *kernel, const kas_replacement *r)
{
    kas_programs programs;
    kas_status status = KAS_OK;
    KAS_TRY(kas_predict_lower(&s->machine, r, s->batch, s->o->precision, true, &programs));
    for (int p = 0; p < programs.count && status == KAS_OK; p++) {
        const int first = s->launches;
        status = add_operations(s, kernel, programs.program[p], false);
        if (status == KAS_OK)
            status = add_operations(s, kernel, programs.program[p], true);
        if (status == KAS_OK)
            status = end_program(s, first);
    }
    kas_programs_free(&programs);
    return status;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static kas_status place_file(subject *s, const char *path)
{
    kas_assignment read;
    kas_replacement replacement;
    KAS_TRY(kas_assignment_read_file(path, &read));
    kas_status status =
        kas_keep_apply(&s->o->keep, path, s->net, s->target, s->targets, &s->o->budget, &read);
    if (status == KAS_OK)
        status = kas_assignment_fit(&read, s->target, s->targets, &s->o->budget, &replacement);
    kas_assignment_free(&read);
    KAS_TRY(status);
    status = add_replacement(s, basename(path), &replacement);
    kas_replacement_free(&replacement);
    return status;
}

/* A kernel that does not fit the network is left out with a message. */
static kas_status add_file(void *context, const char *path)
{
    const kas_status status = place_file(context, path);
    if (!kas_is_misfit(status))
        return status;
    kas_warn("%s is left out: %s", path, kas_error());
    return KAS_OK;
}

static kas_status add_samples(subject *s)
{
    kas_sample_options options = s->o->sample;
    kas_sampler *sampler;
    kas_status status = KAS_OK;
    options.seed = s->o->seed;
    options.budget = kas_bench_budget(s->o);
    KAS_TRY(kas_sampler_create(&options, s->target, s->targets, &sampler));
    for (int i = 0; i < s->sampled && status == KAS_OK; i++) {
        kas_sample sample;
        status = kas_sampler_next(sampler, 0, &sample);
        if (status != KAS_OK)
            break;
        status = add_replacement(s, sample.name, &sample.replacement);
        kas_sample_free(&sample);
    }
    kas_sampler_free(sampler);
    return status;
}

/* ---- results --------------------------------------------------------------------------------- */

static double ratio_of(const launch *l)
{
    return l->estimate.seconds / l->estimate.floor;
}

static int by_lost_time(const void *a, const void *b)
{
    const launch *x = a, *y = b;
    const double lost_x = x->estimate.seconds - x->estimate.floor,
                 lost_y = y->estimate.seconds - y->estimate.floor;
    return (lost_x < lost_y) - (lost_x > lost_y);
}

typedef struct sums {
    double seconds, floor, near, largest;
    double bound[KAS_BOUNDS]; /* seconds by bound */
} sums;

static sums add_up(const subject *s)
{
    sums sum = {0};
    for (int i = 0; i < s->launches; i++) {
        const launch *l = &s->launch[i];
        sum.seconds += l->estimate.seconds;
        sum.floor += l->estimate.floor;
        sum.near += ratio_of(l) <= near_floor ? l->estimate.seconds : 0;
        sum.largest = fmax(sum.largest, ratio_of(l));
        sum.bound[l->estimate.bound] += l->estimate.seconds;
    }
    return sum;
}

static void begin_line(const subject *s, kas_buf *out)
{
    kas_device_info info = {.arch = "none"};
    snprintf(info.name, sizeof info.name, "%s", s->machine.name);
    kas_bench_line_begin(out, "predicted", &info);
    kas_line_text(out, "net", s->net->name);
    kas_line_int(out, "batch", s->batch);
    kas_line_text(out, "precision", kas_precision_names[s->o->precision]);
}

static kas_status put_json(subject *s, const launch *l)
{
    static const char *const part[KAS_BOUNDS] = {"memory", "arithmetic", "latency",
                                                 "launch_seconds"};
    kas_buf out = {0};
    begin_line(s, &out);
    kas_line_text(&out, "kernel", *l->kernel ? l->kernel : NULL);
    kas_line_text(&out, "layer", l->layer);
    kas_line_text(&out, "launch", l->launch);
    kas_line_bool(&out, "backward", l->backward);
    kas_line_bool(&out, "library", l->library);
    kas_line_int(&out, "blocks", (int64_t)l->grid[0] * l->grid[1] * l->grid[2]);
    kas_line_int(&out, "block_threads", (int64_t)l->block[0] * l->block[1] * l->block[2]);
    kas_line_number(&out, "bytes", l->bytes);
    kas_line_number(&out, "seconds", l->estimate.seconds);
    kas_line_number(&out, "floor_seconds", l->estimate.floor);
    kas_line_number(&out, "ratio", ratio_of(l));
    for (int i = 0; i < KAS_BOUNDS; i++)
        kas_line_number(&out, part[i], l->estimate.part[i]);
    kas_line_text(&out, "bound", kas_bound_names[l->estimate.bound]);
    return kas_bench_line_put(&out, s->sink);
}

static kas_status put_sums(subject *s, const sums *sum)
{
    kas_buf out = {0};
    begin_line(s, &out);
    kas_line_int(&out, "launches", s->launches);
    kas_line_int(&out, "programs", s->ratio.count);
    kas_line_number(&out, "seconds", sum->seconds);
    kas_line_number(&out, "floor_seconds", sum->floor);
    kas_line_number(&out, "near_floor", sum->near / sum->seconds);
    kas_line_number(&out, "largest_ratio", sum->largest);
    kas_line_number(&out, "median_program_ratio", kas_samples_quantile(&s->ratio, 0.5));
    return kas_bench_line_put(&out, s->sink);
}

static kas_status put_table(subject *s, const sums *sum)
{
    static const kas_column columns[] = {
        {"kernel", KAS_LEFT}, {"layer", KAS_LEFT},  {"launch", KAS_LEFT}, {"blocks", KAS_RIGHT},
        {"time", KAS_RIGHT},  {"floor", KAS_RIGHT}, {"ratio", KAS_RIGHT}, {"bound", KAS_LEFT}};
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    char title[512], human[3][32];
    for (int i = 0; i < s->launches && i < SHOWN; i++) {
        const launch *l = &s->launch[i];
        kas_table_cell(table, "%s", *l->kernel ? l->kernel : s->net->name);
        kas_table_cell(table, "%s", l->layer);
        kas_table_cell(table, "%s", l->launch);
        kas_table_cell(table, "%.0f", (double)l->grid[0] * l->grid[1] * l->grid[2]);
        kas_table_cell(table, "%s", kas_human_seconds(l->estimate.seconds, human[0]));
        kas_table_cell(table, "%s", kas_human_seconds(l->estimate.floor, human[1]));
        kas_table_cell(table, "%.1f", ratio_of(l));
        kas_table_cell(table, "%s", kas_bound_names[l->estimate.bound]);
    }
    snprintf(title, sizeof title,
             "predicted: %s at batch %d in %s on %s, training: %d launches of %d programs take %s, "
             "their floors %s; %.1f%% of the time in launches within %gx of their floor, largest "
             "ratio %.1f, median of programs %.2f; those that lose most:",
             s->net->name, s->batch, kas_precision_names[s->o->precision], s->machine.name,
             s->launches, s->ratio.count, kas_human_seconds(sum->seconds, human[0]),
             kas_human_seconds(sum->floor, human[1]), 100 * sum->near / sum->seconds, near_floor,
             sum->largest, kas_samples_quantile(&s->ratio, 0.5));
    kas_status status = kas_bench_table_put(table, title, s->sink);
    kas_table_free(table);
    return status;
}

static kas_status put(subject *s)
{
    qsort(s->launch, (size_t)s->launches, sizeof *s->launch, by_lost_time);
    const sums sum = add_up(s);
    if (!s->sink->json)
        return put_table(s, &sum);
    for (int i = 0; i < s->launches; i++)
        KAS_TRY(put_json(s, &s->launch[i]));
    return put_sums(s, &sum);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static kas_status run_subject(subject *s)
{
    const kas_bench_options *o = s->o;
    if (o->machine)
        s->machine = *o->machine;
    else
        KAS_TRY(kas_machine_find("h100", "auto", 0, &s->machine));
    KAS_TRY(kas_bench_net(o, o->net ? o->net : "resnet20", SIDE, &s->net));
    KAS_TRY(kas_net_targets(s->net, o->filter, &s->target, &s->targets));
    KAS_TRY(add_network(s));
    if (o->kernel)
        KAS_TRY(kas_bench_kernel_files(o->kernel, add_file, s));
    KAS_TRY(add_samples(s));
    return put(s);
}

static int sampled(const kas_bench_options *o)
{
    return o->repeats ? o->repeats : o->kernel ? 0 : SAMPLED;
}

static kas_status run(const kas_bench_options *o, const kas_bench_sink *sink)
{
    subject s = {.o = o, .sink = sink, .batch = o->batch ? o->batch : BATCH, .sampled = sampled(o)};
    const kas_status status = run_subject(&s);
    kas_samples_free(&s.ratio);
    free(s.launch);
    free(s.target);
    kas_net_free(s.net);
    return status;
}

static double seconds(const kas_bench_options *o)
{
    static const double a_kernel = 0.1;
    return a_kernel * (sampled(o) + (o->kernel ? 16 : 0));
}

const kas_bench_suite kas_bench_suite_predicted = {
    "predicted", "each launch on a GPU beside its floor, by the machine model", run, seconds};
