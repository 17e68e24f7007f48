/* How near does a whole network come to the limits of the device?
 *
 * It measures the training step and the inference of every network that comes with kas-gpu, or of
 * those of --net, and compares them with the floor: the time for the bytes of a perfect fusion at
 * the measured bandwidth, or for the multiply-adds at the measured rate, whichever is longer
 * (predict/machine.h, model/planned_bytes.h). */
#include <math.h>
#include <stdio.h>

#include "host/bench/bench.h"
#include "host/bench/step_floor.h"
#include "host/bench/step_model.h"
#include "host/core/embedded.h"
#include "host/core/log.h"

enum { WARM_UP = 2, PHASES = 2, SIDE = 32 };
static const kas_tape_mode modes[PHASES] = {KAS_TAPE_TRAIN, KAS_TAPE_INFER};
static const char *const phase_names[PHASES] = {"training", "inference"};

typedef struct subject {
    const kas_bench_options *o;
    const kas_bench_sink *sink;
    kas_device *device;
    kas_machine machine;
    int batch, repeats;
    kas_table *table;
} subject;

typedef struct figure {
    const kas_net *net;
    int phase;
    size_t memory;
    kas_bench_floor floor;
    kas_samples seconds, host;
} figure;

/* ---- results --------------------------------------------------------------------------------- */

static kas_status put_json(const subject *s, figure *f)
{
    kas_buf out = {0};
    char input[48];
    const kas_layer *in = &f->net->layer[0];
    const double median = kas_samples_quantile(&f->seconds, 0.5);
    snprintf(input, sizeof input, "%dx%dx%d", in->c, in->h, in->w);
    kas_bench_line_begin(&out, "models", kas_device_get_info(s->device));
    kas_line_text(&out, "net", f->net->name);
    kas_line_text(&out, "input", input);
    kas_line_int(&out, "classes", f->net->classes);
    kas_line_int(&out, "batch", s->batch);
    kas_line_text(&out, "precision", kas_precision_names[s->o->precision]);
    kas_line_text(&out, "phase", phase_names[f->phase]);
    kas_line_int(&out, "warm_up", WARM_UP);
    kas_line_int(&out, "repeats", f->seconds.count);
    kas_bench_line_spread(&out, "seconds", &f->seconds);
    kas_line_number(&out, "images_per_second", s->batch / median);
    kas_line_number(&out, "host_seconds",
                    f->host.count ? kas_samples_quantile(&f->host, 0.5) : NAN);
    kas_line_int(&out, "memory_bytes", (int64_t)f->memory);
    kas_bench_floor_line(&out, &f->floor, &s->machine, s->o->precision, median);
    return kas_bench_line_put(&out, s->sink);
}

