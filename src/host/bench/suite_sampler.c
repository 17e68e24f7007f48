/* How many distinct legal kernels within the budget does one core sample in a second?
 *
 * By network and by exact number of primitives, because long kernels are rarer and dearer, and over
 * the whole range, which is what a search draws from.  Time is CPU time of the thread, so that
 * other programs only disturb through caches and clock rates.  Each repeat is a fresh sampler with
 * a seed of its own: duplicates are counted within a repeat, as a search of that length would see
 * them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/bench/bench.h"
#include "host/core/log.h"
#include "host/net/targets.h"
#include "host/space/sampler.h"

enum { REPEATS = 5, FEWEST = 3, MOST = 12, LINES = MOST - FEWEST + 2 };
static const double default_seconds = 2;

/* With 3x56x56 images the CIFAR stem gives ResNet-18 the targets it has in ImageNet's network:
 * 64 channels at 56x56, 128 at 28x28, 256 at 14x14, 512 at 7x7. */
static const struct {
    const char *net;
    int side;
} cases[] = {{"resnet20", 32}, {"resnet18", 56}};

/* One network, and what was counted in one line of it. */
typedef struct line {
    const kas_bench_options *o;
    const kas_net *net;
    const kas_target *target;
    int targets, repeats;
    kas_sample_options sample;
    kas_sample_stats stats; /* summed over repeats */
    double cpu_seconds;
    kas_samples rate;
} line;

static kas_status thread_seconds(double *seconds)
{
    struct timespec t;
    KAS_CHECK_LIBC(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0, KAS_FAILURE);
    *seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return KAS_OK;
}

/* Up to `attempts` attempts; none of them need succeed. */
static kas_status sample_some(kas_sampler *sampler, uint64_t attempts)
{
    kas_sample sample;
    kas_status status = kas_sampler_next(sampler, attempts, &sample);
    if (status == KAS_OK)
        kas_solution_free(&sample.solution);
    return status == KAS_NOTHING_VALID ? KAS_OK : status;
}

static void add_stats(kas_sample_stats *sum, const kas_sample_stats *one)
{
    sum->attempts += one->attempts;
    sum->accepted += one->accepted;
    for (int r = 0; r < KAS_REJECT_COUNT; r++)
        sum->rejected[r] += one->rejected[r];
}

static kas_status repeat(line *l, double seconds)
{
    enum { LOOK = 32 }; /* attempts between looks at the clock: well under a millisecond's worth */
    kas_sampler *sampler;
    double start, now;
    kas_status status = KAS_OK;
    KAS_TRY(kas_sampler_create(&l->sample, l->target, l->targets, &sampler));
    KAS_TRY_GOTO(thread_seconds(&start), out);
    do {
        KAS_TRY_GOTO(sample_some(sampler, LOOK), out);
        KAS_TRY_GOTO(thread_seconds(&now), out);
    } while (now - start < seconds);
    kas_sample_stats stats = kas_sampler_stats(sampler);
    add_stats(&l->stats, &stats);
    l->cpu_seconds += now - start;
    status = kas_samples_add(&l->rate, (double)stats.accepted / (now - start));
out:
    kas_sampler_free(sampler);
    return status;
}

static kas_status measure(line *l, int fewest, int most)
{
    double seconds = l->o->seconds > 0 ? l->o->seconds : default_seconds;
    l->sample.min_primitives = fewest;
    l->sample.max_primitives = most;
    l->stats = (kas_sample_stats){0};
    l->cpu_seconds = 0;
    l->rate.count = 0;
    for (int i = 0; i < l->repeats; i++) {
        l->sample.seed = l->o->seed + (uint64_t)i;
        KAS_TRY(repeat(l, seconds / l->repeats));
    }
    return KAS_OK;
}

static double acceptance(const line *l)
{
    return (double)l->stats.accepted / (double)l->stats.attempts;
}

static void put_rejections(kas_buf *out, const line *l)
{
    kas_buf counts = {0};
    for (int r = KAS_REJECT_NONE + 1; r < KAS_REJECT_COUNT; r++) {
        kas_buf_puts(&counts, r == KAS_REJECT_NONE + 1 ? "{" : ", ");
        kas_buf_json_string(&counts, kas_reject_name((kas_reject)r));
        kas_buf_printf(&counts, ": %" PRIu64, l->stats.rejected[r]);
    }
    kas_buf_puts(&counts, "}");
    out->failed |= counts.failed;
    kas_line_json(out, "rejected", kas_buf_text(&counts));
    kas_buf_free(&counts);
}

static kas_status put_json(line *l, const kas_device_info *info, const kas_bench_sink *sink)
{
    kas_buf out = {0};
    char input[48];
    const kas_layer *in = &l->net->layer[0];
    snprintf(input, sizeof input, "%dx%dx%d", in->c, in->h, in->w);
    kas_bench_line_begin(&out, kas_bench_find("sampler")->name, info);
    kas_line_text(&out, "net", l->net->name);
    kas_line_text(&out, "input", input);
    kas_line_int(&out, "targets", l->targets);
    kas_line_int(&out, "min_primitives", l->sample.min_primitives);
    kas_line_int(&out, "max_primitives", l->sample.max_primitives);
    kas_line_number(&out, "max_flops_ratio", l->sample.budget.max_flops_ratio);
    kas_line_number(&out, "max_params_ratio", l->sample.budget.max_params_ratio);
    kas_line_int(&out, "seed", (int64_t)l->o->seed);
    kas_line_int(&out, "repeats", l->repeats);
    kas_line_number(&out, "cpu_seconds", l->cpu_seconds);
    kas_bench_line_spread(&out, "kernels_per_core_second", &l->rate);
    kas_line_int(&out, "kernels", (int64_t)l->stats.accepted);
    kas_line_int(&out, "attempts", (int64_t)l->stats.attempts);
    kas_line_number(&out, "acceptance", acceptance(l));
    put_rejections(&out, l);
    kas_status status = kas_bench_line_put(&out, sink);
    kas_buf_free(&out);
    return status;
}

