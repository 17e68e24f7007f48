/* What training reads from the device: images, labels, orders of images and what is known of
 * each step.
 *
 * One allocation:
 *
 *     | training pixels | labels | test pixels | labels | order | evaluation order | rows |
 *                                `---- with evaluate_test ----'                      [steps]
 *
 * The whole training set is there even when only some of it is used, because indices then need no
 * translation; the order of an epoch is uploaded once, at its start. */
#ifndef KAS_TRAIN_FEED_H
#define KAS_TRAIN_FEED_H

#include "host/train/ops.h"
#include "host/train/train.h"

typedef struct kas_feed_layout {
    size_t pixels, labels, test_pixels, test_labels, order, evaluation_order, rows, total;
} kas_feed_layout;

typedef struct kas_feed {
    kas_device *device;
    const kas_train_options *options;
    kas_feed_layout layout;
    char *memory;                  /* device */
    uint32_t *host_order;          /* [train_count] */
    uint32_t evaluation_count;     /* images */
    kas_augment train, evaluation; /* for kas_model_record */
    const kas_step_row *rows;      /* device: of every training step */
} kas_feed;

/* KAS_BAD_INPUT when the options and the data set do not fit each other. */
kas_status kas_feed_check(const kas_train_options *options);
kas_feed_layout kas_feed_plan(const kas_train_options *options);
/* Uploads everything but the order of an epoch. */
kas_status kas_feed_create(kas_device *device, const kas_train_options *options, kas_feed *out);
void kas_feed_free(kas_feed *feed);
/* Uploads the order of an epoch: a permutation keyed by (seed, epoch). */
kas_status kas_feed_shuffle(kas_feed *feed, int epoch);

/* Steps of an epoch: the last, smaller batch is dropped. */
uint32_t kas_feed_steps(const kas_train_options *options);

#endif
