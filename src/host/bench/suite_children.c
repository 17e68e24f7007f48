/* How many distinct legal children within the budget does one core make in a second, and what share
 * of the tries gives one?
 *
 * A population begins with 100 samples of 3 to 12 primitives.  Attempts draw two parents from it;
 * every new child takes the place of the oldest kernel, as in regularised evolution without
 * selection.  The time is CPU time of the thread and covers attempts, names and the search for
 * equals; it is counted by kind of change too.  Outside the measured time every child goes through
 * the plain checker (check/recheck.h); a finding ends the suite. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/bench/bench.h"
#include "host/check/recheck.h"
#include "host/core/clock.h"
#include "host/net/targets.h"
#include "host/space/evolve/evolve.h"
#include "host/space/name_set.h"
#include "host/space/sample/sampler.h"

enum { REPEATS = 5, POPULATION = 100, SIDE = 56 };
static const double default_seconds = 5;

/* The counts of one kind of change. */
typedef struct counts {
    uint64_t attempts, tries, legal, kernels; /* kernels: new ones */
    double cpu_seconds;
} counts;

typedef struct subject {
    const kas_bench_options *o;
    const char *net;
    int c, h, w, repeats;
    const kas_target *target;
    int targets;
    kas_sample_options sample;
    counts by[KAS_CHANGE_COUNT], all;
    uint64_t rejected[KAS_REJECT_COUNT], rechecked;
    kas_samples rate;
} subject;

/* One repeat. */
typedef struct run {
    kas_children *children;
    kas_recheck *recheck;
    kas_name_set names;
    kas_kernel population[POPULATION];
    int oldest;
    uint64_t kernels;
    double cpu_seconds;
} run;

static kas_status draw_population(const subject *s, const kas_sample_options *options, run *r)
{
    kas_sampler *sampler;
    kas_status status = KAS_OK;
    bool is_new;
    KAS_TRY(kas_sampler_create(options, s->target, s->targets, &sampler));
    for (int i = 0; i < POPULATION && status == KAS_OK; i++) {
        kas_sample sample;
        status = kas_sampler_next(sampler, 0, &sample);
        if (status != KAS_OK)
            break;
        r->population[i] = *sample.replacement.kernel;
        status = kas_name_set_add(&r->names, sample.name, &is_new);
        kas_sample_free(&sample);
    }
    kas_sampler_free(sampler);
    return status;
}

/* Names a child and looks whether it is new. */
static kas_status name_child(run *r, const kas_kernel *kernel, char name[KAS_NAME_SIZE],
                             bool *is_new)
{
    KAS_TRY(kas_canonical_name(kernel, name));
    return kas_name_set_add(&r->names, name, is_new);
}

/* Makes one attempt within the measured time. */
static kas_status attempt(subject *s, run *r, uint64_t seed, uint64_t key)
{
    kas_replacement child = {0};
    kas_attempt how;
    kas_change what;
    char name[KAS_NAME_SIZE];
    bool is_new = false;
    int a, b;
    const double start = kas_thread_seconds();
    kas_child_parents(seed, key, POPULATION, &a, &b);
    KAS_TRY(kas_child_attempt(r->children, &r->population[a], &r->population[b], key, &child, &how,
                              &what));
    const bool legal = how.why == KAS_REJECT_NONE;
    kas_status status = legal ? name_child(r, child.kernel, name, &is_new) : KAS_OK;
    const double taken = kas_thread_seconds() - start;
    if (status == KAS_OK && is_new) {
        r->population[r->oldest++ % POPULATION] = *child.kernel;
        status = kas_recheck_add(r->recheck, name, child.kernel, &child.solution);
    }
    kas_replacement_free(&child);
    KAS_TRY(status);
    counts *by = &s->by[what];
    by->attempts++;
    by->tries += how.tries;
    by->legal += legal;
    by->kernels += is_new;
    by->cpu_seconds += taken;
    for (int why = 0; why < KAS_REJECT_COUNT; why++)
        s->rejected[why] += how.rejected[why];
    s->rejected[KAS_REJECT_DUPLICATE] += legal && !is_new;
    r->kernels += is_new;
    r->cpu_seconds += taken;
    return KAS_OK;
}

