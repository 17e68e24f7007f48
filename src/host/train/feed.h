/* The inputs of training in device memory: images, labels, orders of images, and the table
 * of steps.
 *
 * They are one allocation. When the images fit on the device, it is:
 *
 *     | training pixels | labels | test pixels | labels | order | evaluation order | rows |
 *                                `---- with evaluate_test ----'                      [steps]
 *
 * The whole training set is there even when only a part of it is used, because indices then need no
 * translation. The order of an epoch is uploaded once, at its start.
 *
 * When they do not fit, a ring of batches takes the place of the sets (stream.h), and a fixed order
 * gives the place of each position in the ring. The plan of a step and the bits of its result are
 * the same in both cases. A step must therefore not read images of another batch.
 *
 * Pixels are cropped and mirrored on the device (kas_op_augment).  Encoded images have any size:
 * they are always streamed, are cropped while they are decoded (host/data/image/view.h), and are
 * only normalised on the device.
 *
 * Of every batch each rank of a group takes as many images, in the order of ranks (train.h).
 * Positions are those of the order of all ranks everywhere, because they key the augmentation; a
 * stream reads only the rank's own. */
#ifndef KAS_TRAIN_FEED_H
#define KAS_TRAIN_FEED_H

#include "host/ops/ops.h"
#include "host/train/stream.h"
#include "host/train/train.h"

typedef struct kas_feed_layout {
    size_t pixels, labels, test_pixels, test_labels, order, evaluation_order, rows, total;
} kas_feed_layout;

typedef struct kas_feed {
    kas_device *device;
    const kas_train_options *options;
    kas_feed_layout layout;
    char *memory;                 /* device */
    uint32_t *host_order;         /* [train_count] the order of this epoch */
    uint32_t *evaluation_order;   /* images of both parts */
    uint32_t evaluation_count[2]; /* images of a part: what is evaluated after an epoch, and what
                                      only confirms */
    kas_stream *stream;           /* NULL = all images are on the device */
    uint32_t streamed;            /* batches of the pass that are not streamed yet */
    kas_augment train, evaluation[2]; /* for kas_model_record */
    const kas_step_row *rows;         /* device: one row for every training step */
} kas_feed;

/* Checks that the options and the data set fit each other; fails with KAS_BAD_INPUT otherwise. */
kas_status kas_feed_check(const kas_train_options *options);
/* Returns whether the file or the user requires streaming, however much room the device has. */
bool kas_feed_must_stream(const kas_train_options *options);
/* Computes the layout of the allocation. Needs no device. */
kas_feed_layout kas_feed_plan(const kas_train_options *options, bool streamed);
/* Creates a feed. It streams when it must, or when the images do not fit on the device together
 * with `beside` other bytes. The caller frees *out with kas_feed_free. */
kas_status kas_feed_create(kas_device *device, const kas_train_options *options, size_t beside,
                           kas_feed *out);
void kas_feed_free(kas_feed *feed);

/* kas_feed_begin_training begins an epoch of training at the 0-based `step` of the epoch; the order
 * is that of kas_epoch_order. kas_feed_begin_evaluation begins an evaluation of a part, 0 or 1. */
kas_status kas_feed_begin_training(kas_feed *feed, int epoch, uint32_t step);
kas_status kas_feed_begin_evaluation(kas_feed *feed, int part);
/* Runs the plan of a step on the next batch. */
kas_status kas_feed_run(kas_feed *feed, kas_plan *plan);

/* Returns the steps of an epoch. The last, smaller batch is dropped. */
uint32_t kas_feed_steps(const kas_train_options *options);

#endif
