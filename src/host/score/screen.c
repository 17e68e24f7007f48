#include "host/score/screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"

/* The state of one distinct target on the device. */
typedef struct trial {
    const kas_program *program;
    const kas_loaded *loaded;
    kas_plan *plan;
    void **address; /* [program->buffers] */
} trial;

static void free_trial(kas_device *device, trial *t)
{
    kas_plan_free(t->plan);
    for (int i = 0; t->address && i < t->program->buffers; i++)
        kas_mem_free(device, t->address[i]);
    free(t->address);
}

static size_t pixels(const trial *t)
{
    return (size_t)t->program->batch * t->program->target.h * t->program->target.w;
}

static void fill_weight(const kas_weight *w, kas_rng *rng, float *host)
{
    double scale = 1 / sqrt((double)w->fan_in);
    for (uint32_t r = 0; r < w->instances; r++)
        for (uint32_t g = 0; g < w->groups; g++)
            for (uint32_t o = 0; o < w->fan_out; o++)
                for (uint32_t i = 0; i < w->fan_in; i++)
                    host[kas_weight_offset(w, r, g, o, i)] =
                        w->init == KAS_WEIGHT_ONES ? 1 : (float)(scale * kas_rng_normal(rng));
}

/* Fills X (except padding, which stays zero) and the weights with normal numbers, other buffers
 * with zeros. */
static kas_status fill(kas_device *device, const trial *t, int b, kas_rng *rng)
{
    const kas_buffer *buffer = &t->program->buffer[b];
    size_t floats = buffer->bytes / sizeof(float);
    if (buffer->role != KAS_ROLE_X && buffer->role != KAS_ROLE_WEIGHT)
        return kas_mem_zero(device, t->address[b], buffer->bytes);
    float *host = calloc(floats + 1, sizeof *host);
    if (!host)
        return kas_fail(KAS_NO_MEMORY, "screen: out of memory");
    size_t c_in = t->program->target.c_in, pitch = floats / pixels(t);
    if (buffer->role == KAS_ROLE_WEIGHT)
        fill_weight(&t->program->weight[buffer->index], rng, host);
    else
        for (size_t p = 0; p < pixels(t); p++)
            for (size_t c = 0; c < c_in; c++)
                host[p * pitch + c] = (float)kas_rng_normal(rng);
    kas_status status = kas_mem_upload(device, t->address[b], host, floats * sizeof *host);
    free(host);
    return status;
}

static kas_status run(kas_device *device, trial *t, kas_rng *rng)
{
    t->address = calloc((size_t)t->program->buffers, sizeof *t->address);
    if (!t->address)
        return kas_fail(KAS_NO_MEMORY, "screen: out of memory");
    for (int b = 0; b < t->program->buffers; b++) {
        KAS_TRY(kas_mem_alloc(device, t->program->buffer[b].bytes, &t->address[b]));
        KAS_TRY(fill(device, t, b, rng));
    }
    KAS_TRY(kas_plan_create(device, &t->plan));
    KAS_TRY(kas_loaded_append(t->loaded, t->plan, false, t->address));
    KAS_TRY(kas_plan_run(t->plan));
    return kas_device_sync(device);
}

/* Computes the standard deviation in double in two passes, so exactly that a constant output
 * gives 0. */
static double standard_deviation(const float *y, size_t count, size_t pitch, size_t channels)
{
    double mean = 0, square = 0, elements = (double)count * (double)channels;
    for (size_t p = 0; p < count; p++)
        for (size_t c = 0; c < channels; c++)
            mean += y[p * pitch + c] / elements;
    for (size_t p = 0; p < count; p++)
        for (size_t c = 0; c < channels; c++) {
            double d = y[p * pitch + c] - mean;
            square += d * d / elements;
        }
    return sqrt(square); /* not finite when any element is not */
}

static void note(const trial *t, double std, kas_screen *out)
{
    double farthest = fmax(fabs(log(out->std_min)), fabs(log(out->std_max)));
    if (!isfinite(std)) {
        if (out->finite)
            snprintf(out->worst, sizeof out->worst, "%s", t->program->target.name);
        out->finite = false;
        return;
    }
    bool first = out->std_min > out->std_max;
    if (out->finite && (first || fabs(log(std)) > farthest))
        snprintf(out->worst, sizeof out->worst, "%s", t->program->target.name);
    out->std_min = fmin(out->std_min, std);
    out->std_max = fmax(out->std_max, std);
}

static kas_status measure(kas_device *device, const trial *t, kas_screen *out)
{
    for (int b = 0; b < t->program->buffers; b++) {
        const kas_buffer *buffer = &t->program->buffer[b];
        if (buffer->role != KAS_ROLE_Y)
            continue;
        float *host = malloc(buffer->bytes);
        if (!host)
            return kas_fail(KAS_NO_MEMORY, "screen: out of memory");
        memset(host, 0xff, buffer->bytes); /* NaN, so that a copy that does nothing is noticed */
        kas_status status = kas_mem_download(device, host, t->address[b], buffer->bytes);
        if (status == KAS_OK)
            note(t,
                 standard_deviation(host, pixels(t), buffer->bytes / sizeof *host / pixels(t),
                                    t->program->target.c_out),
                 out);
        free(host);
        return status;
    }
    return kas_fail(KAS_FAILURE, "screen: the program for %s has no output",
                    t->program->target.name);
}

static kas_status one_trial(kas_device *device, trial *t, kas_rng *rng, kas_screen *out)
{
    kas_status status = run(device, t, rng);
    if (status == KAS_OK)
        status = measure(device, t, out);
    free_trial(device, t);
    return status;
}

kas_status kas_screen_kernel(kas_device *device, kas_programs *programs, uint64_t seed,
                             const char *cache_dir, kas_screen *out)
{
    *out = (kas_screen){.finite = true, .std_min = INFINITY, .std_max = 0};
    KAS_TRY(kas_programs_load(programs, device, cache_dir, &out->compile_seconds));
    for (int i = 0; i < programs->count; i++) {
        kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, (uint64_t)i);
        trial t = {.program = programs->program[i], .loaded = programs->loaded[i]};
        KAS_TRY(one_trial(device, &t, &rng, out));
    }
    return KAS_OK;
}

bool kas_screen_passes(const kas_screen *screen)
{
    return screen->finite && screen->std_min >= KAS_SCREEN_STD_LOW &&
           screen->std_max <= KAS_SCREEN_STD_HIGH;
}
