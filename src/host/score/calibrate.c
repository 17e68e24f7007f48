#include "host/score/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/data/reader.h"

/* ---- images ---------------------------------------------------------------------------------- */

kas_status kas_calibration_images(const kas_dataset *d, const uint32_t *index, uint32_t count,
                                  int batch, float **out)
{
    const size_t n = (size_t)batch;
    uint8_t *pixels = NULL;
    uint16_t *labels = NULL;
    uint32_t *order = malloc(sizeof *order * n);
    kas_status status = KAS_OK;
    *out = malloc(sizeof **out * n * d->h * d->w * d->c);
    if (!*out || !order) {
        status = kas_fail(KAS_NO_MEMORY, "calibration: no memory for %d images", batch);
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t at = (uint32_t)(i * count / n);
        order[i] = index ? index[at] : at;
    }
    KAS_TRY_GOTO(kas_read_images(d, order, (uint32_t)batch, &pixels, &labels), done);
    kas_normalise_images(d, (uint32_t)batch, pixels, *out);
done:
    if (status != KAS_OK) {
        free(*out);
        *out = NULL;
    }
    free(order);
    free(labels);
    free(pixels);
    return status;
}

/* ---- one output ------------------------------------------------------------------------------ */

/* The standard deviations of an output in double, in two passes, so exactly that a constant one
 * gives 0. */
typedef struct spread {
    double within;  /* channels: from the mean of each */
    double overall; /* from the mean of all */
    double largest; /* magnitude; not finite when any element is not */
} spread;

static spread spread_of(const float *y, const kas_tensor *t)
{
    const size_t pixels = (size_t)t->n * (size_t)t->h * (size_t)t->w, c = (size_t)t->c;
    spread s = {0};
    double sum = 0, squares = 0, between = 0;
    for (size_t k = 0; k < c; k++) {
        double mean = 0, own = 0;
        for (size_t p = 0; p < pixels; p++) {
            const double value = y[p * (size_t)t->pitch + k];
            mean += value / (double)pixels;
            s.largest = isnan(value) ? value : fmax(s.largest, fabs(value));
            if (isnan(s.largest))
                return s;
        }
        for (size_t p = 0; p < pixels; p++) {
            const double d = y[p * (size_t)t->pitch + k] - mean;
            own += d * d / (double)pixels;
        }
        squares += own / (double)c;
        sum += mean / (double)c;
        between += mean * mean / (double)c;
    }
    s.within = sqrt(squares);
    s.overall = sqrt(squares + fmax(0, between - sum * sum));
    return s;
}

static float gain_of(double deviation, bool norm_follows)
{
    if (norm_follows && deviation >= KAS_CALIBRATE_LOW && deviation <= KAS_CALIBRATE_HIGH)
        return 1;
    const double most = log2(KAS_GAIN_MOST);
    return (float)exp2(-fmin(fmax(rint(log2(deviation)), -most), most));
}

/* Notes the spread of the output at a target; *go_on is false when it is of no use. */
static void judge(const kas_target *t, const spread *s, float *gain, kas_calibration *out,
                  bool *go_on)
{
    const double deviation = t->epilogue.norm ? s->within : s->overall;
    out->result = !isfinite(s->largest)                          ? KAS_CALIBRATE_NOT_FINITE
                  : s->within > KAS_CALIBRATE_NOISE * s->largest ? KAS_CALIBRATE_OK
                                                                 : KAS_CALIBRATE_SAME;
    *go_on = out->result == KAS_CALIBRATE_OK;
    if (!*go_on) {
        snprintf(out->layer, sizeof out->layer, "%s", t->name);
        return;
    }
    out->std_min = fmin(out->std_min, deviation);
    out->std_max = fmax(out->std_max, deviation);
    *gain = gain_of(deviation, t->epilogue.norm);
}

