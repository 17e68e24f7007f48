#include "host/train/stream.h"

#include <stdlib.h>

struct kas_stream {
    kas_device *device;
    kas_reader *reader;
    kas_upload *upload; /* NULL = the reader's threads fill the device's memory themselves */
    size_t image;       /* bytes */
    uint32_t batch;
    void *host_pixels, *host_labels; /* with upload */
    uint8_t *pixels;                 /* device */
    uint16_t *labels;
    uint32_t begun, started, used, batches; /* batches of the pass: first, next to copy, next to
                                               use, all */
};

static int slot_of(uint32_t number)
{
    return (int)(number % KAS_STREAM_RING);
}

static kas_status create_copies(kas_stream *s)
{
    size_t images = (size_t)KAS_STREAM_RING * s->batch;
    KAS_TRY(kas_host_alloc(s->device, images * s->image, &s->host_pixels));
    KAS_TRY(kas_host_alloc(s->device, images * sizeof *s->labels, &s->host_labels));
    return kas_upload_create(s->device, KAS_STREAM_RING, &s->upload);
}

kas_status kas_stream_create(kas_device *device, const kas_dataset *d, uint32_t batch, int threads,
                             uint8_t *pixels, uint16_t *labels, kas_stream **out)
{
    kas_status status;
    *out = NULL;
    kas_stream *s = calloc(1, sizeof *s);
    if (!s)
        return kas_fail(KAS_NO_MEMORY, "no memory for a stream of images");
    s->device = device;
    s->image = (size_t)d->h * d->w * d->c;
    s->batch = batch;
    s->pixels = pixels;
    s->labels = labels;
    if (kas_device_get_info(device)->kind != KAS_DEVICE_CPU)
        KAS_TRY_GOTO(create_copies(s), failed);
    const kas_reader_options options = {.dataset = d,
                                        .batch = batch,
                                        .slots = KAS_STREAM_RING,
                                        .threads = threads,
                                        .pixels = s->upload ? s->host_pixels : pixels,
                                        .labels = s->upload ? s->host_labels : labels};
    KAS_TRY_GOTO(kas_reader_create(&options, &s->reader), failed);
    *out = s;
    return KAS_OK;
failed:
    kas_stream_free(s);
    return status;
}

void kas_stream_free(kas_stream *s)
{
    if (!s)
        return;
    kas_reader_free(s->reader);
    kas_upload_free(s->upload);
    kas_host_free(s->device, s->host_pixels);
    kas_host_free(s->device, s->host_labels);
    free(s);
}

void kas_stream_fill_order(uint32_t batch, uint32_t ranks, uint32_t count, uint32_t *order)
{
    for (uint32_t p = 0; p < count; p++)
        order[p] = p / (batch * ranks) % KAS_STREAM_RING * batch + p % batch;
}

/* Releases the host's memory of the previous batch when its copy has ended. */
static kas_status free_last(kas_stream *s)
{
    if (s->started == s->begun)
        return KAS_OK;
    KAS_TRY(kas_upload_wait(s->upload, slot_of(s->started - 1)));
    kas_reader_release(s->reader);
    return KAS_OK;
}

/* Begins the copy of the next batch, if there is one. */
static kas_status start(kas_stream *s)
{
    if (s->started == s->batches)
        return KAS_OK;
    kas_batch b;
    int slot = slot_of(s->started);
    size_t place = (size_t)slot * s->batch;
    KAS_TRY(free_last(s));
    KAS_TRY(kas_reader_next(s->reader, &b));
    s->started++;
    KAS_TRY(kas_upload_start(s->upload, slot, s->pixels + place * s->image, b.pixels,
                             b.count * s->image));
    return kas_upload_start(s->upload, slot, s->labels + place, b.labels,
                            b.count * sizeof *b.labels);
}

/* Copies of an earlier pass may still be reading memory that the reader is about to fill. */
kas_status kas_stream_begin(kas_stream *s, const kas_pass *pass)
{
    for (int slot = 0; s->upload && slot < KAS_STREAM_RING; slot++)
        KAS_TRY(kas_upload_wait(s->upload, slot));
    KAS_TRY(kas_reader_begin(s->reader, pass));
    s->begun = s->started = s->used = pass->first / s->batch;
    s->batches = (pass->count + s->batch - 1) / s->batch;
    return KAS_OK;
}

kas_status kas_stream_next(kas_stream *s)
{
    if (s->used >= s->batches)
        return kas_fail(KAS_FAILURE, "stream: a batch is asked for behind the end");
    if (!s->upload) {
        kas_batch b;
        return kas_reader_next(s->reader, &b); /* batch k lies in slot k % KAS_STREAM_RING */
    }
    if (s->used == s->started)
        KAS_TRY(start(s));
    return kas_upload_use(s->upload, slot_of(s->used));
}

/* The next copy begins here, so that it runs beside the work that was just enqueued. */
kas_status kas_stream_done(kas_stream *s)
{
    if (s->upload)
        KAS_TRY(kas_upload_done(s->upload, slot_of(s->used)));
    s->used++;
    if (s->upload)
        return start(s);
    kas_reader_release(s->reader); /* on the CPU device the enqueued work is done */
    return KAS_OK;
}
