#include "host/data/reader.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/machine.h"
#include "host/data/image/render.h"
#include "host/data/read_ahead.h"

/* CLAIM_BYTES is the least size of a claim: small images are claimed several at a time, so that
 * threads seldom meet at the lock. */
enum { CLAIM_BYTES = 1 << 16, MAX_THREADS = 256 };

typedef struct slot {
    uint32_t missing; /* images that are not done */
    uint32_t worst;   /* position of the first image that failed; UINT32_MAX = none */
    kas_status status;
    char message[1024];
} slot;

struct kas_reader {
    kas_reader_options o;
    size_t image; /* bytes */
    uint32_t claim_size;
    pthread_mutex_t lock;
    pthread_cond_t work; /* a slot became free, a pass began, or the reader ends */
    pthread_cond_t done; /* a batch is complete, or a thread ended its claim */
    pthread_t thread[MAX_THREADS];
    int threads;
    kas_pass pass; /* changes only while no thread works on a claim */
    /* The lock guards the following members. */
    bool ending, paused;
    uint32_t claimed;         /* next position to be claimed */
    uint32_t taken, released; /* batches since the beginning of the order */
    int busy;                 /* threads that work on a claim */
    slot slot[];
};

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- the pool -------------------------------------------------------------------------------- */

typedef struct worker {
    kas_storage_scratch scratch;
    kas_renderer renderer;
} worker;

static kas_status render(const kas_reader *r, worker *w, uint32_t position, const uint8_t *bytes,
                         size_t size, uint8_t *to)
{
    const kas_dataset *d = r->o.dataset;
    const kas_pass *pass = &r->pass;
    const uint32_t key =
        pass->ranks ? kas_shared_position(position, r->o.batch, pass->rank, pass->ranks) : position;
    kas_status status =
        kas_render(&w->renderer, &pass->view, key, bytes, size, d->h, d->w, d->c, to);
    if (status == KAS_OK)
        return KAS_OK;
    return kas_fail_context(status, "%s: %s: image %" PRIu32, d->path, r->pass.images->storage.name,
                            r->pass.order[position]);
}

static kas_status load_image(const kas_reader *r, worker *w, uint32_t position, uint8_t *to)
{
    const kas_images *images = r->pass.images;
    uint32_t number = r->pass.order[position];
    const uint8_t *bytes;
    size_t size;
    if (images->pixels) {
        memcpy(to, images->pixels + number * r->image, r->image);
        return KAS_OK;
    }
    if (!r->o.dataset->encoded)
        return kas_storage_read_into(&images->storage, number, &w->scratch, to);
    KAS_TRY(kas_storage_read(&images->storage, number, &w->scratch, &bytes, &size));
    return render(r, w, position, bytes, size, to);
}

/* Records a failure at `position` of the slot. The lock is held. */
static void note_failure(slot *s, uint32_t position, kas_status status)
{
    if (position >= s->worst)
        return;
    s->worst = position;
    s->status = status;
    snprintf(s->message, sizeof s->message, "%s", kas_error());
}

static void fill(kas_reader *r, worker *w, uint32_t from, uint32_t to)
{
    uint32_t batch = r->o.batch, index = from / batch % (uint32_t)r->o.slots;
    slot *s = &r->slot[index];
    for (uint32_t position = from; position < to; position++) {
        size_t at = (size_t)index * batch + position % batch;
        kas_status status = load_image(r, w, position, r->o.pixels + at * r->image);
        r->o.labels[at] = r->pass.images->labels[r->pass.order[position]];
        if (status == KAS_OK)
            continue;
        pthread_mutex_lock(&r->lock);
        note_failure(s, position, status);
        pthread_mutex_unlock(&r->lock);
    }
}

/* Claims the next positions to be filled, all of one batch. Returns false when there is nothing to
 * do now. The lock is held. */
static bool claim(kas_reader *r, uint32_t *from, uint32_t *to)
{
    uint32_t batch = r->o.batch, number = r->claimed / batch;
    if (r->paused || r->claimed >= r->pass.count || number - r->released >= (uint32_t)r->o.slots)
        return false;
    uint32_t end = smaller((number + 1) * batch, r->pass.count);
    if (r->claimed % batch == 0)
        r->slot[number % (uint32_t)r->o.slots] =
            (slot){.missing = end - r->claimed, .worst = UINT32_MAX};
    *from = r->claimed;
    *to = r->claimed = smaller(end, r->claimed + r->claim_size);
    return true;
}

static void *work(void *argument)
{
    kas_reader *r = argument;
    worker w = {0};
    uint32_t from, to;
    pthread_mutex_lock(&r->lock);
    while (!r->ending) {
        if (!claim(r, &from, &to)) {
            pthread_cond_wait(&r->work, &r->lock);
            continue;
        }
        slot *s = &r->slot[from / r->o.batch % (uint32_t)r->o.slots];
        r->busy++;
        pthread_mutex_unlock(&r->lock);
        if (!r->pass.images->pixels)
            kas_read_ahead(&r->pass.images->storage, r->pass.shuffle, r->pass.order, r->pass.count,
                           from, to);
        fill(r, &w, from, to);
        pthread_mutex_lock(&r->lock);
        r->busy--;
        s->missing -= to - from;
        if (s->missing == 0 || r->busy == 0)
            pthread_cond_broadcast(&r->done);
    }
    pthread_mutex_unlock(&r->lock);
    kas_storage_scratch_free(&w.scratch);
    kas_renderer_free(&w.renderer);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

int kas_reader_threads(const kas_dataset *dataset)
{
    enum { FOR_PIXELS = 4 };
    const int count = kas_cores();
    int most = dataset->encoded ? MAX_THREADS : FOR_PIXELS;
    return count < most ? count : most;
}

/* Starts the threads, which block all signals, so that the older threads get them. */
static kas_status start_threads(kas_reader *r, int threads)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = 0;
    while (r->threads < threads && code == 0) {
        code = pthread_create(&r->thread[r->threads], NULL, work, r);
        r->threads += code == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r->threads == 0)
        return kas_fail(KAS_FAILURE, "cannot start a thread to read images: %s", strerror(code));
    return KAS_OK;
}