/* Measures the output of the kernel at a target, and multiplies it by its gain for what follows. */
static kas_status calibrate_output(kas_device *device, const kas_tensor *y, const kas_target *t,
                                   float *gain, kas_calibration *out, bool *go_on)
{
    const size_t pixels = (size_t)y->n * (size_t)y->h * (size_t)y->w;
    const size_t floats = (pixels - 1) * (size_t)y->pitch + (size_t)y->c;
    float *host = malloc(sizeof *host * floats);
    if (!host)
        return kas_fail(KAS_NO_MEMORY, "calibration: no memory for the output of %s", t->name);
    memset(host, 0xff,
           sizeof *host * floats); /* NaN, so that a copy that does nothing is noticed */
    kas_status status = kas_mem_download(device, host, y->data, sizeof *host * floats);
    if (status == KAS_OK) {
        const spread s = spread_of(host, y);
        judge(t, &s, gain, out, go_on);
    }
    if (status == KAS_OK && *go_on && *gain != 1) {
        for (size_t p = 0; p < pixels; p++)
            for (size_t c = 0; c < (size_t)y->c; c++)
                host[p * (size_t)y->pitch + c] *= *gain;
        status = kas_mem_upload(device, y->data, host, sizeof *host * floats);
    }
    free(host);
    return status;
}

/* ---- the network ----------------------------------------------------------------------------- */

static kas_status walk(kas_device *device, kas_model *model, const kas_replacement *r, float *gain,
                       kas_calibration *out)
{
    bool go_on = true;
    for (int i = 0; go_on && i < kas_model_operations(model, KAS_TAPE_INFER); i++) {
        int layer;
        const kas_tensor y = kas_model_output_of(model, i, &layer);
        const int t = kas_replacement_at(r, layer);
        KAS_TRY(kas_model_run_operation(model, i));
        if (t >= 0)
            KAS_TRY(calibrate_output(device, &y, &r->target[t], &gain[t], out, &go_on));
    }
    return KAS_OK;
}

/* Sets the images, runs the network, and leaves the gains in `gain`. */
static kas_status find_gains(kas_device *device, const kas_calibrate_options *o, float *gain,
                             kas_calibration *out)
{
    const kas_model_options options = {.net = o->net,
                                       .programs = o->programs,
                                       .batch = o->programs->options.batch,
                                       .separate = true,
                                       .cache_dir = o->cache_dir};
    kas_model *model = NULL;
    float *images = NULL;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_model_create(device, &options, &model), out);
    KAS_TRY_GOTO(kas_model_init(model, o->seed), out);
    if (o->init)
        KAS_TRY_GOTO(kas_model_load(model, o->init, o->init_partial), out);
    KAS_TRY_GOTO(kas_calibration_images(o->dataset, o->index, o->count, options.batch, &images),
                 out);
    KAS_TRY_GOTO(kas_model_set_batch(model, KAS_TAPE_INFER, images, NULL), out);
    KAS_TRY_GOTO(walk(device, model, o->programs->replacement, gain, out), out);
    out->compile_seconds = kas_model_compile_seconds(model);
out:
    free(images);
    kas_model_free(model);
    return status;
}

kas_status kas_calibrate(kas_device *device, const kas_calibrate_options *options,
                         kas_replacement *replacement, kas_calibration *out)
{
    const int targets = replacement->solution.targets;
    float *gain = malloc(sizeof *gain * (size_t)targets);
    *out = (kas_calibration){.std_min = INFINITY, .std_max = 0};
    if (!gain)
        return kas_fail(KAS_NO_MEMORY, "calibration: no memory for %d gains", targets);
    for (int t = 0; t < targets; t++)
        gain[t] = 1;
    kas_status status = find_gains(device, options, gain, out);
    if (out->std_min > out->std_max) /* no layer has a deviation */
        out->std_min = out->std_max = NAN;
    if (status == KAS_OK && out->result == KAS_CALIBRATE_OK)
        status = kas_replacement_set_gains(replacement, gain);
    free(gain);
    return status;
}

void kas_calibration_reason(const kas_calibration *c, char *out, size_t size)
{
    snprintf(out, size,
             c->result == KAS_CALIBRATE_SAME
                 ? "the output at %s is constant at initialisation: it does not depend on the image"
                 : "the output at %s is not finite at initialisation",
             c->layer);
}
