/* Brings batches of a data set that is not on the device to a ring of a few batches that is.
 *
 *     file or memory -> threads (host/data/reader.h) -> page-locked ring -> copies beside the work
 *     (kas_upload) -> ring on the device -> the step's plan
 *
 * The plan is recorded once and knows nothing of this: it finds the image at position p of an order
 * in place p % ring of the device's images, which is what the order on the device says
 * (kas_stream_fill_order).  So a streamed run has the bits of one whose images are all there.
 *
 * The CPU device's memory is the host's: there the threads fill the ring on the device, and nothing
 * is copied.  A fifth of the processor time of images without decoding was copying. */
#ifndef KAS_TRAIN_STREAM_H
#define KAS_TRAIN_STREAM_H

#include "host/data/reader.h"
#include "host/device/device.h"

typedef struct kas_stream kas_stream;

/* Batches on the device, and page-locked where there is a copy: one that is used or copied, the
 * others filled ahead of it. */
enum { KAS_STREAM_RING = 4 };

/* `pixels`, `labels`: device memory for KAS_STREAM_RING batches, of the caller. threads as in
 * kas_reader_options. */
kas_status kas_stream_create(kas_device *device, const kas_dataset *dataset, uint32_t batch,
                             int threads, uint8_t *pixels, uint16_t *labels, kas_stream **out);
void kas_stream_free(kas_stream *stream); /* NULL is allowed */

/* order[p] = the place of position p on the device. */
void kas_stream_fill_order(uint32_t batch, uint32_t count, uint32_t *order);

/* Begins a pass; an earlier one may end before its last batch. */
kas_status kas_stream_begin(kas_stream *stream, const kas_pass *pass);
/* What is enqueued from here on finds the next batch on the device. */
kas_status kas_stream_next(kas_stream *stream);
/* What was enqueued up to here was the last to read that batch. */
kas_status kas_stream_done(kas_stream *stream);

#endif
