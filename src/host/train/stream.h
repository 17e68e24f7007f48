/* Streams the batches of a data set that does not fit on the device through a ring of a few
 * batches there.
 *
 *     file or memory -> threads (host/data/reader.h) -> page-locked ring -> copies beside the work
 *     (kas_upload) -> ring on the device -> the step's plan
 *
 * The plan is recorded once and does not depend on streaming: the order on the device
 * (kas_stream_fill_order) gives position p the place p % ring among the device's images. So a
 * streamed run has the same bits as one whose images are all on the device.
 *
 * The CPU device uses the host's memory, so there the threads fill the device's ring
 * directly and nothing is copied. That copy was a fifth of the processor time of images that
 * need no decoding. */
#ifndef KAS_TRAIN_STREAM_H
#define KAS_TRAIN_STREAM_H

#include "host/data/reader.h"
#include "host/device/device.h"

typedef struct kas_stream kas_stream;

/* Batches in the ring on the device, and as many in the page-locked ring where there is a copy: one
 * is used or copied, and the others are filled ahead of it. */
enum { KAS_STREAM_RING = 4 };

/* Creates a stream. `pixels` and `labels` are the caller's device memory for KAS_STREAM_RING
 * batches; `threads` as in kas_reader_options. The caller frees *out with kas_stream_free. */
kas_status kas_stream_create(kas_device *device, const kas_dataset *dataset, uint32_t batch,
                             int threads, uint8_t *pixels, uint16_t *labels, kas_stream **out);
void kas_stream_free(kas_stream *stream); /* NULL is allowed */

/* Sets order[p] to the place of position p on the device; `ranks` ranks take `batch` positions each
 * in turn, and only a rank's own have a place there. */
void kas_stream_fill_order(uint32_t batch, uint32_t ranks, uint32_t count, uint32_t *order);

/* Begins a pass. An earlier pass may be abandoned before its last batch. */
kas_status kas_stream_begin(kas_stream *stream, const kas_pass *pass);
/* Waits until work that is enqueued from here on finds the next batch on the device. */
kas_status kas_stream_next(kas_stream *stream);
/* Declares that the work enqueued so far is the last that reads that batch. */
kas_status kas_stream_done(kas_stream *stream);

#endif
