/* Streams the images of a data set, batch after batch, at constant memory.
 *
 * A pool of threads fills a ring of batches ahead of whoever takes them: each thread claims the
 * next few positions of the order, reads their images (storage.h), decodes them if they are encoded
 * (view.h) and writes them to their places.  What an image becomes depends on its position alone,
 * so the bits are the same whatever the number of threads.  Before a position is claimed its image
 * has long been asked of the disk (read_ahead.h), so that threads seldom wait.
 *
 * Images that are in memory (kas_images.pixels) are streamed too: copied from there.
 *
 * A damaged image fails its batch: the message names file, object and image.  The other images of
 * the batch are done all the same, and of several failures the one at the first position counts, so
 * the message is the same whatever the number of threads.  Nothing is left out in silence: the
 * importer decodes every image once, so damage that appears later is damage to the file.
 *
 * A reader belongs to one thread; the pool is its own affair.  Other folders include this header.
 */
#ifndef KAS_DATA_READER_H
#define KAS_DATA_READER_H

#include "host/data/dataset.h"
#include "host/data/image/view.h"
#include "host/data/order.h"

typedef struct kas_reader kas_reader;

typedef struct kas_reader_options {
    const kas_dataset *dataset;
    uint32_t batch;   /* images, >= 1 */
    int slots;        /* batches in the ring, >= 2 */
    int threads;      /* 0 = kas_reader_threads */
    uint8_t *pixels;  /* [slots][batch][h][w][c], of the caller (page-locked, perhaps) */
    uint16_t *labels; /* [slots][batch], likewise */
} kas_reader_options;

/* All cores for encoded images; reading pixels needs 4 at most. */
int kas_reader_threads(const kas_dataset *dataset);

/* Starts the threads. */
kas_status kas_reader_create(const kas_reader_options *options, kas_reader **out);
void kas_reader_free(kas_reader *reader); /* NULL is allowed */

/* One pass over images: an epoch of training, or an evaluation. */
typedef struct kas_pass {
    const kas_images *images; /* the data set's train or test */
    const uint32_t *order;    /* [count] image numbers; must stay until the pass ends */
    uint32_t count;           /* the last batch may be smaller */
    uint32_t first;           /* position to begin with, a multiple of batch */
    kas_shuffle shuffle;      /* how the order was made, and so how to read ahead */
    kas_view view;            /* of encoded images */
} kas_pass;

/* Begins a pass, and ends an earlier one wherever it is. */
kas_status kas_reader_begin(kas_reader *reader, const kas_pass *pass);

typedef struct kas_batch {
    int slot;              /* in the ring: batch k of the order lies in slot k % slots */
    uint32_t count;        /* images, >= 1 */
    const uint8_t *pixels; /* of that slot */
    const uint16_t *labels;
} kas_batch;

/* Waits for the next batch. Its slot is the caller's until kas_reader_release. */
kas_status kas_reader_next(kas_reader *reader, kas_batch *out);
/* Gives the earliest batch that was taken back to be filled again. */
void kas_reader_release(kas_reader *reader);

#endif