static kas_status put(const subject *s, figure *f)
{
    char text[4][32];
    const double median = kas_samples_quantile(&f->seconds, 0.5);
    if (s->sink->json)
        return put_json(s, f);
    kas_table_cell(s->table, "%s", f->net->name);
    kas_table_cell(s->table, "%s", phase_names[f->phase]);
    kas_table_cell(s->table, "%s", kas_human_seconds(median, text[0]));
    kas_table_cell(s->table, "%s - %s",
                   kas_human_seconds(kas_samples_quantile(&f->seconds, 0.25), text[0]),
                   kas_human_seconds(kas_samples_quantile(&f->seconds, 0.75), text[1]));
    kas_table_cell(s->table, "%s", kas_human_count(s->batch / median, text[0]));
    kas_table_cell(s->table, "%s", kas_human_seconds(f->floor.seconds, text[0]));
    kas_bench_floor_cell(s->table, &f->floor, &s->machine, s->o->precision, median);
    kas_table_cell(s->table, "%s", kas_human_bytes(f->floor.bytes, text[0]));
    kas_table_cell(s->table, "%s", kas_human_bytes(f->floor.floor_bytes, text[0]));
    kas_table_cell(
        s->table, "%s",
        kas_human_seconds(f->host.count ? kas_samples_quantile(&f->host, 0.5) : NAN, text[0]));
    return KAS_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static kas_status measure(const subject *s, kas_bench_model *m, figure *f)
{
    const kas_tape_mode mode = modes[f->phase];
    KAS_TRY(kas_bench_floor_of(kas_bench_model_of(m, mode), mode, &s->machine, s->o->precision,
                               &f->floor));
    KAS_TRY(kas_bench_model_begin(m, mode));
    for (int i = 0; i < WARM_UP + s->repeats; i++) {
        kas_bench_time time;
        KAS_TRY(kas_bench_model_run(m, mode, &time));
        if (i < WARM_UP)
            continue;
        KAS_TRY(kas_samples_add(&f->seconds, time.device));
        if (isfinite(time.host))
            KAS_TRY(kas_samples_add(&f->host, time.host));
    }
    return kas_bench_model_check(m, mode);
}

static kas_status run_phase(const subject *s, const kas_net *net, kas_bench_model *m, int phase)
{
    figure f = {.net = net,
                .phase = phase,
                .memory = kas_model_memory(kas_bench_model_of(m, modes[phase]))};
    kas_status status = measure(s, m, &f);
    if (status == KAS_OK)
        status = put(s, &f);
    kas_samples_free(&f.seconds);
    kas_samples_free(&f.host);
    return status;
}

static kas_status run_phases(const subject *s, const kas_net *net)
{
    kas_bench_model model;
    kas_dataset *images;
    KAS_TRY(kas_bench_images(net, KAS_BENCH_BATCHES * s->batch, &images));
    kas_status status = kas_bench_model_create(s->device, net, NULL, images, s->batch,
                                               s->o->precision, s->o->cache_dir, &model);
    if (status == KAS_OK) {
        for (int phase = 0; phase < PHASES && status == KAS_OK; phase++)
            status = run_phase(s, net, &model, phase);
        kas_bench_model_free(&model);
    }
    kas_dataset_close(images);
    return status;
}

/* Runs a network. One that does not fit the device is left out with a message. */
static kas_status run_net(const subject *s, const char *name)
{
    kas_net *net;
    if (!s->sink->json)
        kas_info("models: %s", name);
    KAS_TRY(kas_bench_net(s->o, name, SIDE, &net));
    kas_status status = run_phases(s, net);
    kas_net_free(net);
    if (status != KAS_NO_MEMORY)
        return status;
    kas_warn("models: %s is left out: %s", name, kas_error());
    return KAS_OK;
}

static kas_status run_nets(subject *s)
{
    const kas_bench_options *o = s->o;
    const bool cpu = kas_device_get_info(s->device)->kind == KAS_DEVICE_CPU;
    const char *list = o->net;
    char name[KAS_BENCH_NET];
    s->batch = o->batch ? o->batch : cpu ? 8 : 512;
    s->repeats = o->repeats ? o->repeats : cpu ? 3 : 20;
    KAS_TRY(kas_machine_measure(s->device, o->precision, o->machine, &s->machine));
    while (list && kas_bench_next_net(&list, name))
        KAS_TRY(run_net(s, name));
    for (const kas_embedded *e = kas_embedded_networks; !list && e->name; e++)
        KAS_TRY(run_net(s, e->name));
    return KAS_OK;
}

static kas_status run(const kas_bench_options *o, const kas_bench_sink *sink)
{
    static const kas_column columns[] = {{"network", KAS_LEFT},   {"phase", KAS_LEFT},
                                         {"median", KAS_RIGHT},   {"quartiles", KAS_LEFT},
                                         {"images/s", KAS_RIGHT}, {"floor", KAS_RIGHT},
                                         {"of floor", KAS_RIGHT}, {"bytes", KAS_RIGHT},
                                         {"floor", KAS_RIGHT},    {"host", KAS_RIGHT}};
    subject s = {.o = o, .sink = sink};
    char title[160];
    KAS_TRY(kas_device_open(o->device ? o->device : "auto", o->threads, &s.device));
    s.table = sink->json ? NULL : kas_table_create(columns, sizeof columns / sizeof *columns);
    kas_status status = run_nets(&s);
    snprintf(title, sizeof title,
             "models at batch %d in %s; floor: %.1f GB/s, %.1f GFLOP/s (a multiply-add is one), "
             "measured "
             "in this run",
             s.batch, kas_precision_names[o->precision], s.machine.memory_bandwidth / 1e9,
             s.machine.rate[o->precision] / 1e9);
    if (status == KAS_OK)
        status = kas_bench_table_put(s.table, title, sink);
    kas_table_free(s.table);
    kas_device_close(s.device);
    return status;
}

static const double model_seconds = 5.0;
static const double model_image = 0.05;

/* Estimates the time for compiling and both phases. */
static double seconds(const kas_bench_options *o)
{
    int nets = 0;
    while (kas_embedded_networks[nets].name)
        nets++;
    const double runs = WARM_UP + (o->repeats ? o->repeats : 3);
    return kas_bench_count_nets(o->net, nets) *
           (model_seconds + model_image * (o->batch ? o->batch : 8) * runs);
}

const kas_bench_suite kas_bench_suite_models = {
    "models", "training step and inference of every network, beside the floor", run, seconds};
