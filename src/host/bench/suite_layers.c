/* How near does every layer come to the limits of the machine?
 *
 * It measures each distinct convolution of a network by the library and, in its place, each kernel
 * of a folder that fits there, in inference and training, and compares them with their floor
 * (predict/machine.h): every tensor moved once in a pass, every multiply-add done once. A kernel
 * and the convolution that it replaces are timed in turns, and the ratio is that of adjacent runs.
 * The default network is ResNet-34, whose layers are those of NAS-PTE's and Canvas' figures.
 *
 * The time of a kernel is that of its program, without the average pool that takes a stride. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/bench/bench.h"
#include "host/bench/programs.h"
#include "host/bench/step_floor.h"
#include "host/bench/step_model.h"
#include "host/core/log.h"
#include "host/core/machine.h"
#include "host/net/targets.h"
#include "host/predict/keep.h"
#include "jit/tuned.h"

enum { REPEATS = 5, CPU_BATCH = 4, GPU_BATCH = 64, SIDE = 224, PHASES = 2 };
static const double good_share = 0.6; /* share of the floor below which a layer is listed */
static const kas_tape_mode modes[PHASES] = {KAS_TAPE_INFER, KAS_TAPE_TRAIN};
static const char *const phase_names[PHASES] = {"inference", "training"};

/* A convolution of the network, which stands for all of its shape. */
typedef struct shape {
    int layer;  /* of the network */
    int target; /* in `target`, -1 = none: the stem */
} shape;

typedef struct subject {
    const kas_bench_options *o;
    const kas_bench_sink *sink;
    kas_device *device;
    kas_machine machine;
    int batch, repeats;
    char tuned[4096];   /* folder, with o->tuned */
    int tuned_launches; /* of all programs */
    kas_net *net;
    kas_target *target;
    int targets;
    shape *shape;
    int shapes;
    kas_table *table;
    /* Lines for people: layers below good_share; layers that are faster than their floor, and
     * why */
    kas_buf low, beyond;
} subject;

/* One line of the result. */
typedef struct figure {
    const shape *shape;
    const char *kernel; /* NULL: the convolution */
    int phase, tuned_launches;
    double floor_bytes, floor_flops;
    kas_samples seconds, ratio; /* ratio to the convolution's time; empty for the convolution
                                   itself */
} figure;

/* ---- shapes and figures ---------------------------------------------------------------------- */

static bool same_shape(const kas_net *net, int a, int b)
{
    const kas_layer *x = &net->layer[a], *y = &net->layer[b];
    const kas_layer *from_x = &net->layer[x->in[0]], *from_y = &net->layer[y->in[0]];
    return x->h == y->h && x->w == y->w && x->c == y->c && from_x->c == from_y->c &&
           from_x->h == from_y->h && from_x->w == from_y->w && x->kernel_h == y->kernel_h &&
           x->kernel_w == y->kernel_w && x->stride == y->stride && x->groups == y->groups;
}

static kas_status find_shapes(subject *s)
{
    s->shape = calloc((size_t)s->net->layers, sizeof *s->shape);
    if (!s->shape)
        return kas_fail(KAS_NO_MEMORY, "no memory for the layers of %s", s->net->name);
    for (int i = 0; i < s->net->layers; i++) {
        int known = 0;
        if (s->net->layer[i].op != KAS_LAYER_CONV)
            continue;
        while (known < s->shapes && !same_shape(s->net, s->shape[known].layer, i))
            known++;
        if (known == s->shapes)
            s->shape[s->shapes++] = (shape){i, kas_target_at(s->target, s->targets, i)};
    }
    return KAS_OK;
}

/* Computes bytes and multiply-adds of a pass over a whole batch. Inference reads x and the weights
 * and writes y. Training also reads dy, x and the weights, and writes dx and, always in float32,
 * the weights' gradient. */