static kas_status recheck(subject *s, run *r)
{
    kas_recheck_report report;
    KAS_TRY(kas_recheck_run(r->recheck, &report));
    if (kas_recheck_findings(&report) > 0 || report.kernels != r->kernels)
        return kas_fail(KAS_FAILURE,
                        "of %" PRIu64 " children %" PRIu64 " were checked again, with %" PRIu64
                        " findings: %s",
                        r->kernels, report.kernels, kas_recheck_findings(&report), report.first);
    s->rechecked += report.kernels;
    return kas_samples_add(&s->rate, (double)r->kernels / r->cpu_seconds);
}

static kas_status repeat(subject *s, int n)
{
    const double seconds = (s->o->seconds > 0 ? s->o->seconds : default_seconds) / s->repeats;
    kas_sample_options options = s->sample;
    run *r = calloc(1, sizeof *r);
    kas_status status = KAS_OK;
    if (!r)
        return kas_fail(KAS_NO_MEMORY, "no memory for a population");
    options.seed = s->o->seed + (uint64_t)n;
    KAS_TRY_GOTO(kas_children_create(&options, s->target, s->targets, &r->children), out);
    KAS_TRY_GOTO(kas_recheck_create(s->target, s->targets, &options, &r->recheck), out);
    KAS_TRY_GOTO(draw_population(s, &options, r), out);
    for (uint64_t key = 0; r->cpu_seconds < seconds; key++)
        KAS_TRY_GOTO(attempt(s, r, options.seed, key), out);
    status = recheck(s, r);
out:
    kas_recheck_free(r->recheck);
    kas_children_free(r->children);
    kas_name_set_free(&r->names);
    free(r);
    return status;
}

/* ---- results --------------------------------------------------------------------------------- */

static void add_up(subject *s)
{
    for (int c = 0; c < KAS_CHANGE_COUNT; c++) {
        s->all.attempts += s->by[c].attempts;
        s->all.tries += s->by[c].tries;
        s->all.legal += s->by[c].legal;
        s->all.kernels += s->by[c].kernels;
        s->all.cpu_seconds += s->by[c].cpu_seconds;
    }
}

static void put_counts(const subject *s, kas_buf *line)
{
    kas_line_key(line, "changes");
    for (int c = 0; c < KAS_CHANGE_COUNT; c++) {
        const counts *by = &s->by[c];
        kas_buf_printf(line,
                       "%s\"%s\": {\"attempts\": %" PRIu64 ", \"tries\": %" PRIu64
                       ", \"legal\": %" PRIu64 ", \"kernels\": %" PRIu64 ", \"cpu_seconds\": %.6g}",
                       c ? ", " : "{", kas_change_name((kas_change)c), by->attempts, by->tries,
                       by->legal, by->kernels, by->cpu_seconds);
    }
    kas_buf_puts(line, "}");
    kas_bench_line_rejected(line, s->rejected);
}

