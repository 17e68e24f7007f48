/* What does inference gain where batch norms are folded into the convolutions (train/fold.h)?
 *
 *     build/bench/bench_fold [--device cpu] [--net resnet18] [--side 32] [--batch 32] [--threads 1]
 *                            [--rounds 21]
 *
 * A model that does not train beside one that does, whose inference goes pass by pass with weights
 * that may change: by turns in one process, the same images.  One JSON line: ratios without by
 * with, above 1 folding is faster, as median and quartiles; processor time is disturbed less by
 * others than time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/core/random.h"
#include "host/train/model.h"
#include "host/train/stats.h"
#include "host/train/traffic.h"

enum { WITHOUT, WITH, WAYS, WARM_UP = 2 };

typedef struct options {
    const char *device, *net;
    int side, batch, threads, rounds;
} options;

typedef struct way {
    kas_model *model;
    kas_plan *plan;
    kas_samples seconds;
    double bytes;
} way;

typedef struct subject {
    const options *o;
    kas_device *device;
    kas_net *net;
    kas_timer *timer;
    way way[WAYS];
    kas_samples seconds, processor; /* ratios */
} subject;

static kas_status give_images(const subject *s, kas_model *model)
{
    const size_t size = (size_t)s->o->batch * 3 * (size_t)s->o->side * (size_t)s->o->side;
    float *images = malloc(sizeof *images * size);
    if (!images)
        return kas_fail(KAS_NO_MEMORY, "no memory for images");
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    for (size_t i = 0; i < size; i++)
        images[i] = (float)kas_rng_normal(&rng);
    const kas_status status = kas_model_set_batch(model, KAS_TAPE_INFER, images, NULL);
    free(images);
    return status;
}

static kas_status prepare(subject *s, int k)
{
    way *w = &s->way[k];
    const kas_model_options model = {.net = s->net, .batch = s->o->batch, .training = k == WITHOUT};
    const kas_step_options step = {.mode = KAS_TAPE_INFER};
    kas_traffic traffic;
    KAS_TRY(kas_model_create(s->device, &model, &w->model));
    KAS_TRY(kas_model_init(w->model, 1));
    KAS_TRY(kas_model_record(w->model, &step, &w->plan));
    KAS_TRY(kas_traffic_count(w->model, KAS_TAPE_INFER, &traffic));
    w->bytes = traffic.bytes;
    kas_traffic_free(&traffic);
    return give_images(s, w->model);
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static kas_status run(subject *s, way *w, double *seconds, double *processor)
{
    const double before = processor_seconds();
    KAS_TRY(kas_timer_start(s->timer));
    KAS_TRY(kas_plan_run(w->plan));
    KAS_TRY(kas_timer_stop(s->timer, seconds));
    *processor = processor_seconds() - before;
    return KAS_OK;
}

/* By turns, each way first in every other round. */
static kas_status measure(subject *s)
{
    double seconds[WAYS], processor[WAYS];
    for (int i = -WARM_UP; i < s->o->rounds; i++) {
        for (int k = 0; k < WAYS; k++) {
            const int turn = (k + i + WARM_UP) % WAYS;
            KAS_TRY(run(s, &s->way[turn], &seconds[turn], &processor[turn]));
            if (i >= 0)
                KAS_TRY(kas_samples_add(&s->way[turn].seconds, seconds[turn]));
        }
        if (i < 0)
            continue;
        KAS_TRY(kas_samples_add(&s->seconds, seconds[WITHOUT] / seconds[WITH]));
        KAS_TRY(kas_samples_add(&s->processor, processor[WITHOUT] / processor[WITH]));
    }
    return KAS_OK;
}

static void put_spread(const char *name, kas_samples *samples)
{
    printf(", \"%s\": %.4g, \"%s_quartiles\": [%.4g, %.4g]", name,
           kas_samples_quantile(samples, 0.5), name, kas_samples_quantile(samples, 0.25),
           kas_samples_quantile(samples, 0.75));
}

static void put(subject *s)
{
    printf("{\"bench\": \"fold\", \"net\": \"%s\", \"side\": %d, \"batch\": %d, \"rounds\": %d, "
           "\"bytes_without\": %.0f, \"bytes_with\": %.0f",
           s->net->name, s->o->side, s->o->batch, s->o->rounds, s->way[WITHOUT].bytes,
           s->way[WITH].bytes);
    put_spread("seconds_without", &s->way[WITHOUT].seconds);
    put_spread("seconds_with", &s->way[WITH].seconds);
    put_spread("ratio", &s->seconds);
    put_spread("processor_ratio", &s->processor);
    printf("}\n");
}

static kas_status work(subject *s)
{
    const options *o = s->o;
    KAS_TRY(kas_net_build(o->net, o->side, o->side, 3, 10, &s->net));
    KAS_TRY(kas_device_open(o->device, o->threads, &s->device));
    KAS_TRY(kas_timer_create(s->device, &s->timer));
    for (int k = 0; k < WAYS; k++)
        KAS_TRY(prepare(s, k));
    KAS_TRY(measure(s));
    put(s);
    return KAS_OK;
}

static void clean(subject *s)
{
    kas_samples_free(&s->seconds);
    kas_samples_free(&s->processor);
    for (int k = 0; k < WAYS; k++) {
        kas_samples_free(&s->way[k].seconds);
        kas_plan_free(s->way[k].plan);
        kas_model_free(s->way[k].model);
    }
    kas_timer_free(s->timer);
    kas_device_close(s->device);
    kas_net_free(s->net);
}

static void parse(int argc, char **argv, options *o)
{
    const struct {
        const char *name;
        int *to;
    } numbers[] = {{"--batch", &o->batch},
                   {"--side", &o->side},
                   {"--threads", &o->threads},
                   {"--rounds", &o->rounds}};
    for (int at = 1; at + 1 < argc; at += 2) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (strcmp(argv[at], numbers[i].name) == 0)
                *numbers[i].to = atoi(argv[at + 1]);
        if (strcmp(argv[at], "--net") == 0)
            o->net = argv[at + 1];
        if (strcmp(argv[at], "--device") == 0)
            o->device = argv[at + 1];
    }
}

int main(int argc, char **argv)
{
    options o = {
        .device = "cpu", .net = "resnet18", .side = 32, .batch = 32, .threads = 1, .rounds = 21};
    parse(argc, argv, &o);
    subject s = {.o = &o};
    const kas_status status = work(&s);
    if (status != KAS_OK)
        fprintf(stderr, "%s\n", kas_error());
    clean(&s);
    return status == KAS_OK ? 0 : 1;
}
