/* What training reads from the device: images, labels, orders of images and what is known of
 * each step.
 *
 * One allocation.  Where the images fit on the device:
 *
 *     | training pixels | labels | test pixels | labels | order | evaluation order | rows |
 *                                `---- with evaluate_test ----'                      [steps]
 *
 * The whole training set is there even when only some of it is used, because indices then need no
 * translation; the order of an epoch is uploaded once, at its start.
 *
 * Where they do not, a ring of batches takes the place of the sets (stream.h), and one order that
 * never changes says where in the ring each position lies.  Either way the plan of a step is the
 * same, and the bits of its result are: it must not look at images of another batch.
 *
 * Pixels are cropped and mirrored on the device (kas_op_augment).  Encoded images have any size and
 * are cropped while they are decoded (host/data/image/view.h), always streamed, and only normalised
 * there. */
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
    char *memory;                  /* device */
    uint32_t *host_order;          /* [train_count] of this epoch */
    uint32_t *evaluation_order;    /* [evaluation_count] */
    uint32_t evaluation_count;     /* images */
    kas_stream *stream;            /* NULL = everything is on the device */
    kas_augment train, evaluation; /* for kas_model_record */
    const kas_step_row *rows;      /* device: of every training step */
} kas_feed;

/* KAS_BAD_INPUT when the options and the data set do not fit each other. */
kas_status kas_feed_check(const kas_train_options *options);
/* Does the file or the user say that images are streamed, whatever the device has room for? */
bool kas_feed_must_stream(const kas_train_options *options);
kas_feed_layout kas_feed_plan(const kas_train_options *options, bool streamed);
/* Streams when it must, or when the images do not fit on the device beside `beside` bytes. */
kas_status kas_feed_create(kas_device *device, const kas_train_options *options, size_t beside,
                           kas_feed *out);
void kas_feed_free(kas_feed *feed);

/* An epoch of training from 0-based `step` of the epoch on: its order is kas_epoch_order's. */
kas_status kas_feed_begin_training(kas_feed *feed, int epoch, uint32_t step);
kas_status kas_feed_begin_evaluation(kas_feed *feed);
/* Before and after each run of a plan. */
kas_status kas_feed_next(kas_feed *feed);
kas_status kas_feed_done(kas_feed *feed);

/* Steps of an epoch: the last, smaller batch is dropped. */
uint32_t kas_feed_steps(const kas_train_options *options);

#endif
