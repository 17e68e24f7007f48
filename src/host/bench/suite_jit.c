/* What does it cost to turn a candidate into code?
 *
 * Stage by stage for candidates as a search draws them: sampling and solving; building the programs
 * of every target shape (lower, differentiate, fuse, schedule, emit); the host compiler and NVRTC,
 * with an empty cache, on what a search compiles for a candidate, kernels of inference and of
 * training; and the same again, when the cache has them.  It reports CPU seconds of the thread or
 * of the compiler, because compilation runs beside training, and also the wall time with
 * `--threads` threads. A missing compiler is left out with a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/bench/bench.h"
#include "host/core/clock.h"
#include "host/core/machine.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/model/model.h"
#include "host/net/targets.h"
#include "host/space/sample/sampler.h"

enum { CANDIDATES = 8, BATCH = 64, INFERENCE_BATCH = 32, PASSES = 2, COMPILERS = 2 };
enum {
    SAMPLE,
    BUILD,
    COLD,
    WALL = COLD + COMPILERS,
    WARM = WALL + COMPILERS,
    STAGES = WARM + COMPILERS
};
static const char *const archs[COMPILERS] = {"cpu", "sm_90"};
static const char *const stage_names[STAGES] = {"sample",     "build",     "host_cold",
                                                "nvrtc_cold", "host_cold", "nvrtc_cold",
                                                "host_warm",  "nvrtc_warm"};

typedef struct subject {
    const kas_bench_options *o;
    const kas_bench_sink *sink;
    kas_net *net;
    kas_target *target;
    int targets, candidates, batch, threads;
    kas_compiler *compiler[COMPILERS]; /* NULL: missing */
    char folder[64];                   /* an empty cache */
    kas_samples seconds[STAGES];
    kas_samples kernels, text_bytes, units[COMPILERS];
} subject;

/* ---- one candidate --------------------------------------------------------------------------- */

static kas_status compile_once(const subject *s, int c, kas_programs programs[PASSES],
                               kas_compile_stats *sum, int *units)
{
    *sum = (kas_compile_stats){.cached = true};
    *units = 0;
    for (int i = 0; i < PASSES; i++) {
        kas_compile_stats stats;
        char(*path)[4096];
        int count;
        KAS_TRY(
            kas_programs_compile(&programs[i], s->compiler[c], s->threads, &path, &count, &stats));
        free(path);
        *units += count;
        sum->cached &= stats.cached;
        sum->seconds += stats.seconds;
        sum->cpu_seconds += stats.cpu_seconds;
    }
    return KAS_OK;
}

static kas_status compile(subject *s, int c, kas_programs programs[PASSES])
{
    kas_compile_stats cold, warm;
    int units;
    if (!s->compiler[c])
        return KAS_OK;
    KAS_TRY(compile_once(s, c, programs, &cold, &units));
    KAS_TRY(compile_once(s, c, programs, &warm, &units));
    if (!warm.cached)
        return kas_fail(KAS_FAILURE, "%s: the cache does not hold what was compiled", s->folder);
    KAS_TRY(kas_samples_add(&s->seconds[COLD + c], cold.cpu_seconds));
    KAS_TRY(kas_samples_add(&s->seconds[WALL + c], cold.seconds));
    KAS_TRY(kas_samples_add(&s->units[c], units));
    return kas_samples_add(&s->seconds[WARM + c], warm.seconds);
}

static int count_kernels(const kas_programs *r)
{
    int kernels = 0;
    for (int p = 0; p < r->count; p++) {
        const kas_program *program = r->program[p];
        for (int i = 0; i < program->forwards; i++)
            kernels += program->forward[i].kind == KAS_OPERATION_LAUNCH;
        for (int i = 0; i < program->backwards; i++)
            kernels += program->backward[i].kind == KAS_OPERATION_LAUNCH;
    }
    return kernels;
}

static double text_bytes(const kas_programs *r)
{
    size_t bytes = 0;
    for (int p = 0; p < r->count; p++)
        bytes += strlen(r->program[p]->source);
    return (double)bytes;
}

/* Builds the programs of both passes for a compiler's device. */
static kas_status build_for(const subject *s, int c, const kas_sample *sample,
                            kas_programs programs[PASSES])
{
    for (int i = 0; i < PASSES; i++)
        KAS_TRY(
            kas_model_build_programs(&(kas_model_options){.batch = i ? s->batch : INFERENCE_BATCH,
                                                          .training = i,
                                                          .precision = s->o->precision},
                                     &sample->replacement, c ? "cuda" : "cpu", &programs[i]));
    return KAS_OK;
}

