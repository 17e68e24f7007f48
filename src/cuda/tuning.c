#include "cuda/tuning.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/plan_records.h"
#include "host/core/log.h"
#include "host/device/dtype.h"
#include "jit/compile/cache.h"

enum {
    MAX_RUN = 8, /* most candidates that are timed, or are seen to lose NaN */
    /* Once a candidate is timed, no more than so many are made: one may take the library a second. */
    MAX_MADE = 12,
    SAMPLES = 5,      /* samples of a candidate, of which the median counts */
    LONG_SAMPLES = 3, /* of one that takes more than a millisecond */
    LAUNCHES = 10,    /* most launches of a sample, see `enough` */
    /* A candidate of which none of three launches takes less than three times the best time so far is not
     * timed further: of a single one the machine may disturb the measurement. */
    HOPELESS = 3,
    TRIES = 3,
    FILL = 0x3C, /* fills scratch memory: a small finite number in every type */
    FILL_NAN = 0xFF,
    LOCK_SECONDS = 60 /* seconds after which it goes on without the lock */
};
/* A candidate must take less than this share of the best time so far. Less gain is noise, and then
 * the library's own order decides. */
static const double worth = 0.98;
/* What the host's launch of a call may take, in seconds, which one launch on an idle stream includes */
static const double launching = 50e-6;
/* A sample is one graph of launches for about so many seconds, so that the cost of launching is not measured */
static const double enough = 500e-6, long_call = 1e-3;

/* Scratch memory for a call. A bias, which is smaller than w, shares w's. */
enum { X, W, Y, RESIDUAL, OPERANDS };

/* The problem for which a plan is chosen. */
typedef struct task {
    const kas_tuned *t;
    /* Everything on which the choice depends, besides GPU, driver and library */
    const char *problem;
    const kas_conv_desc *desc;
    kas_conv_beside beside;
    size_t bytes[OPERANDS];
} task;

/* The result of the choice. */
typedef struct choice {
    int listed, run, timed, best; /* best: -1 = none was timed */
    double seconds;               /* of the best; 0 = not timed */
    /* Why candidates were passed over: KAS_UNSUPPORTED where all were refused, and will be another time;
     * KAS_NO_MEMORY or a failure where one of them was not. */
    kas_status reason;
    bool none; /* all candidates were refused */
} choice;

/* ---- timing ---------------------------------------------------------------------------------- */

typedef struct stopwatch {
    const kas_tuned *t;
    CUevent start, stop;
    int repeats;                  /* launches in a sample */
    CUgraphExec launches;         /* those of the candidate that is being timed */
    CUdeviceptr memory[OPERANDS]; /* 0: none */
    kas_conv_operands operands;
    char *pixel; /* host memory that copies in the stream may still write */
} stopwatch;

static void free_stopwatch(kas_cuda *cuda, stopwatch *s)
{
    if (kas_cuda_enter_to_free(cuda)) {
        cuda->driver->cuStreamSynchronize(cuda->stream); /* after a failure work may be queued */
        for (int i = 0; i < OPERANDS; i++)
            if (s->memory[i])
                cuda->driver->cuMemFree_v2(s->memory[i]);
        if (s->start)
            cuda->driver->cuEventDestroy_v2(s->start);
        if (s->stop)
            cuda->driver->cuEventDestroy_v2(s->stop);
    }
    free(s->pixel);
}

static void *memory_of(const stopwatch *s, int operand)
{
    return (void *)(uintptr_t)s->memory[operand];
}

static kas_status make_stopwatch(kas_cuda *cuda, const task *k, stopwatch *s)
{
    *s = (stopwatch){.t = k->t};
    for (int i = 0; i < OPERANDS; i++) {
        if (!k->bytes[i])
            continue;
        KAS_TRY(KAS_CU(cuda, cuMemAlloc_v2(&s->memory[i], k->bytes[i])));
        KAS_TRY(KAS_CU(cuda, cuMemsetD8Async(s->memory[i], FILL, k->bytes[i], cuda->stream)));
    }
    s->operands = (kas_conv_operands){.x = memory_of(s, X),
                                      .w = memory_of(s, W),
                                      .y = memory_of(s, Y),
                                      .bias = k->beside.bias ? memory_of(s, W) : NULL,
                                      .residual = memory_of(s, RESIDUAL)};
    KAS_TRY(KAS_CU(cuda, cuEventCreate(&s->start, KAS_CU_EVENT_BLOCKING_SYNC)));
    return KAS_CU(cuda, cuEventCreate(&s->stop, KAS_CU_EVENT_BLOCKING_SYNC));
}

