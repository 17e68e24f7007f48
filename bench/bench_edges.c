/* What does an inference gain when kernels do the batch norm, sum and activation behind them
 * (src/jit/lower/epilogue.h), and what do the kernels for it cost the compiler?
 *
 *     build/bench/bench_edges [--net NAME] [--batch N] [--threads N] [--rounds N] [--device D]
 *                             [--sampled N | KERNEL.json ...]
 *
 * One JSON object a line for each kernel file in the network (default: resnet20, and the files
 * below): seconds of an inference with and without, run by turns, medians and quartiles of each and
 * of the ratio of neighbours, and that ratio for the processor time of the process, which others on
 * the machine disturb less (one thread; it says nothing of a GPU); the bytes of both plans; the CPU
 * seconds of compiling both.  With
 * --sampled, of each sampled kernel how many of the layers behind which a batch norm stands have
 * their output written by a kernel of ours, and the same compile times.  KAS_CACHE_DIR decides
 * where compiled kernels lie; compile times are of a folder of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "turns.h"
#include "host/core/status.h"
#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"
#include "host/space/sample/sampler.h"
#include "host/model/model.h"
#include "support/passes.h"

enum { WITHOUT, WITH, WAYS };
static const char with_epilogue[] = "kernel forward with norm"; /* a pass (model/planned_bytes.h) */

typedef struct options {
    const char *net, *device;
    int batch, threads, rounds, sampled;
} options;

/* The same targets with and without what stands behind them. */
typedef struct subject {
    const options *o;
    kas_net *net;
    kas_target *target[WAYS];
    int targets;
    kas_device *device;
    kas_timer *timer;
} subject;

typedef struct way {
    kas_programs programs;
    kas_model *model;
    kas_plan *plan;
    kas_planned_bytes planned;
    double compile;
} way;

/* What takes turns. */
typedef struct pair {
    subject *s;
    way way[WAYS];
} pair;

/* ---- compiling ------------------------------------------------------------------------------- */

static kas_status compile(const char *arch, kas_programs *programs, double *cpu_seconds)
{
    char folder[] = "/tmp/kas-bench-edges-XXXXXX", command[64];
    kas_compiler *compiler = NULL;
    kas_compile_stats stats = {0};
    KAS_CHECK_LIBC(mkdtemp(folder), KAS_FAILURE);
    kas_status status = kas_compiler_open(arch, folder, &compiler);
    if (status == KAS_OK)
        status = kas_programs_compile(programs, compiler, 1, NULL, NULL, &stats);
    kas_compiler_close(compiler);
    *cpu_seconds = stats.cpu_seconds;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? status : kas_fail(KAS_FAILURE, "%s failed", command);
}

/* ---- one kernel file ------------------------------------------------------------------------- */

static kas_status prepare(subject *s, const kas_replacement *replacement, way *w)
{
    const char *arch = kas_device_get_info(s->device)->arch;
    const kas_model_options model = {.net = s->net, .programs = &w->programs, .batch = s->o->batch};
    const kas_step_options step = {.mode = KAS_TAPE_INFER};
    KAS_TRY(kas_model_build_programs(&model, replacement, arch, &w->programs));
    KAS_TRY(compile(arch, &w->programs, &w->compile));
    KAS_TRY(kas_model_create(s->device, &model, &w->model));
    KAS_TRY(kas_model_init(w->model, 1));
    KAS_TRY(kas_planned_bytes_count(w->model, KAS_TAPE_INFER, &w->planned));
    KAS_TRY(kas_model_record(w->model, &step, &w->plan));
    KAS_TRY(kas_model_draw_images(w->model));
    KAS_TRY(kas_plan_run(w->plan));
    return kas_device_sync(s->device);
}

static kas_status run(void *context, int k, double *seconds)
{
    const pair *p = context;
    KAS_TRY(kas_timer_start(p->s->timer));
    KAS_TRY(kas_plan_run(p->way[k].plan));
    return kas_timer_stop(p->s->timer, seconds);
}

static kas_status put(const subject *s, const char *path, const way *w, turns *t)
{
    static const char *const names[WAYS] = {"without", "with"};
    kas_buf out = {0};
    kas_line_begin(&out);
    kas_line_text(&out, "bench", "edges");
    kas_line_text(&out, "net", s->net->name);
    kas_line_text(&out, "kernel", path);
    kas_line_int(&out, "batch", s->o->batch);
    kas_line_int(&out, "threads", s->o->threads);
    kas_line_int(&out, "rounds", s->o->rounds);
    kas_line_int(&out, "layers", s->targets);
    kas_line_int(&out, "layers_with_edges", count_passes(&w[WITH].planned, with_epilogue));
    turns_put(&out, t, names);
    kas_line_number(&out, "bytes_without", w[WITHOUT].planned.bytes);
    kas_line_number(&out, "bytes_with", w[WITH].planned.bytes);
    kas_line_number(&out, "floor_bytes", w[WITH].planned.floor_bytes);
    kas_line_number(&out, "compile_cpu_seconds_without", w[WITHOUT].compile);
    kas_line_number(&out, "compile_cpu_seconds_with", w[WITH].compile);
    return turns_print(&out);
}