static void free_programs(kas_programs programs[PASSES])
{
    for (int i = 0; i < PASSES; i++)
        kas_programs_free(&programs[i]);
}

/* Builds a GPU's programs and adds their cost. */
static kas_status build(subject *s, const kas_sample *sample, kas_programs programs[PASSES])
{
    double bytes = 0;
    int kernels = 0;
    const double start = kas_thread_seconds();
    KAS_TRY(build_for(s, 1, sample, programs));
    const double taken = kas_thread_seconds() - start;
    for (int i = 0; i < PASSES; i++) {
        kernels += count_kernels(&programs[i]);
        bytes += text_bytes(&programs[i]);
    }
    KAS_TRY(kas_samples_add(&s->seconds[BUILD], taken));
    KAS_TRY(kas_samples_add(&s->kernels, kernels));
    return kas_samples_add(&s->text_bytes, bytes);
}

static kas_status build_and_compile(subject *s, const kas_sample *sample)
{
    kas_programs programs[PASSES] = {{0}};
    kas_status status = build(s, sample, programs);
    if (status == KAS_OK)
        status = compile(s, 1, programs);
    free_programs(programs);
    if (status == KAS_OK)
        status = build_for(s, 0, sample, programs);
    if (status == KAS_OK)
        status = compile(s, 0, programs);
    free_programs(programs);
    return status;
}

static kas_status one_candidate(subject *s, kas_sampler *sampler)
{
    kas_sample sample;
    const double start = kas_thread_seconds();
    KAS_TRY(kas_sampler_next(sampler, 0, &sample));
    kas_status status = kas_samples_add(&s->seconds[SAMPLE], kas_thread_seconds() - start);
    if (status == KAS_OK)
        status = build_and_compile(s, &sample);
    kas_sample_free(&sample);
    return status;
}

static kas_status all_candidates(subject *s)
{
    kas_sample_options options = kas_sample_defaults();
    kas_sampler *sampler;
    options.seed = s->o->seed;
    options.budget = s->o->budget;
    KAS_TRY(kas_sampler_create(&options, s->target, s->targets, &sampler));
    kas_status status = KAS_OK;
    for (int i = 0; i < s->candidates && status == KAS_OK; i++)
        status = one_candidate(s, sampler);
    kas_sampler_free(sampler);
    return status;
}

/* ---- results --------------------------------------------------------------------------------- */

static kas_status put_json(subject *s)
{
    kas_buf out = {0};
    char field[64];
    const kas_device_info info = {.name = "host", .arch = "cpu", .threads = s->threads};
    kas_bench_line_begin(&out, "jit", &info);
    kas_line_text(&out, "net", s->net->name);
    kas_line_int(&out, "targets", s->targets);
    kas_line_int(&out, "batch", s->batch);
    kas_line_text(&out, "precision", kas_precision_names[s->o->precision]);
    kas_line_int(&out, "candidates", s->candidates);
    kas_line_uint(&out, "seed", s->o->seed);
    kas_bench_line_spread(&out, "kernels", &s->kernels);
    kas_bench_line_spread(&out, "text_bytes", &s->text_bytes);
    for (int i = 0; i < STAGES; i++) {
        if (s->seconds[i].count == 0)
            continue;
        snprintf(field, sizeof field, "%s_%s", stage_names[i],
                 i < WALL ? "cpu_seconds" : "seconds");
        kas_bench_line_spread(&out, field, &s->seconds[i]);
    }
    for (int c = 0; c < COMPILERS; c++) {
        snprintf(field, sizeof field, "%s_pieces", c ? "nvrtc" : "host");
        if (s->compiler[c])
            kas_bench_line_spread(&out, field, &s->units[c]);
    }
    for (int c = 0; c < COMPILERS; c++)
        kas_line_text(&out, c ? "nvrtc" : "host_compiler",
                      s->compiler[c] ? kas_compiler_describe(s->compiler[c]) : NULL);
    return kas_bench_line_put(&out, s->sink);
}

