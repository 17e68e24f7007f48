#include "cuda/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/files.h"
#include "host/core/log.h"
#include "host/core/sha256.h"
#include "jit/cache.h"

enum {
    SAMPLES = 5,      /* the median counts */
    LAUNCHES = 4,     /* in a sample, so that the launch's own cost is hidden */
    FILL = 0x3C,      /* of scratch memory: a small finite number in every type */
    LOCK_SECONDS = 60 /* then it goes on without */
};
/* Less is noise: the library's own order decides. */
static const double worth = 0.98;

/* ---- records ----------------------------------------------------------------------------------
 */

typedef struct places {
    bool timed;
    char pinned[4096], cached[4096]; /* files; "" = not used */
    char lock[4096];
} places;

static void key_of(const kas_cuda *cuda, const kas_tuned *t, char key[65])
{
    kas_buf text = {0};
    kas_buf_printf(&text, "plan %d|%s|%s|driver %s|%s|%s", KAS_CACHE_FORMAT, cuda->base.info.name,
                   cuda->base.info.arch, cuda->driver->library.version, t->library, t->problem);
    kas_sha256_hex(kas_buf_text(&text), text.size, key);
    kas_buf_free(&text);
}

static kas_status find_mode(bool *timed)
{
    const char *mode = getenv("KAS_CUDA_PLANS");
    *timed = !mode || !*mode || strcmp(mode, "timed") == 0;
    if (!*timed && strcmp(mode, "heuristic") != 0)
        return kas_fail(KAS_USAGE, "KAS_CUDA_PLANS=%s: expected \"timed\" or \"heuristic\"", mode);
    return KAS_OK;
}

static kas_status find_places(const kas_cuda *cuda, const kas_tuned *t, places *p)
{
    const char *pins = getenv("KAS_CUDA_PINS");
    char key[65], cache[4096], folder[4096];
    *p = (places){0};
    KAS_TRY(find_mode(&p->timed));
    key_of(cuda, t, key);
    if (pins && *pins)
        KAS_TRY(kas_cache_path(pins, key, "plan", p->pinned));
    if (!p->timed)
        return KAS_OK;
    KAS_TRY(kas_cache_dir(cache));
    if (snprintf(folder, sizeof folder, "%s/plans", cache) >= (int)sizeof folder ||
        snprintf(p->lock, sizeof p->lock, "%s/timing", folder) >= (int)sizeof p->lock)
        return kas_fail(KAS_FAILURE, "%s: the cache folder's path is too long", cache);
    return kas_cache_path(folder, key, "plan", p->cached);
}

/* A record that cannot be used is as good as none. */
static kas_status take_record(kas_cuda *cuda, const kas_tuned *t, const char *path, kas_buf *record,
                              bool *found)
{
    *found = false;
    kas_buf_clear(record);
    if (!path[0])
        return KAS_OK;
    KAS_TRY(kas_cache_read(path, record, found));
    if (!*found)
        return KAS_OK;
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(kas_buf_text(record), "\n"),
             kas_buf_text(record));
    const kas_status status = t->read(cuda, t->self, line);
    if (status != KAS_UNSUPPORTED && status != KAS_BAD_INPUT)
        return status;
    kas_warn("%s: this plan cannot be used: %s; another is chosen", path, kas_error());
    *found = false;
    return KAS_OK;
}

static kas_status find_record(kas_cuda *cuda, const kas_tuned *t, const places *p, bool *found)
{
    kas_buf record = {0};
    kas_status status;
    KAS_TRY_GOTO(take_record(cuda, t, p->pinned, &record, found), done);
    if (*found)
        goto done;
    KAS_TRY_GOTO(take_record(cuda, t, p->cached, &record, found), done);
    if (*found && p->pinned[0])
        status = kas_cache_write(p->pinned, record.data, record.size);
done:
    kas_buf_free(&record);
    return status;
}

/* The cache saves time only; a study must have its plans. */
static kas_status write_record(const kas_tuned *t, const places *p, int chosen, int count,
                               double seconds)
{
    kas_buf record = {0};
    t->write(t->self, chosen, &record);
    kas_buf_printf(&record, "\n%s: %s\n", t->library, t->problem);
    if (seconds > 0)
        kas_buf_printf(&record, "%.2f us, the best of %d candidates\n", seconds * 1e6, count);
    kas_status status = kas_buf_status(&record);
    if (status == KAS_OK && p->pinned[0])
        status = kas_cache_write(p->pinned, record.data, record.size);
    if (status == KAS_OK && seconds > 0 && p->cached[0] &&
        kas_cache_write(p->cached, record.data, record.size) != KAS_OK)
        kas_warn("the plan is not kept: %s", kas_error());
    kas_buf_free(&record);
    return status;
}