/* Why attempts failed is as wide as the list of reasons, so it is a table of its own. */
typedef struct tables {
    kas_table *rate, *rejected;
} tables;

static void put_row(line *l, tables *t)
{
    char range[32];
    int fewest = l->sample.min_primitives, most = l->sample.max_primitives;
    snprintf(range, sizeof range, fewest == most ? "%d" : "%d-%d", fewest, most);
    kas_table_cell(t->rate, "%s", l->net->name);
    kas_table_cell(t->rate, "%dx%d", l->net->layer[0].h, l->net->layer[0].w);
    kas_table_cell(t->rate, "%s", range);
    kas_table_cell(t->rate, "%.0f", kas_samples_quantile(&l->rate, 0.5));
    kas_table_cell(t->rate, "%.0f-%.0f", kas_samples_quantile(&l->rate, 0.25),
                   kas_samples_quantile(&l->rate, 0.75));
    kas_table_cell(t->rate, "%" PRIu64, l->stats.accepted);
    kas_table_cell(t->rate, "%" PRIu64, l->stats.attempts);
    kas_table_cell(t->rate, "%.1f%%", 100 * acceptance(l));
    kas_table_cell(t->rejected, "%s", l->net->name);
    kas_table_cell(t->rejected, "%s", range);
    for (int r = KAS_REJECT_NONE + 1; r < KAS_REJECT_COUNT; r++)
        kas_table_cell(t->rejected, "%.1f%%",
                       100.0 * (double)l->stats.rejected[r] / (double)l->stats.attempts);
}

static void create_tables(tables *t)
{
    static const kas_column rate[] = {{"network", KAS_LEFT},     {"image", KAS_LEFT},
                                      {"primitives", KAS_RIGHT}, {"kernels/s", KAS_RIGHT},
                                      {"quartiles", KAS_LEFT},   {"kernels", KAS_RIGHT},
                                      {"attempts", KAS_RIGHT},   {"accepted", KAS_RIGHT}};
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
        bool all = i == LINES - 1; /* the whole range comes last */
        int fewest = all ? FEWEST : FEWEST + i, most = all ? MOST : FEWEST + i;
        if (!sink->json)
            kas_info("sampler: %s, %d to %d primitives", l->net->name, fewest, most);
        KAS_TRY(measure(l, fewest, most));
        if (sink->json)
            KAS_TRY(put_json(l, info, sink));
        else
            put_row(l, t);
    }
    return KAS_OK;
}

static kas_status run_net(const kas_bench_options *o, const char *name, int side, tables *t,
                          const kas_device_info *info, const kas_bench_sink *sink)
{
    line l = {.o = o, .repeats = o->repeats ? o->repeats : REPEATS};
    kas_net *net = NULL;
    kas_target *target = NULL;
    kas_status status = KAS_OK;
    l.sample = kas_sample_defaults();
    l.sample.budget = o->budget;
    if (l.sample.budget.max_flops_ratio == 0)
        l.sample.budget.max_flops_ratio = 0.5;
    if (l.sample.budget.max_params_ratio == 0)
        l.sample.budget.max_params_ratio = 1;
    bool given = o->h != 0;
    KAS_TRY_GOTO(kas_net_build(name, given ? o->h : side, given ? o->w : side, given ? o->c : 3,
                               o->classes, &net),
                 out);
    KAS_TRY_GOTO(kas_net_targets(net, o->filter, &target, &l.targets), out);
    l.net = net;
    l.target = target;
    status = run_lines(&l, t, info, sink);
out:
    kas_samples_free(&l.rate);
    free(target);
    kas_net_free(net);
    return status;
}

/* The CPU device is opened for its name only. */
static kas_status read_machine(kas_device_info *info)
{
    kas_device *cpu;
    KAS_TRY(kas_device_open("cpu", 1, &cpu));
    *info = *kas_device_get_info(cpu);
    kas_device_close(cpu);
    return KAS_OK;
}

static kas_status run_nets(const kas_bench_options *o, tables *t, const kas_bench_sink *sink)
{
    enum { CASES = sizeof cases / sizeof *cases, OTHER_SIDE = 32 };
    kas_device_info info;
    bool known = false;
    KAS_TRY(read_machine(&info));
    for (int i = 0; i < CASES; i++) {
        if (o->net && strcmp(o->net, cases[i].net) != 0)
            continue;
        known = true;
        KAS_TRY(run_net(o, cases[i].net, cases[i].side, t, &info, sink));
    }
    return known ? KAS_OK : run_net(o, o->net, OTHER_SIDE, t, &info, sink);
}

static kas_status run(const kas_bench_options *o, const kas_bench_sink *sink)
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

const kas_bench_suite kas_bench_suite_sampler = {
    "sampler", "legal kernels within the budget that one core draws in a second", run};