static kas_status run_file(subject *s, const char *path)
{
    const kas_budget budget = {.max_flops_ratio = 2, .max_params_ratio = 2};
    kas_kernel kernel;
    kas_replacement replacement[WAYS] = {{0}};
    pair p = {.s = s};
    way *w = p.way;
    turns t = {.ratio = {0}};
    KAS_TRY(kas_kernel_read_file(path, &kernel));
    kas_status status = KAS_OK;
    for (int k = 0; k < WAYS && status == KAS_OK; k++) {
        status = kas_replacement_solve(&kernel, 1, NULL, s->target[k], s->targets, &budget,
                                       &replacement[k]);
        if (status == KAS_OK)
            status = prepare(s, &replacement[k], &w[k]);
    }
    if (status == KAS_OK)
        status = turns_take(&t, s->o->rounds, run, &p);
    if (status == KAS_OK)
        status = put(s, path, w, &t);
    for (int k = 0; k < WAYS; k++) {
        kas_plan_free(w[k].plan);
        kas_model_free(w[k].model);
        kas_programs_free(&w[k].programs);
        kas_planned_bytes_free(&w[k].planned);
        kas_replacement_free(&replacement[k]);
    }
    turns_free(&t);
    return status;
}

/* ---- sampled kernels ------------------------------------------------------------------------- */

/* Bytes of an inference, layers that write their group's output, and what compiling takes. */
static kas_status look(subject *s, const kas_replacement *r, double *bytes, int *epilogues,
                       double *cpu_seconds)
{
    const char *arch = kas_device_get_info(s->device)->arch;
    kas_programs programs;
    const kas_model_options model = {.net = s->net, .programs = &programs, .batch = s->o->batch};
    kas_planned_bytes planned;
    KAS_TRY(kas_model_build_programs(&model, r, arch, &programs));
    kas_status status = kas_planned_bytes_plan(&model, KAS_TAPE_INFER, &planned);
    if (status == KAS_OK) {
        *bytes = planned.bytes;
        *epilogues = count_passes(&planned, with_epilogue);
        kas_planned_bytes_free(&planned);
        status = compile(arch, &programs, cpu_seconds);
    }
    kas_programs_free(&programs);
    return status;
}

static kas_status put_sample(subject *s, int number, const kas_sample *sample)
{
    double bytes[WAYS] = {0}, seconds[WAYS] = {0};
    int epilogues = 0, norms = 0;
    for (int k = 0; k < WAYS; k++) {
        kas_replacement r = sample->replacement; /* at other targets; not freed */
        r.target = s->target[k];
        KAS_TRY(look(s, &r, &bytes[k], &epilogues, &seconds[k]));
    }
    for (int t = 0; t < s->targets; t++)
        norms += s->target[WITH][t].epilogue.norm;
    printf("{\"bench\": \"edges\", \"net\": \"%s\", \"sample\": %d, \"layers\": %d, "
           "\"layers_with_edges\": %d, \"bytes_without\": %.0f, \"bytes_with\": %.0f, "
           "\"compile_cpu_seconds_without\": %.3f, \"compile_cpu_seconds_with\": %.3f}\n",
           s->net->name, number, norms, epilogues, bytes[WITHOUT], bytes[WITH], seconds[WITHOUT],
           seconds[WITH]);
    fflush(stdout);
    return KAS_OK;
}

static kas_status run_samples(subject *s)
{
    const kas_sample_options sampling = kas_sample_defaults();
    kas_sampler *sampler;
    KAS_TRY(kas_sampler_create(&sampling, s->target[WITH], s->targets, &sampler));
    kas_status status = KAS_OK;
    for (int i = 0; i < s->o->sampled && status == KAS_OK; i++) {
        kas_sample sample;
        status = kas_sampler_next(sampler, 0, &sample);
        if (status != KAS_OK)
            break;
        status = put_sample(s, i, &sample);
        kas_sample_free(&sample);
    }
    kas_sampler_free(sampler);
    return status;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static kas_status open_subject(subject *s, const options *o)
{
    *s = (subject){.o = o};
    KAS_TRY(kas_net_build(o->net, 32, 32, 3, 10, &s->net));
    for (int k = 0; k < WAYS; k++)
        KAS_TRY(kas_net_targets(s->net, NULL, &s->target[k], &s->targets));
    for (int t = 0; t < s->targets; t++)
        s->target[WITHOUT][t].epilogue = (kas_epilogue){0};
    KAS_TRY(kas_device_open(o->device, o->threads, &s->device));
    return kas_timer_create(s->device, &s->timer);
}

static void close_subject(subject *s)
{
    kas_timer_free(s->timer);
    kas_device_close(s->device);
    free(s->target[WITHOUT]);
    free(s->target[WITH]);
    kas_net_free(s->net);
}

int main(int argc, char **argv)
{
    static char *const usual[] = {"kernels/squeeze_excite.json", "kernels/canvas_figure6.json",
                                  "kernels/canvas_figure8.json", "kernels/residual.json"};
    options o = {.net = "resnet20", .device = "cpu", .batch = 32, .threads = 1, .rounds = 15};
    const bench_option options[] = {{"--batch", &o.batch, NULL},
                                    {"--threads", &o.threads, NULL},
                                    {"--rounds", &o.rounds, NULL},
                                    {"--sampled", &o.sampled, NULL},
                                    {"--net", NULL, &o.net},
                                    {"--device", NULL, &o.device},
                                    {NULL, NULL, NULL}};
    int first = argc;
    subject s = {.o = &o};
    kas_status status = bench_options_read(argc, argv, options, &first);
    const int files = argc - first;
    if (status == KAS_OK)
        status = open_subject(&s, &o);
    if (status == KAS_OK && o.sampled > 0)
        status = run_samples(&s);
    for (int i = 0; o.sampled == 0 && i < (files ? files : 4) && status == KAS_OK; i++)
        status = run_file(&s, files ? argv[first + i] : usual[i]);
    if (status != KAS_OK)
        fprintf(stderr, "bench_edges: %s\n", kas_error());
    close_subject(&s);
    return status == KAS_OK ? 0 : 1;
}
