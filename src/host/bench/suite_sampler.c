/* How many distinct legal kernels within the budget does one core sample in a second?
 *
 * It measures by network and by exact number of primitives, because long kernels cost more, and
 * over two ranges: that of a search, and that of Canvas' later code. The time is CPU time of the
 * thread, so that other programs disturb it only through caches and clock rates. Outside the
 * measured time every counted kernel goes through the plain checker (check/recheck.h); a finding
 * ends the suite.  Each repeat is a fresh sampler with a seed of its own: duplicates are counted
 * within a repeat, as a search of that length would see them.  With several threads as many repeats
 * run at once, and the rate of each shows whether cores disturb one another. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/bench/bench.h"
#include "host/check/recheck.h"
#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/net/targets.h"
#include "host/space/sample/sampler.h"

enum { REPEATS = 5, FEWEST = 3, MOST = 25 };
static const double default_seconds = 2;

/* Exact numbers of primitives come before these. */
static const int ranges[][2] = {{3, 12}, {5, 25}};
enum { SIZES = MOST - FEWEST + 1, LINES = SIZES + sizeof ranges / sizeof *ranges };

/* With 3x56x56 images the CIFAR stem gives ResNet-18 the targets it has in ImageNet's network:
 * 64 channels at 56x56, 128 at 28x28, 256 at 14x14, 512 at 7x7. */
static const struct {
    const char *net;
    int side;
} cases[] = {{"resnet20", 32}, {"resnet18", 56}};

/* These four shapes alone, each with a 3x3 convolution: Canvas' code is measured on them. */
#define FOUR_SHAPES "resnet18-shapes"
enum { SHAPES = 4 };

static void four_shapes(kas_target out[SHAPES])
{
    for (int i = 0; i < SHAPES; i++) {
        uint32_t c = 64u << i, h = 56u >> i;
        out[i] = kas_target_plain(c, h, h, 3);
        out[i].layer = i;
        snprintf(out[i].name, sizeof out[i].name, "%u@%ux%u", c, h, h);
    }
}

/* The counts of one line, for one network. */
typedef struct line {
    const kas_bench_options *o;
    const char *name;
    int c, h, w; /* of an image */
    const kas_target *target;
    int targets, repeats, threads;
    kas_sample_options sample;
    kas_sample_stats stats; /* summed over repeats */
    uint64_t rechecked;     /* likewise */
    double cpu_seconds;
    kas_samples rate;
} line;

/* Makes up to `attempts` attempts within the measured time; none of them need succeed. Their
 * kernels are kept for the second check. */
static kas_status sample_some(kas_sampler *sampler, uint64_t attempts, kas_recheck *recheck,
                              double *seconds)
{
    kas_sample sample;
    const double start = kas_thread_seconds();
    kas_status status = kas_sampler_next(sampler, attempts, &sample);
    *seconds += kas_thread_seconds() - start;
    if (status == KAS_NOTHING_VALID)
        return KAS_OK;
    KAS_TRY(status);
    status = kas_recheck_add(recheck, sample.name, sample.replacement.kernel,
                             &sample.replacement.solution);
    kas_sample_free(&sample);
    return status;
}

static void add_stats(kas_sample_stats *sum, const kas_sample_stats *one)
{
    sum->attempts += one->attempts;
    sum->tries += one->tries;
    sum->accepted += one->accepted;
    for (int r = 0; r < KAS_REJECT_COUNT; r++)
        sum->rejected[r] += one->rejected[r];
}

/* The run of one sampler; other threads may run theirs at the same time. */
typedef struct run {
    kas_status status;
    kas_sample_stats stats;
    double cpu_seconds;
    kas_recheck_report recheck;
    kas_buf error; /* the message of the thread that failed */
} run;

