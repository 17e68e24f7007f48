/* Streams the images of a data set, batch after batch, in constant memory.
 *
 * A pool of threads fills a ring of batches ahead of their use: each thread claims the next few
 * positions of the order, reads their images (storage.h), decodes them if they are encoded
 * (view.h), and writes them to their places. The result for an image depends on its position alone,
 * so the bits do not depend on the number of threads. Images are requested from the disk long
 * before their positions are claimed (read_ahead.h), so that threads seldom wait.
 *
 * Images in memory (kas_images.pixels) can be streamed too: they are copied.
 *
 * A damaged image fails its batch; the message names the file, the object and the image. The other
 * images of the batch are still processed, and of several failures the one at the first position is
 * reported, so the message does not depend on the number of threads. No image is left out silently:
 * the importer decodes every image once, so damage that appears later is damage to the file.
 *
 * A reader belongs to one thread, and manages its pool itself.  Other folders include
 * this header. */
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
    uint8_t *pixels;  /* [slots][batch][h][w][c], of the caller; may be page-locked */
    uint16_t *labels; /* [slots][batch], likewise */
} kas_reader_options;

/* Returns the default number of threads: all cores for encoded images, and at most 4 for pixels,
 * which need no more. */
int kas_reader_threads(const kas_dataset *dataset);

/* Creates a reader and starts its threads. The caller frees *out with kas_reader_free. */
kas_status kas_reader_create(const kas_reader_options *options, kas_reader **out);
void kas_reader_free(kas_reader *reader); /* NULL is allowed */

/* One pass over images: an epoch of training, or an evaluation. */
typedef struct kas_pass {
    const kas_images *images; /* the data set's train or test */
    const uint32_t *order;    /* [count] image numbers; must stay valid until the pass ends */
    uint32_t count;           /* the last batch may be smaller */
    uint32_t first;           /* position to begin with, a multiple of batch */
    kas_shuffle shuffle;      /* how the order was made; it determines the read-ahead */
    kas_view view;            /* for encoded images */
    /* The order may be what falls to one of several ranks (docs/parallel.md); 0 ranks: it is
     * all. */
    uint32_t rank, ranks;
} kas_pass;

/* Returns where position `position` of a rank's order lies in the order of all ranks, of which each
 * takes `batch` images in turn. */
static inline uint32_t kas_shared_position(uint32_t position, uint32_t batch, uint32_t rank,
                                           uint32_t ranks)
{
    return (position / batch * ranks + rank) * batch + position % batch;
}

/* Begins a pass. An earlier pass ends, wherever it is. */
kas_status kas_reader_begin(kas_reader *reader, const kas_pass *pass);

typedef struct kas_batch {
    uint32_t count;        /* images, >= 1 */
    const uint8_t *pixels; /* in the ring: batch k of the order lies in slot k % slots */
    const uint16_t *labels;
} kas_batch;

/* Waits for the next batch, whose slot belongs to the caller until kas_reader_release. */
kas_status kas_reader_next(kas_reader *reader, kas_batch *out);
/* Returns the earliest taken batch to the ring, to be filled again. */
void kas_reader_release(kas_reader *reader);

/* Reads `count` training images, all at once: *pixels [count][h][w][c] and *labels [count], which the
 * caller frees, also after a failure. */
kas_status kas_read_images(const kas_dataset *dataset, const uint32_t *order, uint32_t count,
                           uint8_t **pixels, uint16_t **labels);
/* Converts pixels to floats [count][c][h][w] as a network sees them. */
void kas_normalise_images(const kas_dataset *dataset, uint32_t count, const uint8_t *pixels,
                          float *out);

#endif