/* ---- timing -----------------------------------------------------------------------------------
 */

typedef struct stopwatch {
    CUevent start, stop;
    CUdeviceptr memory[3]; /* x, w, y */
} stopwatch;

static void free_stopwatch(kas_cuda *cuda, stopwatch *s)
{
    if (!kas_cuda_enter_to_free(cuda))
        return;
    cuda->driver->cuStreamSynchronize(cuda->stream); /* after a failure work may be queued */
    for (int i = 0; i < 3; i++)
        if (s->memory[i])
            cuda->driver->cuMemFree_v2(s->memory[i]);
    if (s->start)
        cuda->driver->cuEventDestroy_v2(s->start);
    if (s->stop)
        cuda->driver->cuEventDestroy_v2(s->stop);
}

static kas_status make_stopwatch(kas_cuda *cuda, const kas_tuned *t, stopwatch *s)
{
    for (int i = 0; i < 3; i++) {
        KAS_TRY(KAS_CU(cuda, cuMemAlloc_v2(&s->memory[i], t->bytes[i])));
        KAS_TRY(KAS_CU(cuda, cuMemsetD8Async(s->memory[i], FILL, t->bytes[i], cuda->stream)));
    }
    KAS_TRY(KAS_CU(cuda, cuEventCreate(&s->start, KAS_CU_EVENT_DEFAULT)));
    return KAS_CU(cuda, cuEventCreate(&s->stop, KAS_CU_EVENT_DEFAULT));
}

static kas_status run_once(kas_cuda *cuda, const kas_tuned *t, const stopwatch *s)
{
    return t->run(cuda, t->self, (void *)(uintptr_t)s->memory[0], (void *)(uintptr_t)s->memory[1],
                  (void *)(uintptr_t)s->memory[2]);
}