static kas_status run_sampler(const line *l, uint64_t seed, double seconds, run *r)
{
    enum { LOOK = 32 }; /* attempts between looks at the clock: a few milliseconds */
    kas_sample_options sample = l->sample;
    kas_sampler *sampler;
    kas_recheck *recheck = NULL;
    kas_status status = KAS_OK;
    sample.seed = seed;
    KAS_TRY(kas_sampler_create(&sample, l->target, l->targets, &sampler));
    KAS_TRY_GOTO(kas_recheck_create(l->target, l->targets, &sample, &recheck), out);
    do {
        KAS_TRY_GOTO(sample_some(sampler, LOOK, recheck, &r->cpu_seconds), out);
    } while (r->cpu_seconds < seconds);
    r->stats = kas_sampler_stats(sampler);
    status = kas_recheck_run(recheck, &r->recheck);
out:
    kas_recheck_free(recheck);
    kas_sampler_free(sampler);
    return status;
}

static kas_status add_run(line *l, const run *r)
{
    if (r->status != KAS_OK)
        return kas_fail(r->status, "%s", kas_buf_text(&r->error));
    if (kas_recheck_findings(&r->recheck) > 0 || r->recheck.kernels != r->stats.accepted)
        return kas_fail(KAS_FAILURE,
                        "of %" PRIu64 " sampled kernels %" PRIu64
                        " were checked again, with %" PRIu64 " findings: %s",
                        r->stats.accepted, r->recheck.kernels, kas_recheck_findings(&r->recheck),
                        r->recheck.first);
    add_stats(&l->stats, &r->stats);
    l->rechecked += r->recheck.kernels;
    l->cpu_seconds += r->cpu_seconds;
    return kas_samples_add(&l->rate, (double)r->stats.accepted / r->cpu_seconds);
}

static kas_status measure(line *l, int fewest, int most)
{
    double seconds = (l->o->seconds > 0 ? l->o->seconds : default_seconds) / l->repeats;
    run *runs = calloc((size_t)l->repeats, sizeof *runs);
    kas_status status = KAS_OK;
    if (!runs)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d repeats", l->repeats);
    l->sample.min_primitives = fewest;
    l->sample.max_primitives = most;
    l->stats = (kas_sample_stats){0};
    l->cpu_seconds = 0;
    l->rechecked = 0;
    l->rate.count = 0;
#pragma omp parallel for num_threads(l->threads) schedule(dynamic, 1)
    for (int i = 0; i < l->repeats; i++) {
        runs[i].status = run_sampler(l, l->o->seed + (uint64_t)i, seconds, &runs[i]);
        if (runs[i].status != KAS_OK)
            kas_buf_puts(&runs[i].error, kas_error());
    }
    for (int i = 0; i < l->repeats; i++) {
        if (status == KAS_OK)
            status = add_run(l, &runs[i]);
        kas_buf_free(&runs[i].error);
    }
    free(runs);
    return status;
}

static double acceptance(const line *l)
{
    return (double)l->stats.accepted / (double)l->stats.tries;
}

static kas_status put_json(line *l, const kas_device_info *info, const kas_bench_sink *sink)
{
    kas_buf out = {0};
    char input[48];
    snprintf(input, sizeof input, "%dx%dx%d", l->c, l->h, l->w);
    kas_bench_line_begin(&out, kas_bench_find("sampler")->name, info);
    kas_line_text(&out, "net", l->name);
    kas_line_text(&out, "input", input);
    kas_line_int(&out, "targets", l->targets);
    kas_line_text(&out, "sampler", "guided");
    kas_line_int(&out, "min_primitives", l->sample.min_primitives);
    kas_line_int(&out, "max_primitives", l->sample.max_primitives);
    kas_line_number(&out, "max_flops_ratio", l->sample.budget.max_flops_ratio);
    kas_line_number(&out, "max_params_ratio", l->sample.budget.max_params_ratio);
    kas_line_uint(&out, "seed", l->o->seed);
    kas_line_int(&out, "repeats", l->repeats);
    kas_line_number(&out, "cpu_seconds", l->cpu_seconds);
    kas_bench_line_spread(&out, "kernels_per_core_second", &l->rate);
    kas_line_int(&out, "kernels", (int64_t)l->stats.accepted);
    kas_line_int(&out, "rechecked", (int64_t)l->rechecked);
    kas_line_int(&out, "attempts", (int64_t)l->stats.attempts);
    kas_line_int(&out, "tries", (int64_t)l->stats.tries);
    kas_line_number(&out, "acceptance", acceptance(l));
    kas_bench_line_rejected(&out, l->stats.rejected);
    return kas_bench_line_put(&out, sink);
}