static void set_floor(const subject *s, double flops, double params, figure *f)
{
    const kas_layer *l = &s->net->layer[f->shape->layer], *in = &s->net->layer[l->in[0]];
    const bool pooled = f->kernel && l->stride > 1; /* the pool makes x smaller */
    const double x = (double)s->batch * in->c * (pooled ? l->h * l->w : in->h * in->w),
                 y = (double)s->batch * l->c * l->h * l->w;
    const bool training = modes[f->phase] == KAS_TAPE_TRAIN;
    const double size = (double)kas_dtype_size(kas_precision_dtype(s->o->precision));
    f->floor_bytes = training ? size * (3 * x + 2 * y + 2 * params) + sizeof(float) * params
                              : size * (x + y + params);
    f->floor_flops = flops * s->batch * (training ? 3 : 1);
}

/* ---- results --------------------------------------------------------------------------------- */

static void describe(const subject *s, const shape *shape, char out[96])
{
    const kas_layer *l = &s->net->layer[shape->layer], *in = &s->net->layer[l->in[0]];
    char stride[16] = "";
    if (l->stride > 1)
        snprintf(stride, sizeof stride, " / %d", l->stride);
    snprintf(out, 96, "%d -> %d, %dx%d, %dx%d%s", in->c, l->c, l->h, l->w, l->kernel_h, l->kernel_w,
             stride);
}

static const char *reason_beyond(const subject *s, figure *f)
{
    return kas_bench_beyond_floor(&s->machine, s->o->precision, f->floor_bytes, f->floor_flops,
                                  kas_samples_quantile(&f->seconds, 0.5));
}

static kas_status put_json(subject *s, figure *f, const char *layer, double share)
{
    kas_buf out = {0};
    kas_bench_line_begin(&out, "layers", kas_device_get_info(s->device));
    kas_line_text(&out, "net", s->net->name);
    kas_line_text(&out, "layer", s->net->layer[f->shape->layer].name);
    kas_line_text(&out, "shape", layer);
    kas_line_text(&out, "kernel", f->kernel);
    kas_line_text(&out, "phase", phase_names[f->phase]);
    kas_line_text(&out, "precision", kas_precision_names[s->o->precision]);
    kas_line_int(&out, "batch", s->batch);
    kas_line_int(&out, "repeats", f->seconds.count);
    kas_line_int(&out, "tuned_launches", f->tuned_launches);
    kas_bench_line_spread(&out, "seconds", &f->seconds);
    kas_line_number(&out, "floor_bytes", f->floor_bytes);
    kas_line_number(&out, "floor_flops", f->floor_flops);
    kas_line_number(&out, "bytes_per_second", s->machine.memory_bandwidth);
    kas_line_number(&out, "flops_per_second", s->machine.rate[s->o->precision]);
    kas_line_number(
        &out, "floor_seconds",
        kas_machine_floor(&s->machine, s->o->precision, f->floor_bytes, f->floor_flops));
    kas_line_number(&out, "share_of_floor", share);
    kas_line_bool(&out, "below_60_percent", share < good_share);
    kas_line_text(&out, "beyond_floor", reason_beyond(s, f));
    if (f->kernel)
        kas_bench_line_spread(&out, "ratio_to_convolution", &f->ratio);
    return kas_bench_line_put(&out, s->sink);
}