static kas_status put_json(subject *s, const kas_device_info *info, const kas_bench_sink *sink)
{
    kas_buf out = {0};
    char input[48];
    snprintf(input, sizeof input, "%dx%dx%d", s->c, s->h, s->w);
    kas_bench_line_begin(&out, "children", info);
    kas_line_text(&out, "net", s->net);
    kas_line_text(&out, "input", input);
    kas_line_int(&out, "targets", s->targets);
    kas_line_int(&out, "min_primitives", s->sample.min_primitives);
    kas_line_int(&out, "max_primitives", s->sample.max_primitives);
    kas_line_number(&out, "max_flops_ratio", s->sample.budget.max_flops_ratio);
    kas_line_number(&out, "max_params_ratio", s->sample.budget.max_params_ratio);
    kas_line_uint(&out, "seed", s->o->seed);
    kas_line_int(&out, "repeats", s->repeats);
    kas_line_number(&out, "cpu_seconds", s->all.cpu_seconds);
    kas_bench_line_spread(&out, "kernels_per_core_second", &s->rate);
    kas_line_int(&out, "kernels", (int64_t)s->all.kernels);
    kas_line_int(&out, "rechecked", (int64_t)s->rechecked);
    kas_line_int(&out, "attempts", (int64_t)s->all.attempts);
    kas_line_int(&out, "tries", (int64_t)s->all.tries);
    kas_line_number(&out, "acceptance", (double)s->all.kernels / (double)s->all.tries);
    put_counts(s, &out);
    return kas_bench_line_put(&out, sink);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_row(kas_table *table, const char *name, const counts *of)
{
    kas_table_cell(table, "%s", name);
    kas_table_cell(table, "%" PRIu64, of->attempts);
    kas_table_cell(table, "%" PRIu64, of->tries);
    kas_table_cell(table, "%.1f%%", percent(of->legal, of->tries));
    kas_table_cell(table, "%.1f%%", percent(of->legal, of->attempts));
    kas_table_cell(table, "%" PRIu64, of->kernels);
    kas_table_cell(table, "%.0f",
                   of->cpu_seconds > 0 ? (double)of->kernels / of->cpu_seconds : 0.0);
}

static kas_status put_tables(subject *s, const kas_bench_sink *sink)
{
    static const kas_column columns[] = {{"change", KAS_LEFT},
                                         {"attempts", KAS_RIGHT},
                                         {"tries", KAS_RIGHT},
                                         {"legal, of tries", KAS_RIGHT},
                                         {"legal, of attempts", KAS_RIGHT},
                                         {"new kernels", KAS_RIGHT},
                                         {"kernels/s", KAS_RIGHT}};
    char title[256];
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    for (int c = 0; c < KAS_CHANGE_COUNT; c++)
        put_row(table, kas_change_name((kas_change)c), &s->by[c]);
    put_row(table, "all", &s->all);
    snprintf(title, sizeof title,
             "children: %s at %dx%d, %d to %d primitives; distinct legal children within the "
             "budget, per second of one core: %.0f (quartiles %.0f to %.0f); %" PRIu64
             " of them checked again",
             s->net, s->h, s->w, s->sample.min_primitives, s->sample.max_primitives,
             kas_samples_quantile(&s->rate, 0.5), kas_samples_quantile(&s->rate, 0.25),
             kas_samples_quantile(&s->rate, 0.75), s->rechecked);
    kas_status status = kas_bench_table_put(table, title, sink);
    kas_table_free(table);
    return status;
}

static kas_status measure(subject *s, const kas_bench_sink *sink)
{
    kas_device *cpu;
    KAS_TRY(kas_device_open("cpu", 1, &cpu)); /* only for its name */
    const kas_device_info info = *kas_device_get_info(cpu);
    kas_device_close(cpu);
    for (int i = 0; i < s->repeats; i++)
        KAS_TRY(repeat(s, i));
    add_up(s);
    return sink->json ? put_json(s, &info, sink) : put_tables(s, sink);
}

static kas_status run_suite(const kas_bench_options *o, const kas_bench_sink *sink)
{
    subject s = {.o = o, .repeats = o->repeats ? o->repeats : REPEATS, .sample = o->sample};
    kas_net *net = NULL;
    kas_target *target = NULL;
    kas_status status = KAS_OK;
    s.sample.budget = kas_bench_budget(o);
    KAS_TRY_GOTO(kas_bench_net(o, o->net ? o->net : "resnet18", SIDE, &net), out);
    KAS_TRY_GOTO(kas_net_targets(net, o->filter, &target, &s.targets), out);
    s.c = net->layer[0].c;
    s.h = net->layer[0].h;
    s.w = net->layer[0].w;
    s.net = net->name;
    s.target = target;
    status = measure(&s, sink);
out:
    kas_samples_free(&s.rate);
    free(target);
    kas_net_free(net);
    return status;
}

/* Estimates the time: that of the attempts, and half as much again for checking. */
static double seconds(const kas_bench_options *o)
{
    return 1.5 * (o->seconds > 0 ? o->seconds : default_seconds);
}

const kas_bench_suite kas_bench_suite_children = {
    "children", "legal children of kernels that one core makes in a second", run_suite, seconds};