/* The tables of the result. The reasons of failed attempts need many columns, so they are a table
 * of their own. */
typedef struct tables {
    kas_table *rate, *rejected;
} tables;

static void put_row(line *l, tables *t)
{
    char range[32];
    int fewest = l->sample.min_primitives, most = l->sample.max_primitives;
    snprintf(range, sizeof range, fewest == most ? "%d" : "%d-%d", fewest, most);
    kas_table_cell(t->rate, "%s", l->name);
    kas_table_cell(t->rate, "%dx%d", l->h, l->w);
    kas_table_cell(t->rate, "%s", range);
    kas_table_cell(t->rate, "%.0f", kas_samples_quantile(&l->rate, 0.5));
    kas_table_cell(t->rate, "%.0f-%.0f", kas_samples_quantile(&l->rate, 0.25),
                   kas_samples_quantile(&l->rate, 0.75));
    kas_table_cell(t->rate, "%" PRIu64, l->stats.accepted);
    kas_table_cell(t->rate, "%" PRIu64, l->rechecked);
    kas_table_cell(t->rate, "%" PRIu64, l->stats.tries);
    kas_table_cell(t->rate, "%.1f%%", 100 * acceptance(l));
    kas_table_cell(t->rejected, "%s", l->name);
    kas_table_cell(t->rejected, "%s", range);
    for (int r = KAS_REJECT_NONE + 1; r < KAS_REJECT_COUNT; r++)
        kas_table_cell(t->rejected, "%.1f%%",
                       100.0 * (double)l->stats.rejected[r] / (double)l->stats.tries);
}

static void create_tables(tables *t)
{
    static const kas_column rate[] = {
        {"network", KAS_LEFT},    {"image", KAS_LEFT},     {"primitives", KAS_RIGHT},
        {"kernels/s", KAS_RIGHT}, {"quartiles", KAS_LEFT}, {"kernels", KAS_RIGHT},
        {"rechecked", KAS_RIGHT}, {"tries", KAS_RIGHT},    {"accepted", KAS_RIGHT}};
    kas_column rejected[2 + KAS_REJECT_COUNT] = {{"network", KAS_LEFT}, {"primitives", KAS_RIGHT}};
    int columns = 2;
    for (int r = KAS_REJECT_NONE + 1; r < KAS_REJECT_COUNT; r++)
        rejected[columns++] = (kas_column){kas_reject_name((kas_reject)r), KAS_RIGHT};
    t->rate = kas_table_create(rate, sizeof rate / sizeof *rate);
    t->rejected = kas_table_create(rejected, columns);
}

static kas_status run_lines(line *l, tables *t, const kas_device_info *info,
                            const kas_bench_sink *sink)
{
    for (int i = 0; i < LINES; i++) {
        int fewest = i < SIZES ? FEWEST + i : ranges[i - SIZES][0];
        int most = i < SIZES ? FEWEST + i : ranges[i - SIZES][1];
        if (!sink->json)
            kas_info("sampler: %s, %d to %d primitives", l->name, fewest, most);
        KAS_TRY(measure(l, fewest, most));
        if (sink->json)
            KAS_TRY(put_json(l, info, sink));
        else
            put_row(l, t);
    }
    return KAS_OK;
}