static kas_status put(subject *s, figure *f)
{
    char layer[96], time[32], floor[32];
    const double median = kas_samples_quantile(&f->seconds, 0.5),
                 least = kas_machine_floor(&s->machine, s->o->precision, f->floor_bytes,
                                           f->floor_flops),
                 share = least / median;
    describe(s, f->shape, layer);
    if (share < good_share)
        kas_buf_printf(&s->low, "  %3.0f%%  %s, %s, %s\n", 100 * share, layer,
                       f->kernel ? f->kernel : "convolution", phase_names[f->phase]);
    if (share > 1)
        kas_buf_printf(&s->beyond, "  %3.0f%%  %s, %s, %s: %s\n", 100 * share, layer,
                       f->kernel ? f->kernel : "convolution", phase_names[f->phase],
                       reason_beyond(s, f));
    if (s->sink->json)
        return put_json(s, f, layer, share);
    kas_table_cell(s->table, "%s", layer);
    kas_table_cell(s->table, "%s", f->kernel ? f->kernel : "convolution");
    kas_table_cell(s->table, "%s", phase_names[f->phase]);
    kas_table_cell(s->table, "%s", kas_human_seconds(median, time));
    kas_table_cell(s->table, "%s", kas_human_seconds(least, floor));
    kas_table_cell(s->table, "%.0f%%", 100 * share);
    if (f->kernel)
        kas_table_cell(s->table, "%.2f", kas_samples_quantile(&f->ratio, 0.5));
    else
        kas_table_cell(s->table, "%s", "");
    return KAS_OK;
}

/* ---- the convolutions ------------------------------------------------------------------------ */

static kas_status measure_convolution(subject *s, const shape *shape, int phase)
{
    figure f = {.shape = shape, .phase = phase};
    kas_bench_convs *conv;
    KAS_TRY(kas_bench_convs_create(s->device, s->net, shape->layer, s->batch, modes[phase],
                                   s->o->precision, &conv));
    kas_status status = KAS_OK;
    for (int run = -1; run < s->repeats && status == KAS_OK; run++) {
        double seconds;
        status = kas_bench_convs_run(conv, &seconds);
        if (status == KAS_OK && run >= 0)
            status = kas_samples_add(&f.seconds, seconds);
    }
    set_floor(s, kas_layer_flops(s->net, shape->layer), kas_layer_params(s->net, shape->layer), &f);
    if (status == KAS_OK)
        status = put(s, &f);
    kas_samples_free(&f.seconds);
    kas_bench_convs_free(conv);
    return status;
}

/* ---- the kernels ----------------------------------------------------------------------------- */

/* A kernel in the place of every shape that it fits; program PHASES * i + p is phase p of the i-th
 * of them. */
typedef struct placed {
    kas_replacement kernel;
    const char *name;
    const shape **shape; /* [count] */
    int count;
    kas_program **program; /* [PHASES * count] */
    kas_bench_programs *ready;
} placed;

static kas_status build(subject *s, placed *p)
{
    p->shape = calloc((size_t)s->shapes, sizeof *p->shape);
    p->program = calloc((size_t)s->shapes * PHASES, sizeof(kas_program *));
    if (!p->shape || !p->program)
        return kas_fail(KAS_NO_MEMORY, "no memory for the programs of %s", p->name);
    for (int i = 0; i < s->shapes; i++) {
        const int t = s->shape[i].target;
        if (t < 0 || !kas_replacement_kernel(&p->kernel, t))
            continue;
        p->shape[p->count++] = &s->shape[i];
        for (int phase = 0; phase < PHASES; phase++) {
            char prefix[32];
            const int number = PHASES * (p->count - 1) + phase;
            const kas_linear_policy policy =
                kas_linear_policy_of(kas_device_get_info(s->device)->arch);
            snprintf(prefix, sizeof prefix, "k%d", number);
            const kas_program_options options = {.batch = s->batch,
                                                 .training = modes[phase] == KAS_TAPE_TRAIN,
                                                 .dtype = kas_precision_dtype(s->o->precision),
                                                 .tf32 = s->o->precision == KAS_PRECISION_TF32,
                                                 .linear_policy = policy,
                                                 .lanes = kas_cpu_lanes(),
                                                 .piece_bytes =
                                                     kas_piece_bytes(policy, kas_cores()),
                                                 .prefix = prefix,
                                                 .tuned = s->o->tuned ? s->tuned : NULL};
            KAS_TRY(kas_program_build(kas_replacement_kernel(&p->kernel, t), &s->target[t],
                                      &p->kernel.solution.binding[t], &options,
                                      &p->program[number]));
            s->tuned_launches += p->program[number]->tuned;
        }
    }
    return KAS_OK;
}

