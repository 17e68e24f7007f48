/* The training loop: one network, with or without a kernel in place of its targets, on one device.
 *
 * Everything that a step needs is on the device: the data set as uint8 (or, where it does not fit,
 * the next batches of it: feed.h), the order of images, the augmentation and the learning rate. A
 * step is a plan that is recorded once (docs/design.md). Training drops the last, incomplete batch
 * of an epoch, as loaders do; evaluation pads it and does not count the padding.
 *
 * A run is a pure function of its options: the same seed gives the same bits on the same kind
 * of device, and a run that is resumed from a checkpoint gives the same bits as one that
 * never stopped. */
#ifndef KAS_TRAIN_TRAIN_H
#define KAS_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "host/data/dataset.h"
#include "host/device/device.h"
#include "host/device/group.h"
#include "host/model/memory.h"
#include "host/net/net.h"
#include "host/recipe/epoch.h"
#include "host/recipe/recipe.h"
#include "jit/programs.h"

typedef enum kas_verdict { KAS_CONTINUE, KAS_PRUNE, KAS_STOP } kas_verdict;

typedef struct kas_train_options {
    const kas_net *net;
    const kas_dataset *dataset;
    kas_programs *programs; /* of the kernels, built as model.h says; NULL = the network as it is */
    kas_recipe recipe;
    uint64_t seed;
    /* Indices into dataset->train; train_index NULL = its first train_count images. The network is
     * validated on `validation_index` after each epoch or, with evaluate_test, on the test set
     * once, after the last epoch. Behind its validation_count images validation_index may have
     * confirm_count others, on which only the trained network is evaluated, for `correct`. */
    const uint32_t *train_index, *validation_index;
    uint32_t train_count, validation_count, confirm_count;
    bool evaluate_test;
    int until;        /* epochs after which the run pauses, with the schedule of the whole recipe;
                         0 = all of them */
    bool recompute;   /* less memory, more work, the same bits (tape.h); the run also does it
                         unasked when it would not fit the device otherwise */
    bool stream;      /* do not keep the images on the device even if they fit */
    int read_threads; /* for a streamed data set; 0 = as many as it can use */
    /* Called after each epoch; may be NULL. PRUNE ends the run as pruned; STOP writes a checkpoint
     * and ends it. */
    kas_verdict (*on_epoch)(void *context, const kas_epoch *epoch);
    /* Called every few steps with the number of steps done and of all steps, and in evaluations, with
     * NaN for the loss. It renews a lease, shows progress, or asks to stop; may be NULL. */
    kas_verdict (*on_progress)(void *context, uint64_t step, uint64_t steps, double loss);
    /* Called by each of several ranks, before the first step, with how they exchange
     * (kas_model_exchange), and again if that changes in the first steps; may be NULL. */
    void (*on_exchange)(void *context, const char *exchange);
    void *context;
    const char *checkpoint;  /* file; the run resumes from it when it exists and matches; NULL =
                                none */
    const char *weights_out; /* safetensors file for the final weights; NULL = none */
    const char *weights_in;  /* safetensors to start from in place of random weights; NULL = none */
    bool init_partial;       /* what of it does not fit is left out (pretrained.h) */
    const char *cache_dir;   /* of the JIT; NULL = default */
    /* Several ranks that train one network (docs/parallel.md): recipe.batch is the batch of all
     * ranks together, and rank 0 alone writes the checkpoint and the weights. A verdict of any
     * rank's callback holds for all. */
    kas_group *group; /* NULL: one rank */
    int ranks;        /* for kas_train_plan_memory without a group; 0 = 1 */
    bool sync_batch_norm;
    bool shard_optimiser; /* less memory, the same bits, and the same checkpoint (model.h) */
} kas_train_options;

/* Returns the number of ranks, and the images of a step that fall to one. */
static inline int kas_train_ranks(const kas_train_options *o)
{
    return o->group ? kas_group_ranks(o->group) : o->ranks > 1 ? o->ranks : 1;
}
static inline int kas_train_batch(const kas_train_options *o)
{
    return o->recipe.batch / kas_train_ranks(o);
}

typedef enum kas_train_state {
    KAS_TRAINED, /* all epochs done */
    KAS_PRUNED,
    KAS_STOPPED, /* checkpoint written; run again to go on */
    KAS_PAUSED,  /* the same, because `until` was reached */
    KAS_DIVERGED /* a parameter, a running statistic, an average of them or the loss was not
                    finite in training, or a logit or the loss in the last evaluation, or float16
                    skipped steps down to the least loss scale. No weights
                    are written, and a run that continues from the checkpoint ends the same way */
} kas_train_state;

typedef struct kas_train_result {
    kas_train_state state;
    const char *not_finite; /* of a run that diverged, what was not finite, such as "a
                               parameter"; else NULL */
    int epochs;             /* epochs done, including those before a resume */
    kas_epoch *epoch;       /* [epochs]; freed by kas_train_result_free */
    double accuracy;        /* top-1 of the last epoch, 0..1; NaN when it was not evaluated */
    char *correct;          /* of a run that was trained: which images of its last evaluations are
                               classified correctly (score/correct.h); else NULL; owned */
    double step_seconds;    /* median of a training step; NaN: this process took none */
    double compile_seconds; /* JIT, 0 when everything was cached */
    float scale;            /* of the loss, at the end; 1 except in float16 */
    uint32_t skipped;       /* steps of the whole run that float16's loss scale skipped */
    size_t memory;          /* bytes of device memory planned */
} kas_train_result;

/* Trains a network. The caller frees *out with kas_train_result_free. */
kas_status kas_train(kas_device *device, const kas_train_options *options, kas_train_result *out);
void kas_train_result_free(kas_train_result *result);

/* Computes the device memory that a run would need, without allocating it (--dry-run), as `options`
 * say, whether or not a device has that much. */
kas_status kas_train_plan_memory(const kas_train_options *options, kas_memory_plan *out);

#endif