kas_status kas_reader_create(const kas_reader_options *o, kas_reader **out)
{
    int threads = o->threads ? o->threads : kas_reader_threads(o->dataset);
    *out = NULL;
    if (o->batch < 1 || o->slots < 2 || threads < 1 || threads > MAX_THREADS)
        return kas_fail(KAS_BAD_INPUT,
                        "reader: a ring of %d batches of %" PRIu32 " images and %d threads: "
                        "expected 2 or more, 1 or more and 1 to %d",
                        o->slots, o->batch, threads, MAX_THREADS);
    kas_reader *r = calloc(1, sizeof *r + (size_t)o->slots * sizeof *r->slot);
    if (!r)
        return kas_fail(KAS_NO_MEMORY, "no memory for a reader of images");
    r->o = *o;
    r->image = (size_t)o->dataset->h * o->dataset->w * o->dataset->c;
    r->claim_size =
        o->dataset->encoded || r->image >= CLAIM_BYTES ? 1 : (uint32_t)(CLAIM_BYTES / r->image);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->done, NULL);
    kas_status status = start_threads(r, threads);
    if (status != KAS_OK) {
        kas_reader_free(r);
        return status;
    }
    *out = r;
    return KAS_OK;
}

void kas_reader_free(kas_reader *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->ending = true;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->threads; i++)
        pthread_join(r->thread[i], NULL);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->done);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- passes ---------------------------------------------------------------------------------- */

kas_status kas_reader_begin(kas_reader *r, const kas_pass *pass)
{
    if (pass->first % r->o.batch != 0 || pass->count > UINT32_MAX - r->o.batch)
        return kas_fail(KAS_BAD_INPUT,
                        "reader: a pass over %" PRIu32 " images from %" PRIu32
                        " on: expected a multiple of the batch, %" PRIu32,
                        pass->count, pass->first, r->o.batch);
    pthread_mutex_lock(&r->lock);
    r->paused = true; /* nothing is claimed any more */
    while (r->busy > 0)
        pthread_cond_wait(&r->done, &r->lock);
    r->pass = *pass;
    r->paused = false;
    r->claimed = pass->first;
    r->taken = r->released = pass->first / r->o.batch;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    if (!pass->images->pixels)
        kas_read_ahead_begin(&pass->images->storage, pass->order, pass->count, pass->first);
    return KAS_OK;
}

/* Returns whether the batch was claimed to its end and is complete. The lock is held. */
static bool is_whole(const kas_reader *r, uint32_t number)
{
    uint32_t end = smaller((number + 1) * r->o.batch, r->pass.count);
    return r->claimed >= end && r->slot[number % (uint32_t)r->o.slots].missing == 0;
}

kas_status kas_reader_next(kas_reader *r, kas_batch *out)
{
    uint32_t number = r->taken, first = number * r->o.batch;
    if (first >= r->pass.count || number - r->released >= (uint32_t)r->o.slots)
        return kas_fail(KAS_FAILURE, "reader: batch %" PRIu32 " is asked for %s", number,
                        first >= r->pass.count ? "behind the end" : "while all slots are taken");
    uint32_t index = number % (uint32_t)r->o.slots;
    slot *s = &r->slot[index];
    pthread_mutex_lock(&r->lock);
    while (!is_whole(r, number))
        pthread_cond_wait(&r->done, &r->lock);
    r->taken++;
    pthread_mutex_unlock(&r->lock);
    if (s->worst != UINT32_MAX)
        return kas_fail(s->status, "%s", s->message);
    size_t at = (size_t)index * r->o.batch;
    *out = (kas_batch){smaller(r->o.batch, r->pass.count - first), r->o.pixels + at * r->image,
                       r->o.labels + at};
    return KAS_OK;
}

void kas_reader_release(kas_reader *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->released < r->taken)
        r->released++;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
}

kas_status kas_read_images(const kas_dataset *d, const uint32_t *order, uint32_t count,
                           uint8_t **pixels, uint16_t **labels)
{
    enum { SLOTS = 2 }; /* the least; the only batch lies in the first */
    const kas_pass pass = {.images = &d->train, .order = order, .count = count};
    kas_reader *reader = NULL;
    kas_batch batch;
    *pixels = malloc((size_t)SLOTS * count * d->h * d->w * d->c);
    *labels = malloc(sizeof **labels * SLOTS * count);
    if (!*pixels || !*labels)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for %u images", d->path, count);
    const kas_reader_options options = {.dataset = d,
                                        .batch = count,
                                        .slots = SLOTS,
                                        .threads = 1,
                                        .pixels = *pixels,
                                        .labels = *labels};
    kas_status status = kas_reader_create(&options, &reader);
    if (status == KAS_OK)
        status = kas_reader_begin(reader, &pass);
    if (status == KAS_OK)
        status = kas_reader_next(reader, &batch);
    kas_reader_free(reader);
    return status;
}

void kas_normalise_images(const kas_dataset *d, uint32_t count, const uint8_t *pixels, float *out)
{
    const size_t area = (size_t)d->h * d->w, c = d->c;
    for (size_t n = 0; n < count; n++)
        for (size_t p = 0; p < area; p++)
            for (size_t k = 0; k < c; k++)
                out[(n * c + k) * area + p] =
                    ((float)pixels[(n * area + p) * c + k] / 255 - d->mean[k]) / d->std[k];
}