static void put_rows(subject *s, kas_table *table)
{
    const double kernels = kas_samples_quantile(&s->kernels, 0.5);
    for (int i = 0; i < STAGES; i++) {
        char median[32], low[32], high[32], each[32];
        if (s->seconds[i].count == 0)
            continue;
        const double seconds = kas_samples_quantile(&s->seconds[i], 0.5);
        kas_table_cell(table, "%s", s->net->name);
        kas_table_cell(table, "%s", stage_names[i]);
        kas_table_cell(table, "%s", i < WALL ? "CPU" : "wall");
        kas_table_cell(table, "%s", kas_human_seconds(seconds, median));
        kas_table_cell(table, "%s - %s",
                       kas_human_seconds(kas_samples_quantile(&s->seconds[i], 0.25), low),
                       kas_human_seconds(kas_samples_quantile(&s->seconds[i], 0.75), high));
        kas_table_cell(table, "%s", kas_human_seconds(seconds / kernels, each));
        kas_table_cell(table, "%.0f", kernels);
    }
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static kas_status open_compilers(subject *s)
{
    snprintf(s->folder, sizeof s->folder, "/tmp/kas-bench-jit-XXXXXX");
    KAS_CHECK_LIBC(mkdtemp(s->folder), KAS_FAILURE);
    for (int c = 0; c < COMPILERS; c++) {
        kas_status status = kas_compiler_open(archs[c], s->folder, &s->compiler[c]);
        if (status == KAS_UNSUPPORTED) {
            kas_warn("jit: %s is left out: %s", archs[c], kas_error());
            continue;
        }
        KAS_TRY(status);
    }
    return KAS_OK;
}

static kas_status prepare(subject *s, const char *name)
{
    const kas_bench_options *o = s->o;
    KAS_TRY(kas_bench_net(s->o, name, 32, &s->net));
    KAS_TRY(kas_net_targets(s->net, o->filter, &s->target, &s->targets));
    return open_compilers(s);
}

static kas_status run_net(const kas_bench_options *o, const char *name, const kas_bench_sink *sink,
                          kas_table *table)
{
    subject s = {.o = o,
                 .sink = sink,
                 .candidates = o->repeats ? o->repeats : CANDIDATES,
                 .batch = o->batch ? o->batch : BATCH,
                 .threads = o->threads ? o->threads : kas_cores()};
    kas_status status = prepare(&s, name);
    if (status == KAS_OK)
        status = all_candidates(&s);
    if (status == KAS_OK && sink->json)
        status = put_json(&s);
    else if (status == KAS_OK)
        put_rows(&s, table);
    for (int c = 0; c < COMPILERS; c++)
        kas_compiler_close(s.compiler[c]);
    if (s.folder[0] && kas_remove_tree(s.folder) != KAS_OK)
        kas_warn("%s", kas_error());
    for (int i = 0; i < STAGES; i++)
        kas_samples_free(&s.seconds[i]);
    for (int c = 0; c < COMPILERS; c++)
        kas_samples_free(&s.units[c]);
    kas_samples_free(&s.kernels);
    kas_samples_free(&s.text_bytes);
    free(s.target);
    kas_net_free(s.net);
    return status;
}

static kas_status run(const kas_bench_options *o, const kas_bench_sink *sink)
{
    static const kas_column columns[] = {{"network", KAS_LEFT},   {"stage", KAS_LEFT},
                                         {"time", KAS_LEFT},      {"a candidate", KAS_RIGHT},
                                         {"quartiles", KAS_LEFT}, {"a kernel", KAS_RIGHT},
                                         {"kernels", KAS_RIGHT}};
    static const char *const usual[] = {"resnet20", "resnet18"};
    kas_table *table =
        sink->json ? NULL : kas_table_create(columns, sizeof columns / sizeof *columns);
    kas_status status = KAS_OK;
    if (o->net)
        status = run_net(o, o->net, sink, table);
    for (int i = 0; !o->net && status == KAS_OK && i < 2; i++)
        status = run_net(o, usual[i], sink, table);
    if (status == KAS_OK)
        status = kas_bench_table_put(
            table, "jit: a candidate's kernels at all targets, of inference and of training", sink);
    kas_table_free(table);
    return status;
}

static const double jit_candidate = 12.0;

/* Estimates the time: the host's compiler runs twice for each candidate, and NVRTC if it
 * is there. */
static double seconds(const kas_bench_options *o)
{
    return jit_candidate * (o->net ? 1 : 2) * (o->repeats ? o->repeats : CANDIDATES);
}

const kas_bench_suite kas_bench_suite_jit = {
    "jit", "what a candidate costs to sample, lower and compile, by stage", run, seconds};
