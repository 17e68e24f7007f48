/* What does inference gain where batch norms are folded into the convolutions (model/fold.h)?
 *
 *     build/bench/bench_fold [--device cpu] [--net resnet18] [--side 32] [--batch 32] [--threads 1]
 *                            [--rounds 21]
 *
 * A model that does not train beside one that does, whose inference goes pass by pass with weights
 * that may change: by turns in one process, the same images.  One JSON line: ratios without by
 * with, above 1 folding is faster, as median and quartiles; processor time is disturbed less by
 * others than time. */
#include <stdio.h>

#include "options.h"
#include "turns.h"
#include "host/model/model.h"
#include "host/model/planned_bytes.h"

enum { WITHOUT, WITH, WAYS };

typedef struct options {
    const char *device, *net;
    int side, batch, threads, rounds;
} options;

typedef struct way {
    kas_model *model;
    kas_plan *plan;
    double bytes;
} way;

typedef struct subject {
    const options *o;
    kas_device *device;
    kas_net *net;
    kas_timer *timer;
    way way[WAYS];
    turns turns;
} subject;

static kas_status prepare(subject *s, int k)
{
    way *w = &s->way[k];
    const kas_model_options model = {.net = s->net, .batch = s->o->batch, .training = k == WITHOUT};
    const kas_step_options step = {.mode = KAS_TAPE_INFER};
    kas_planned_bytes planned;
    KAS_TRY(kas_model_create(s->device, &model, &w->model));
    KAS_TRY(kas_model_init(w->model, 1));
    KAS_TRY(kas_model_record(w->model, &step, &w->plan));
    KAS_TRY(kas_planned_bytes_count(w->model, KAS_TAPE_INFER, &planned));
    w->bytes = planned.bytes;
    kas_planned_bytes_free(&planned);
    return kas_model_draw_images(w->model);
}

static kas_status run(void *context, int k, double *seconds)
{
    const subject *s = context;
    KAS_TRY(kas_timer_start(s->timer));
    KAS_TRY(kas_plan_run(s->way[k].plan));
    return kas_timer_stop(s->timer, seconds);
}

static kas_status put(subject *s)
{
    static const char *const names[WAYS] = {"without", "with"};
    kas_buf out = {0};
    kas_line_begin(&out);
    kas_line_text(&out, "bench", "fold");
    kas_line_text(&out, "net", s->net->name);
    kas_line_int(&out, "side", s->o->side);
    kas_line_int(&out, "batch", s->o->batch);
    kas_line_int(&out, "rounds", s->o->rounds);
    kas_line_number(&out, "bytes_without", s->way[WITHOUT].bytes);
    kas_line_number(&out, "bytes_with", s->way[WITH].bytes);
    turns_put(&out, &s->turns, names);
    kas_line_end(&out);
    const kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        printf("%s", kas_buf_text(&out));
    kas_buf_free(&out);
    return status;
}

static kas_status work(subject *s)
{
    const options *o = s->o;
    KAS_TRY(kas_net_build(o->net, o->side, o->side, 3, 10, &s->net));
    KAS_TRY(kas_device_open(o->device, o->threads, &s->device));
    KAS_TRY(kas_timer_create(s->device, &s->timer));
    for (int k = 0; k < WAYS; k++)
        KAS_TRY(prepare(s, k));
    KAS_TRY(turns_take(&s->turns, o->rounds, run, s));
    return put(s);
}

static void clean(subject *s)
{
    turns_free(&s->turns);
    for (int k = 0; k < WAYS; k++) {
        kas_plan_free(s->way[k].plan);
        kas_model_free(s->way[k].model);
    }
    kas_timer_free(s->timer);
    kas_device_close(s->device);
    kas_net_free(s->net);
}

int main(int argc, char **argv)
{
    options o = {
        .device = "cpu", .net = "resnet18", .side = 32, .batch = 32, .threads = 1, .rounds = 21};
    const bench_option options[] = {{"--batch", &o.batch, NULL},
                                    {"--side", &o.side, NULL},
                                    {"--threads", &o.threads, NULL},
                                    {"--rounds", &o.rounds, NULL},
                                    {"--net", NULL, &o.net},
                                    {"--device", NULL, &o.device},
                                    {NULL, NULL, NULL}};
    int first;
    subject s = {.o = &o};
    kas_status status = bench_options_read(argc, argv, options, &first);
    if (status == KAS_OK)
        status = work(&s);
    if (status != KAS_OK)
        fprintf(stderr, "bench_fold: %s\n", kas_error());
    clean(&s);
    return status == KAS_OK ? 0 : 1;
}