static void release(placed *p)
{
    kas_bench_programs_free(p->ready);
    for (int i = 0; p->program && i < PHASES * p->count; i++)
        kas_program_free(p->program[i]);
    free(p->program);
    free(p->shape);
    kas_replacement_free(&p->kernel);
}

static kas_status take_turns(subject *s, placed *p, int number, kas_bench_convs *conv, figure *f)
{
    for (int run = -1; run < s->repeats; run++) {
        double original, seconds;
        KAS_TRY(kas_bench_convs_run(conv, &original));
        KAS_TRY(kas_bench_programs_run(p->ready, number, &seconds));
        if (run < 0)
            continue;
        KAS_TRY(kas_samples_add(&f->seconds, seconds));
        KAS_TRY(kas_samples_add(&f->ratio, seconds / original));
    }
    return KAS_OK;
}

static kas_status measure_kernel(subject *s, placed *p, int i, int phase)
{
    const shape *shape = p->shape[i];
    figure f = {.shape = shape,
                .kernel = p->name,
                .phase = phase,
                .tuned_launches = p->program[PHASES * i + phase]->tuned};
    kas_bench_convs *conv = NULL;
    kas_cost cost;
    kas_status status = KAS_OK;
    const int t = shape->target;
    const kas_kernel *kernel = kas_replacement_kernel(&p->kernel, t);
    KAS_TRY_GOTO(kas_bench_convs_create(s->device, s->net, shape->layer, s->batch, modes[phase],
                                        s->o->precision, &conv),
                 out);
    KAS_TRY_GOTO(take_turns(s, p, PHASES * i + phase, conv, &f), out);
    KAS_TRY_GOTO(kas_layer_cost(kernel, &s->target[t], &p->kernel.solution.binding[t], &cost), out);
    set_floor(s, cost.flops - kas_target_fixed_flops(&s->target[t], kernel->stride_inside),
              cost.params, &f);
    status = put(s, &f);
out:
    kas_bench_convs_free(conv);
    kas_samples_free(&f.seconds);
    kas_samples_free(&f.ratio);
    return status;
}

static kas_status place(subject *s, placed *p, const char *path)
{
    kas_assignment file;
    KAS_TRY(kas_assignment_read_file(path, &file));
    kas_status status = kas_keep_where_none_fits(s->target, s->targets, &s->o->budget, &file);
    if (status == KAS_OK)
        status = kas_assignment_fit(&file, s->target, s->targets, &s->o->budget, &p->kernel);
    kas_assignment_free(&file);
    KAS_TRY(status);
    KAS_TRY(build(s, p));
    return kas_bench_programs_create(s->device, p->program, PHASES * p->count, s->o->cache_dir,
                                     &p->ready);
}

