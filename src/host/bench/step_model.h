/* A network made ready to be timed: the very steps that a search runs, on random images.
 *
 * The training step is all of it: loading and augmenting the batch, forward, loss, backward,
 * update. Every run starts from the same position of the data and the same learning rate, so that
 * all runs do the same work; the rate is small, so that random labels do not make the weights
 * diverge. Inference is the forward pass of one batch that is on the device already, by a model of
 * its own that does not train, as a candidate's latency is measured (train.h).
 *
 * On a GPU a step that nobody counts is enqueued before the measured one and keeps the device busy
 * meanwhile, so that the time between events is the device's alone, and the host's time is that of
 * the call which enqueues a step: one launch of a graph. */
#ifndef KAS_BENCH_STEP_MODEL_H
#define KAS_BENCH_STEP_MODEL_H

#include "host/model/model.h"
#include "host/train/feed.h"

/* `count` images for `net`: random pixels, labels of every class in turn. Freed with
 * kas_dataset_close. */
kas_status kas_bench_images(const kas_net *net, int count, kas_dataset **out);

/* Batches of images that the measured steps need. */
enum { KAS_BENCH_BATCHES = 2 };

typedef struct kas_bench_model {
    kas_programs programs, inference_programs;
    kas_model *model, *inference; /* the one that trains, and the one that does not */
    kas_plan *train, *infer;
    int *train_mark, *infer_mark; /* kas_step_options */
    kas_timer *timer;
    kas_train_options options; /* the feed points to it: a kas_bench_model must not be moved */
    kas_feed feed;
    bool ahead;       /* the device works beside the host: a step is enqueued ahead */
    uint64_t trained; /* training steps run */
} kas_bench_model;

/* `net`, `replacement` (NULL = the network as it is) and `images` (KAS_BENCH_BATCHES batches or
 * more) must outlive it. On failure nothing is left to free. */
kas_status kas_bench_model_create(kas_device *device, const kas_net *net,
                                  const kas_replacement *replacement, const kas_dataset *images,
                                  int batch, kas_precision precision, const char *cache_dir,
                                  kas_bench_model *out);
void kas_bench_model_free(kas_bench_model *model);

static inline kas_model *kas_bench_model_of(const kas_bench_model *m, kas_tape_mode mode)
{
    return mode == KAS_TAPE_TRAIN ? m->model : m->inference;
}
/* To be called before the runs of one kind. */
kas_status kas_bench_model_begin(kas_bench_model *model, kas_tape_mode mode);
/* One step of `mode` (TRAIN or INFER). */
typedef struct kas_bench_time {
    double device; /* seconds */
    double host;   /* seconds until the step was enqueued; NaN on the CPU, where that is the step */
} kas_bench_time;
kas_status kas_bench_model_run(kas_bench_model *model, kas_tape_mode mode, kas_bench_time *time);
/* One step of `mode`, its launches by themselves: kas_plan_time_steps. */
kas_status kas_bench_model_time_steps(kas_bench_model *model, kas_tape_mode mode, double *seconds);
/* `steps` training steps, one behind the other, from the first images on: all of `images` at most
 * (epoch: which order of them). Seconds on the device, without what was enqueued ahead. */
kas_status kas_bench_model_train(kas_bench_model *model, int epoch, uint32_t steps,
                                 double *seconds);
/* Were they real steps?  Training: every image of every step was counted and the loss is finite;
 * inference: the logits are finite. KAS_FAILURE otherwise: what was timed proves nothing. */
kas_status kas_bench_model_check(kas_bench_model *model, kas_tape_mode mode);

/* The convolutions of a network by themselves (`layer`: that one only; -1: all), each with memory
 * of its own size but all in the same place: forward for INFER; forward, data and weights for TRAIN
 * (no data gradient for the stem). */
typedef struct kas_bench_convs kas_bench_convs;
kas_status kas_bench_convs_create(kas_device *device, const kas_net *net, int layer, int batch,
                                  kas_tape_mode mode, kas_precision precision,
                                  kas_bench_convs **out);
void kas_bench_convs_free(kas_bench_convs *convs); /* NULL is allowed */
kas_status kas_bench_convs_run(kas_bench_convs *convs, double *seconds);

#endif