static kas_status run_once(kas_cuda *cuda, const stopwatch *s)
{
    return s->t->run(cuda, s->t->self, &s->operands);
}

static kas_status run_often(kas_cuda *cuda, const void *stopwatch_of)
{
    const stopwatch *s = stopwatch_of;
    for (int i = 0; i < s->repeats; i++)
        KAS_TRY(run_once(cuda, s));
    return KAS_OK;
}

static kas_status stop(kas_cuda *cuda, const stopwatch *s, double *seconds)
{
    float milliseconds = 0;
    KAS_TRY(KAS_CU(cuda, cuEventRecord(s->stop, cuda->stream)));
    KAS_TRY(KAS_CU(cuda, cuEventSynchronize(s->stop)));
    KAS_TRY(KAS_CU(cuda, cuEventElapsedTime(&milliseconds, s->start, s->stop)));
    *seconds = (double)milliseconds * 1e-3;
    return KAS_OK;
}

static kas_status sample(kas_cuda *cuda, const stopwatch *s, double *seconds)
{
    /* The host's launch of the second one lies within the first. */
    KAS_TRY(KAS_CU(cuda, cuGraphLaunch(s->launches, cuda->stream)));
    KAS_TRY(KAS_CU(cuda, cuEventRecord(s->start, cuda->stream)));
    KAS_TRY(KAS_CU(cuda, cuGraphLaunch(s->launches, cuda->stream)));
    KAS_TRY(stop(cuda, s, seconds));
    *seconds /= s->repeats;
    return KAS_OK;
}