static kas_status sample(kas_cuda *cuda, const kas_tuned *t, const stopwatch *s, double *seconds)
{
    float milliseconds = 0;
    KAS_TRY(KAS_CU(cuda, cuEventRecord(s->start, cuda->stream)));
    for (int i = 0; i < LAUNCHES; i++)
        KAS_TRY(run_once(cuda, t, s));
    KAS_TRY(KAS_CU(cuda, cuEventRecord(s->stop, cuda->stream)));
    KAS_TRY(KAS_CU(cuda, cuEventSynchronize(s->stop)));
    KAS_TRY(KAS_CU(cuda, cuEventElapsedTime(&milliseconds, s->start, s->stop)));
    *seconds = (double)milliseconds * 1e-3 / LAUNCHES;
    return KAS_OK;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static kas_status time_candidate(kas_cuda *cuda, const kas_tuned *t, const stopwatch *s,
                                 double *median)
{
    double seconds[SAMPLES];
    KAS_TRY(run_once(cuda, t, s)); /* loads modules, warms caches */
    for (int i = 0; i < SAMPLES; i++)
        KAS_TRY(sample(cuda, t, s, &seconds[i]));
    qsort(seconds, SAMPLES, sizeof *seconds, ascending);
    *median = seconds[SAMPLES / 2];
    return KAS_OK;
}

static kas_status time_all(kas_cuda *cuda, const kas_tuned *t, int count, const stopwatch *s,
                           int *best, double *best_seconds)
{
    for (int i = 0; i < count; i++) {
        double seconds = 0;
        kas_status status = t->take(cuda, t->self, i);
        if (status == KAS_OK)
            status = time_candidate(cuda, t, s, &seconds);
        if (status == KAS_UNSUPPORTED || status == KAS_NO_MEMORY) /* of its workspace */
            continue;
        KAS_TRY(status);
        if (*best < 0 || seconds < *best_seconds * worth) {
            *best = i;
            *best_seconds = seconds;
        }
    }
    return KAS_OK;
}

/* Candidates have a workspace of their own here: the device's must not grow for those that are not
 * chosen. */
static kas_status find_fastest(kas_cuda *cuda, const kas_tuned *t, int count, int *best,
                               double *seconds)
{
    const CUdeviceptr workspace = cuda->workspace;
    const size_t bytes = cuda->workspace_bytes;
    const kas_cuda_side side = cuda->side;
    stopwatch s = {0};
    cuda->workspace = 0;
    cuda->workspace_bytes = 0;
    cuda->side = (kas_cuda_side){NULL};
    *best = -1;
    kas_status status = make_stopwatch(cuda, t, &s);
    if (status == KAS_OK)
        status = time_all(cuda, t, count, &s, best, seconds);
    free_stopwatch(cuda, &s);
    if (cuda->workspace && kas_cuda_enter_to_free(cuda))
        cuda->driver->cuMemFree_v2(cuda->workspace);
    cuda->workspace = workspace;
    cuda->workspace_bytes = bytes;
    cuda->side = side;
    if (status != KAS_NO_MEMORY)
        return status;
    kas_debug("no memory to time plans: %s", kas_error());
    return KAS_OK;
}

/* ---- the choice -------------------------------------------------------------------------------
 */

static kas_status take_first(kas_cuda *cuda, const kas_tuned *t, int count, int *chosen)
{
    kas_status status =
        kas_fail(KAS_UNSUPPORTED, "%s has no usable plan for %s", t->library, t->problem);
    for (int i = 0; i < count && status == KAS_UNSUPPORTED; i++) {
        status = t->take(cuda, t->self, i);
        *chosen = i;
    }
    return status;
}

static kas_status choose(kas_cuda *cuda, const kas_tuned *t, const places *p)
{
    int count = 0, chosen = -1;
    double seconds = 0;
    KAS_TRY(t->list(cuda, t->self, &count));
    if (p->timed && count > 1)
        KAS_TRY(find_fastest(cuda, t, count, &chosen, &seconds));
    if (chosen >= 0)
        KAS_TRY(t->take(cuda, t->self, chosen));
    else
        KAS_TRY(take_first(cuda, t, count, &chosen));
    kas_debug("%s, %s: candidate %d of %d, %.1f us", t->library, t->problem, chosen + 1, count,
              seconds * 1e6);
    return write_record(t, p, chosen, count, seconds);
}

kas_status kas_tune(kas_cuda *cuda, const kas_tuned *t)
{
    places p;
    bool found = false;
    KAS_TRY(find_places(cuda, t, &p));
    KAS_TRY(find_record(cuda, t, &p, &found));
    if (found)
        return KAS_OK;
    const char *lock_path = p.lock[0] ? p.lock : p.pinned;
    const int lock = lock_path[0] ? kas_cache_lock(lock_path, LOCK_SECONDS) : -1;
    kas_status status = lock < 0 ? KAS_OK : find_record(cuda, t, &p, &found); /* since then */
    if (status == KAS_OK && !found)
        status = choose(cuda, t, &p);
    if (lock >= 0)
        kas_cache_unlock(lock_path, lock);
    return status;
}

/* ---- convolutions as problems -----------------------------------------------------------------
 */

void kas_tuned_problem(const kas_conv_desc *d, kas_conv_pass pass, kas_buf *out)
{
    static const char *const name[] = {"forward", "backward data", "backward weights"};
    kas_buf_printf(out,
                   "%s n %d, %dx%d, %d -> %d channels in %d groups, kernel %dx%d, stride %d, "
                   "padding %d,%d, dilation %d, pitches %d,%d, %s",
                   name[pass], d->n, d->h, d->w, d->c_in, d->c_out, d->groups, d->kernel_h,
                   d->kernel_w, d->stride, d->pad_h, d->pad_w, kas_conv_dilation(d), d->x_pitch,
                   d->y_pitch, d->tf32 ? "tf32" : kas_number_name(d->number));
}

void kas_tuned_bytes(const kas_conv_desc *d, size_t bytes[3])
{
    const size_t size = kas_number_size(d->number);
    bytes[0] = (size_t)d->n * (size_t)d->h * (size_t)d->w * (size_t)d->x_pitch * size;
    bytes[1] = (size_t)d->c_out * (size_t)d->kernel_h * (size_t)d->kernel_w *
               (size_t)(d->c_in / d->groups) * sizeof(float); /* dw may be float32 */
    bytes[2] = (size_t)d->n * (size_t)kas_conv_out_h(d) * (size_t)kas_conv_out_w(d) *
               (size_t)d->y_pitch * size;
}