/* Runs a kernel. One that does not fit the network is left out with a message. */
static kas_status run_kernel(void *context, const char *path)
{
    subject *s = context;
    placed p = {.name = basename(path)};
    kas_status status = place(s, &p, path);
    if (status == KAS_OK && !s->sink->json)
        kas_info("layers: %s", p.name);
    if (status == KAS_ILLEGAL || status == KAS_OVER_BUDGET || status == KAS_UNSUPPORTED) {
        kas_warn("%s is left out: %s", path, kas_error());
        release(&p);
        return KAS_OK;
    }
    for (int i = 0; i < p.count && status == KAS_OK; i++)
        for (int phase = 0; phase < PHASES && status == KAS_OK; phase++)
            status = measure_kernel(s, &p, i, phase);
    release(&p);
    return status;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static kas_status measure_all(subject *s)
{
    static const char folder[] = "kernels";
    struct stat found;
    for (int i = 0; i < s->shapes; i++)
        for (int phase = 0; phase < PHASES; phase++)
            KAS_TRY(measure_convolution(s, &s->shape[i], phase));
    if (s->o->kernel)
        return kas_bench_kernel_files(s->o->kernel, run_kernel, s);
    if (stat(folder, &found) == 0)
        return kas_bench_kernel_files(folder, run_kernel, s);
    kas_warn("layers: there is no folder \"%s\", so only the convolutions were measured "
             "(--kernel FILE or FOLDER)",
             folder);
    return KAS_OK;
}

static kas_status run_subject(subject *s)
{
    const kas_bench_options *o = s->o;
    const kas_device_info *info = kas_device_get_info(s->device);
    s->batch = o->batch ? o->batch : info->kind == KAS_DEVICE_CPU ? CPU_BATCH : GPU_BATCH;
    s->repeats = o->repeats ? o->repeats : REPEATS;
    KAS_TRY(kas_tuned_folder(info, s->tuned));
    KAS_TRY(kas_bench_net(o, o->net ? o->net : "resnet34", SIDE, &s->net));
    KAS_TRY(kas_net_targets(s->net, o->filter, &s->target, &s->targets));
    KAS_TRY(find_shapes(s));
    KAS_TRY(kas_machine_measure(s->device, o->precision, o->machine, &s->machine));
    return measure_all(s);
}

static kas_status put_table(subject *s)
{
    char title[256], tuned[64] = "";
    if (s->o->tuned)
        snprintf(tuned, sizeof tuned, ", %d launches with tuned schedules", s->tuned_launches);
    snprintf(
        title, sizeof title,
        "layers: %s at batch %d in %s%s; floor: %.1f GB/s, %.1f GFLOP/s (a multiply-add is one), "
        "measured in this run",
        s->net->name, s->batch, kas_precision_names[s->o->precision], tuned,
        s->machine.memory_bandwidth / 1e9, s->machine.rate[s->o->precision] / 1e9);
    KAS_TRY(kas_bench_table_put(s->table, title, s->sink));
    if (s->sink->json)
        return KAS_OK;
    kas_buf text = {0};
    if (s->low.size)
        kas_buf_printf(&text, "below %.0f%% of the floor:\n%s\n", 100 * good_share,
                       kas_buf_text(&s->low));
    if (s->beyond.size)
        kas_buf_printf(&text, "faster than the floor, because of:\n%s\n", kas_buf_text(&s->beyond));
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK && text.size)
        s->sink->put(s->sink->context, kas_buf_text(&text));
    kas_buf_free(&text);
    return status;
}

static kas_status run(const kas_bench_options *o, const kas_bench_sink *sink)
{
    static const kas_column columns[] = {{"layer", KAS_LEFT},          {"kernel", KAS_LEFT},
                                         {"phase", KAS_LEFT},          {"median", KAS_RIGHT},
                                         {"floor", KAS_RIGHT},         {"of floor", KAS_RIGHT},
                                         {"to convolution", KAS_RIGHT}};
    subject s = {.o = o, .sink = sink};
    KAS_TRY(kas_device_open(o->device ? o->device : "auto", o->threads, &s.device));
    s.table = sink->json ? NULL : kas_table_create(columns, sizeof columns / sizeof *columns);
    kas_status status = run_subject(&s);
    if (status == KAS_OK)
        status = put_table(&s);
    kas_table_free(s.table);
    kas_buf_free(&s.low);
    kas_buf_free(&s.beyond);
    free(s.shape);
    free(s.target);
    kas_net_free(s.net);
    kas_device_close(s.device);
    return status;
}

static const double layers_kernel = 12.0;
static const double layers_image = 0.4;

/* Estimates the time for compiling and for both phases of each kernel and of the convolutions. */
static double seconds(const kas_bench_options *o)
{
    const double runs = 1 + (o->repeats ? o->repeats : REPEATS);
    const double kernels = o->kernel ? 2 : 18; /* the kernels of kernels/, and none */
    return kernels * (layers_kernel + layers_image * (o->batch ? o->batch : CPU_BATCH) * runs);
}

const kas_bench_suite kas_bench_suite_layers = {
    "layers", "each layer shape, and known kernels in its place, beside the floor", run, seconds};