static kas_status time_once(kas_cuda *cuda, const stopwatch *s, double *seconds)
{
    KAS_TRY(KAS_CU(cuda, cuEventRecord(s->start, cuda->stream)));
    KAS_TRY(run_once(cuda, s));
    return stop(cuda, s, seconds);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- NaN --------------------------------------------------------------------------------------
 *
 * Libraries define a fused ReLU as max(x, 0), which some code makes 0 of NaN; no documentation says
 * which.  So a candidate with an activation is run once with weights and bias of NaN before it is
 * taken. */

static bool all_nan(const void *pixel, const kas_conv_desc *d)
{
    for (int c = 0; c < d->c_out; c++)
        if (!isnan(kas_dtype_get(pixel, d->dtype, (size_t)c)))
            return false;
    return true;
}

/* Sets *nan to whether the first and the last pixel of y are NaN. */
static kas_status read_pixels(kas_cuda *cuda, const task *k, stopwatch *s, bool *nan)
{
    const size_t size = kas_dtype_size(k->desc->dtype);
    const CUdeviceptr y = s->memory[Y], last = y + k->bytes[Y] - (size_t)k->desc->y_pitch * size;
    if (!s->pixel) /* of an earlier candidate, which had as many channels */
        s->pixel = malloc((size_t)k->desc->c_out * size);
    if (!s->pixel)
        return kas_fail(KAS_NO_MEMORY, "no memory for a pixel of %d channels", k->desc->c_out);
    *nan = true;
    for (int i = 0; i < 2; i++) {
        KAS_TRY(KAS_CU(cuda, cuMemcpyDtoHAsync_v2(s->pixel, i ? last : y,
                                                  (size_t)k->desc->c_out * size, cuda->stream)));
        KAS_TRY(KAS_CU(cuda, cuStreamSynchronize(cuda->stream)));
        *nan = *nan && all_nan(s->pixel, k->desc);
    }
    return KAS_OK;
}

/* Checks that the plan just taken passes NaN on. Nothing of it is running afterwards. */
static kas_status check_nan(kas_cuda *cuda, const task *k, stopwatch *s, choice *c)
{
    bool nan = false;
    KAS_TRY(KAS_CU(cuda, cuMemsetD8Async(s->memory[W], FILL_NAN, k->bytes[W], cuda->stream)));
    KAS_TRY(KAS_CU(cuda, cuMemsetD8Async(s->memory[Y], FILL, k->bytes[Y], cuda->stream)));
    KAS_TRY(run_once(cuda, s));
    KAS_TRY(read_pixels(cuda, k, s, &nan));
    c->run += !nan;
    return nan ? KAS_OK : kas_fail(KAS_UNSUPPORTED, "its activation turns NaN into a number");
}

/* Takes candidate c->best and checks it for NaN, with scratch memory of its own. */
static kas_status take_checked(kas_cuda *cuda, const task *k, choice *c)
{
    KAS_TRY(k->t->take(cuda, k->t->self, c->best));
    if (k->beside.activation == KAS_ACTIVATION_NONE)
        return KAS_OK;
    stopwatch s;
    kas_status status = make_stopwatch(cuda, k, &s);
    if (status == KAS_OK)
        status = check_nan(cuda, k, &s, c);
    free_stopwatch(cuda, &s);
    return status;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Takes the samples of a candidate. The launches are a graph, as they will be in a plan: launched
 * one by one, the host may be slower than a small kernel, and its time would be measured. A
 * candidate that cannot be captured does not count. One that is hopeless beside `best` (0: there is
 * none yet) has the time of its fastest launch. */
static kas_status take_samples(kas_cuda *cuda, stopwatch *s, double best, double *median)
{
    double seconds[SAMPLES];
    KAS_TRY(run_once(cuda, s)); /* loads modules, warms caches */
    const double most = best > 0 ? HOPELESS * best + launching : DBL_MAX;
    double least = INFINITY, once;
    for (int i = 0; i < TRIES && least > most; i++) {
        KAS_TRY(time_once(cuda, s, &once));
        least = fmin(least, once);
    }
    if (least > most) {
        *median = least;
        return KAS_OK;
    }
    s->repeats = (int)fmax(1, fmin(LAUNCHES, ceil(enough / least)));
    const int samples = least > long_call ? LONG_SAMPLES : SAMPLES;
    KAS_TRY(kas_cuda_make_graph(cuda, run_often, s, &s->launches));
    for (int i = 0; i < samples; i++)
        KAS_TRY(sample(cuda, s, &seconds[i]));
    qsort(seconds, (size_t)samples, sizeof *seconds, ascending);
    *median = seconds[samples / 2];
    return KAS_OK;
}

/* Times one candidate. Nothing of it is running afterwards, so its plan may be freed. */
static kas_status time_candidate(kas_cuda *cuda, const task *k, stopwatch *s, int candidate,
                                 choice *c, double *median)
{
    kas_status status = KAS_OK;
    KAS_TRY(s->t->take(cuda, s->t->self, candidate));
    if (k->beside.activation != KAS_ACTIVATION_NONE)
        status = check_nan(cuda, k, s, c);
    if (status == KAS_OK)
        status = KAS_CU(cuda, cuMemsetD8Async(s->memory[W], FILL, k->bytes[W], cuda->stream));
    if (status == KAS_OK)
        status = take_samples(cuda, s, c->seconds, median);
    if (status != KAS_OK && !cuda->lost) {
        const kas_status end = KAS_CU(cuda, cuStreamSynchronize(cuda->stream));
        status = cuda->lost ? end : status;
    }
    if (s->launches && !cuda->lost)
        cuda->driver->cuGraphExecDestroy(s->launches);
    s->launches = NULL;
    return status;
}

/* Returns whether the candidate is passed over: one bad engine does not cost the convolution, and
 * neither does one that wants too large a workspace. */
static bool passes_over(const kas_cuda *cuda, choice *c, int candidate, kas_status status)
{
    if (status != KAS_NO_MEMORY && !kas_cuda_is_refusal(cuda, status))
        return false;
    if (status != KAS_UNSUPPORTED && c->reason != KAS_NO_MEMORY)
        c->reason = status;
    kas_debug("candidate %d is passed over: %s", candidate + 1, kas_error());
    return true;
}

static kas_status time_all(kas_cuda *cuda, const task *k, stopwatch *s, choice *c)
{
    c->reason = KAS_UNSUPPORTED;
    for (int i = 0; i < c->listed && c->run < MAX_RUN && (i < MAX_MADE || c->timed == 0); i++) {
        double seconds = 0;
        const kas_status status = time_candidate(cuda, k, s, i, c, &seconds);
        if (passes_over(cuda, c, i, status))
            continue;
        KAS_TRY(status);
        c->run++;
        c->timed++;
        if (c->best < 0 || seconds < c->seconds * worth) {
            c->best = i;
            c->seconds = seconds;
        }
    }
    c->none = c->best < 0 && c->reason == KAS_UNSUPPORTED;
    return KAS_OK;
}

/* Finds the fastest candidate. Candidates have a separate workspace here, because the device's must
 * not grow for candidates that are not chosen. */
static kas_status find_fastest(kas_cuda *cuda, const task *k, choice *c)
{
    const CUdeviceptr workspace = cuda->workspace;
    const size_t bytes = cuda->workspace_bytes;
    const uint64_t generation = cuda->workspace_generation;
    stopwatch s;
    cuda->workspace = 0;
    cuda->workspace_bytes = 0;
    kas_status status = make_stopwatch(cuda, k, &s);
    if (status == KAS_OK)
        status = time_all(cuda, k, &s, c);
    free_stopwatch(cuda, &s);
    if (cuda->workspace && kas_cuda_enter_to_free(cuda))
        cuda->driver->cuMemFree_v2(cuda->workspace);
    cuda->workspace = workspace;
    cuda->workspace_bytes = bytes;
    cuda->workspace_generation = generation;
    if (status != KAS_NO_MEMORY && !kas_cuda_is_refusal(cuda, status))
        return status;
    kas_debug("plans cannot be timed: %s", kas_error());
    return KAS_OK;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static kas_status take_first(kas_cuda *cuda, const task *k, choice *c)
{
    c->reason = KAS_UNSUPPORTED;
    c->run = 0;
    for (c->best = 0; c->best < c->listed && c->run < MAX_RUN; c->best++) {
        const kas_status status = take_checked(cuda, k, c);
        if (!passes_over(cuda, c, c->best, status))
            return status;
    }
    c->none = c->reason == KAS_UNSUPPORTED;
    if (c->none)
        return KAS_OK;
    const bool no_memory = c->reason == KAS_NO_MEMORY;
    return kas_fail(no_memory ? KAS_NO_MEMORY : KAS_UNSUPPORTED, "%s has no usable plan for %s%s",
                    k->t->name, k->problem,
                    no_memory ? ", some because there was no memory for their workspace" : "");
}

/* Takes the fastest candidate. It was timed with a separate workspace and may find no memory beside
 * what the device keeps. */
static kas_status take_best(kas_cuda *cuda, const task *k, choice *c)
{
    if (c->none)
        return KAS_OK;
    if (c->best < 0)
        return take_first(cuda, k, c);
    const kas_status status = k->t->take(cuda, k->t->self, c->best);
    if (!passes_over(cuda, c, c->best, status))
        return status;
    c->seconds = 0;
    return take_first(cuda, k, c);
}

static kas_status list(kas_cuda *cuda, const task *k, choice *c)
{
    const kas_status status = k->t->list(cuda, k->t->self, &c->listed);
    if (!kas_cuda_is_refusal(cuda, status))
        return status;
    return kas_fail_context(KAS_UNSUPPORTED, "no plans of %s for %s", k->t->name, k->problem);
}

/* A choice that should have been timed and could not be is not written down: it would be the study's for
 * good. */
static kas_status write_down(kas_cuda *cuda, const task *k, const kas_plan_places *p,
                             const choice *c, kas_plan_known *what)
{
    kas_buf remarks = {0};
    *what = c->none ? KAS_PLAN_NONE : KAS_PLAN_KNOWN;
    if (p->timed && c->listed > 1 && c->seconds <= 0 && !c->none) {
        kas_warn("%s: candidates for %s could not be timed; candidate %d of %d is taken and not "
                 "pinned: where another is taken later, results may differ in their last digits",
                 k->t->name, k->problem, c->best + 1, c->listed);
        return KAS_OK;
    }
    kas_buf_printf(&remarks, "%s: %s\n", k->t->name, k->problem);
    if (c->seconds > 0)
        kas_buf_printf(&remarks, "%.2f us, the best of %d candidates\n", c->seconds * 1e6,
                       c->timed);
    kas_status status = kas_buf_status(&remarks);
    if (status == KAS_OK)
        status = kas_plan_record_write(cuda, k->t, p, c->best, kas_buf_text(&remarks),
                                       c->seconds > 0 || c->none, what);
    kas_buf_free(&remarks);
    return status;
}

static kas_status choose(kas_cuda *cuda, const task *k, const kas_plan_places *p,
                         kas_plan_known *what)
{
    choice c = {.best = -1};
    KAS_TRY(list(cuda, k, &c));
    if (p->timed && c.listed > 1)
        KAS_TRY(find_fastest(cuda, k, &c));
    KAS_TRY(take_best(cuda, k, &c));
    kas_debug("%s, %s: candidate %d of %d, %d timed, %.1f us%s", k->t->name, k->problem, c.best + 1,
              c.listed, c.timed, c.seconds * 1e6, c.none ? "; none can be used" : "");
    return write_down(cuda, k, p, &c, what);
}

static kas_status answer(const task *k, kas_plan_known what)
{
    if (what == KAS_PLAN_KNOWN)
        return KAS_OK;
    return kas_fail(KAS_UNSUPPORTED, "%s has no usable plan for %s", k->t->name, k->problem);
}

static kas_status tune(kas_cuda *cuda, const task *k)
{
    kas_plan_places p;
    kas_plan_known what;
    KAS_TRY(kas_plan_places_find(cuda, k->t, k->problem, &p));
    KAS_TRY(kas_plan_record_find(cuda, k->t, &p, &what));
    if (what != KAS_PLAN_UNKNOWN)
        return answer(k, what);
    /* Quiet is asked for before the lock is taken: an item that waits for the lock would
     * not become quiet. */
    if (p.timed && cuda->base.quiet)
        cuda->base.quiet(cuda->base.quiet_context);
    const char *lock_path = p.lock[0] ? p.lock : p.pinned;
    const int lock = lock_path[0] ? kas_cache_lock(lock_path, LOCK_SECONDS) : -1;
    kas_status status =
        kas_plan_record_find(cuda, k->t, &p, &what); /* somebody may have chosen since */
    if (status == KAS_OK && what == KAS_PLAN_UNKNOWN)
        status = choose(cuda, k, &p, &what);
    if (lock >= 0)
        kas_cache_unlock(lock_path, lock);
    return status == KAS_OK ? answer(k, what) : status;
}

/* ---- convolutions as problems ---------------------------------------------------------------- */

static void describe(const kas_conv_desc *d, kas_conv_pass pass, kas_conv_beside beside,
                     kas_buf *out)
{
    static const char *const name[] = {"forward", "backward data", "backward weights"};
    kas_buf_printf(out,
                   "%s n %d, %dx%d, %d -> %d channels in %d groups, kernel %dx%d, stride %d, "
                   "padding %d,%d, dilation %d, pitches %d,%d, %s%s%s",
                   name[pass], d->n, d->h, d->w, d->c_in, d->c_out, d->groups, d->kernel_h,
                   d->kernel_w, d->stride, d->pad_h, d->pad_w, kas_conv_dilation(d), d->x_pitch,
                   d->y_pitch, d->tf32 ? "tf32" : kas_dtype_names[d->dtype],
                   beside.residual ? ", residual" : "", beside.bias ? ", bias" : "");
    if (beside.activation != KAS_ACTIVATION_NONE)
        kas_buf_printf(out, ", activation %d", (int)beside.activation);
}

/* Computes the bytes of x, w and y, with dw in the dtype in which the library writes it. */
static void count_bytes(const kas_conv_desc *d, size_t bytes[3])
{
    const size_t size = kas_dtype_size(d->dtype);
    bytes[0] = (size_t)d->n * (size_t)d->h * (size_t)d->w * (size_t)d->x_pitch * size;
    bytes[1] = (size_t)d->c_out * (size_t)d->kernel_h * (size_t)d->kernel_w *
               (size_t)(d->c_in / d->groups) * sizeof(float); /* dw may be float32 */
    bytes[2] = (size_t)d->n * (size_t)kas_conv_out_h(d) * (size_t)kas_conv_out_w(d) *
               (size_t)d->y_pitch * size;
}

kas_status kas_tune_conv(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                         kas_conv_beside beside, const kas_tuned *t)
{
    kas_buf problem = {0};
    describe(desc, pass, beside, &problem);
    kas_status status = kas_buf_status(&problem);
    task k = {.t = t, .problem = kas_buf_text(&problem), .desc = desc, .beside = beside};
    count_bytes(desc, k.bytes);
    k.bytes[RESIDUAL] = beside.residual ? k.bytes[Y] : 0;
    if (status == KAS_OK)
        status = tune(cuda, &k);
    kas_buf_free(&problem);
    return status;
}
