/* Prepares a network for timing: exactly the steps that a search runs, on random images.
 *
 * A training step is complete: it loads and augments the batch, and runs forward pass, loss,
 * backward pass and update. Every run starts from the same position of the data and the same
 * learning rate, so that all runs do the same work; the rate is small, so that random labels do not
 * make the weights diverge. Inference is the forward pass of one batch that is already on the
 * device. It uses a model of its own that does not train, in the same way as a candidate's latency
 * is measured (train.h).
 *
 * On a GPU an uncounted step is enqueued before the measured one and keeps the device busy while
 * the host enqueues. So the time between events is that of the device alone, and the host's time is
 * that of the call that enqueues a step: one launch of a graph. */
#ifndef KAS_BENCH_STEP_MODEL_H
#define KAS_BENCH_STEP_MODEL_H

#include "host/model/model.h"
#include "host/train/feed.h"

/* Creates `count` images for `net`, with random pixels and labels of every class in turn. The
 * caller frees *out with kas_dataset_close. */
kas_status kas_bench_images(const kas_net *net, int count, kas_dataset **out);

/* The number of batches that the measured steps need. */
enum { KAS_BENCH_BATCHES = 2 };

typedef struct kas_bench_model {
    kas_programs programs, inference_programs;
    kas_model *model, *inference; /* the one that trains, and the one that does not */
    kas_plan *train, *infer;
    int *train_mark, *infer_mark; /* kas_step_options */
    kas_timer *timer;
    kas_train_options options; /* the feed points to it: a kas_bench_model must not be moved */
    kas_feed feed;
    bool ahead;       /* the device runs asynchronously: a step is enqueued ahead */
    uint64_t trained; /* number of training steps run */
} kas_bench_model;

/* Creates the models. `net`, `replacement` (NULL = the unmodified network) and `images`
 * (KAS_BENCH_BATCHES batches or more) must outlive them. After a failure there is nothing
 * to free. */
kas_status kas_bench_model_create(kas_device *device, const kas_net *net,
                                  const kas_replacement *replacement, const kas_dataset *images,
                                  int batch, kas_precision precision, const char *cache_dir,
                                  kas_bench_model *out);
void kas_bench_model_free(kas_bench_model *model);

static inline kas_model *kas_bench_model_of(const kas_bench_model *m, kas_tape_mode mode)
{
    return mode == KAS_TAPE_TRAIN ? m->model : m->inference;
}
/* Call this before the runs of one mode. */
kas_status kas_bench_model_begin(kas_bench_model *model, kas_tape_mode mode);
/* The times of one step. */
typedef struct kas_bench_time {
    double device; /* seconds */
    double host;   /* seconds until the step was enqueued; NaN on the CPU, where that is the
                      whole step */
} kas_bench_time;
/* Runs one step of `mode`, TRAIN or INFER. */
kas_status kas_bench_model_run(kas_bench_model *model, kas_tape_mode mode, kas_bench_time *time);
/* Runs one step of `mode` launch by launch and gets the time of each (kas_plan_time_steps). */
kas_status kas_bench_model_time_steps(kas_bench_model *model, kas_tape_mode mode, double *seconds);
/* Runs `steps` training steps one after the other, beginning with the first images; at most as many
 * as `images` has. `epoch` selects the order of images. `seconds` gets the time on the device,
 * without the step that was enqueued ahead. */
kas_status kas_bench_model_train(kas_bench_model *model, int epoch, uint32_t steps,
                                 double *seconds);
/* Checks that the timed steps did real work. In training, every image of every step was counted and
 * the loss is finite; in inference, the logits are finite. Fails with KAS_FAILURE otherwise,
 * because such times prove nothing. */
kas_status kas_bench_model_check(kas_bench_model *model, kas_tape_mode mode);

/* The convolutions of a network alone (`layer`: only that one; -1: all). Their tensors have their
 * own sizes but share the same memory. INFER runs the forward pass; TRAIN runs forward, data and
 * weight gradients (the stem has no data gradient). */
typedef struct kas_bench_convs kas_bench_convs;
kas_status kas_bench_convs_create(kas_device *device, const kas_net *net, int layer, int batch,
                                  kas_tape_mode mode, kas_precision precision,
                                  kas_bench_convs **out);
void kas_bench_convs_free(kas_bench_convs *convs); /* NULL is allowed */
kas_status kas_bench_convs_run(kas_bench_convs *convs, double *seconds);

#endif