static void begin_line(const kas_bench_options *o, const char *name, line *l)
{
    *l = (line){.o = o, .name = name, .repeats = o->repeats ? o->repeats : REPEATS};
    l->threads = o->threads ? o->threads : 1;
    l->sample = o->sample;
    l->sample.budget = kas_bench_budget(o);
}

static kas_status run_shapes(const kas_bench_options *o, tables *t, const kas_device_info *info,
                             const kas_bench_sink *sink)
{
    line l;
    kas_target target[SHAPES];
    four_shapes(target);
    begin_line(o, FOUR_SHAPES, &l);
    l.target = target;
    l.targets = SHAPES;
    l.c = 3;
    l.h = l.w = 56;
    kas_status status = run_lines(&l, t, info, sink);
    kas_samples_free(&l.rate);
    return status;
}

static kas_status run_net(const kas_bench_options *o, const char *name, int side, tables *t,
                          const kas_device_info *info, const kas_bench_sink *sink)
{
    line l;
    kas_net *net = NULL;
    kas_target *target = NULL;
    kas_status status = KAS_OK;
    begin_line(o, name, &l);
    KAS_TRY_GOTO(kas_bench_net(o, name, side, &net), out);
    l.c = net->layer[0].c;
    l.h = net->layer[0].h;
    l.w = net->layer[0].w;
    KAS_TRY_GOTO(kas_net_targets(net, o->filter, &target, &l.targets), out);
    l.name = net->name;
    l.target = target;
    status = run_lines(&l, t, info, sink);
out:
    kas_samples_free(&l.rate);
    free(target);
    kas_net_free(net);
    return status;
}

/* Gets the machine's description. The CPU device is opened only for its name. */
static kas_status read_machine(int threads, kas_device_info *info)
{
    kas_device *cpu;
    KAS_TRY(kas_device_open("cpu", threads, &cpu));
    *info = *kas_device_get_info(cpu);
    kas_device_close(cpu);
    return KAS_OK;
}

static kas_status run_nets(const kas_bench_options *o, tables *t, const kas_bench_sink *sink)
{
    enum { CASES = sizeof cases / sizeof *cases, OTHER_SIDE = 32 };
    kas_device_info info;
    bool known = !o->net || strcmp(o->net, FOUR_SHAPES) == 0;
    bool shapes = known;
    KAS_TRY(read_machine(o->threads ? o->threads : 1, &info));
    for (int i = 0; i < CASES; i++) {
        if (o->net && strcmp(o->net, cases[i].net) != 0)
            continue;
        known = true;
        KAS_TRY(run_net(o, cases[i].net, cases[i].side, t, &info, sink));
    }
    if (shapes)
        return run_shapes(o, t, &info, sink);
    return known ? KAS_OK : run_net(o, o->net, OTHER_SIDE, t, &info, sink);
}

static kas_status run_suite(const kas_bench_options *o, const kas_bench_sink *sink)
{
    tables t = {0};
    if (!sink->json)
        create_tables(&t);
    kas_status status = run_nets(o, &t, sink);
    if (status == KAS_OK)
        status = kas_bench_table_put(
            t.rate, "sampler: distinct legal kernels within the budget, per second of one core",
            sink);
    if (status == KAS_OK)
        status = kas_bench_table_put(t.rejected, "sampler: why attempts gave no kernel", sink);
    kas_table_free(t.rate);
    kas_table_free(t.rejected);
    return status;
}

/* Estimates the time: that of each line, and half as much again for checking. */
static double seconds(const kas_bench_options *o)
{
    enum { CASES = sizeof cases / sizeof *cases };
    const double line = o->seconds > 0 ? o->seconds : default_seconds;
    return 1.5 * line * LINES * (o->net ? 1 : CASES + 1) / (o->threads ? o->threads : 1);
}

const kas_bench_suite kas_bench_suite_sampler = {
    "sampler", "legal kernels within the budget that one core draws in a second", run_suite,
    seconds};
