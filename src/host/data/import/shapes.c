/* Draws procedural images for demonstrations and tests, which need no download.
 *
 * Each class is a figure of strokes (segments, a circle, dots).  A pixel's distance to the figure
 * decides how much foreground it shows, and the threshold is chosen so that a given share of the
 * pixels is foreground: that share, both colours, the figure's place, size and tilt, a brightness
 * ramp and noise are drawn from the same distributions for every class.  So no pixel and no colour
 * statistic reveals a class; only the arrangement of strokes does.  Figures are their own mirror
 * images (left to right), because training flips images. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/data/import/import.h"

typedef struct stroke {
    double x0, y0, x1, y1; /* a dot where both ends are equal */
} stroke;

typedef struct figure {
    const char *name;
    double circle; /* radius of a circle about the centre; 0 = none */
    int count;
    stroke strokes[4];
} figure;

/* The figures, in units of their size; y points down. */
static const figure figures[] = {
    {"rows", 0, 3, {{-1, -.8, 1, -.8}, {-1, 0, 1, 0}, {-1, .8, 1, .8}}},
    {"columns", 0, 3, {{-.8, -1, -.8, 1}, {0, -1, 0, 1}, {.8, -1, .8, 1}}},
    {"ring", .9, 0, {{0, 0, 0, 0}}},
    {"plus", 0, 2, {{-1, 0, 1, 0}, {0, -1, 0, 1}}},
    {"cross", 0, 2, {{-.8, -.8, .8, .8}, {-.8, .8, .8, -.8}}},
    {"triangle", 0, 3, {{0, -.9, -.9, .8}, {-.9, .8, .9, .8}, {.9, .8, 0, -.9}}},
    {"pair beside", 0, 2, {{-.75, 0, -.75, 0}, {.75, 0, .75, 0}}},
    {"pair above", 0, 2, {{0, -.75, 0, -.75}, {0, .75, 0, .75}}},
    {"tee", 0, 2, {{-.9, -.8, .9, -.8}, {0, -.8, 0, .9}}},
    {"square",
     0,
     4,
     {{-.8, -.8, .8, -.8}, {.8, -.8, .8, .8}, {.8, .8, -.8, .8}, {-.8, .8, -.8, -.8}}},
    {"diamond", 0, 4, {{0, -1, 1, 0}, {1, 0, 0, 1}, {0, 1, -1, 0}, {-1, 0, 0, -1}}},
    {"three dots", 0, 3, {{0, -.8, 0, -.8}, {-.8, .6, -.8, .6}, {.8, .6, .8, .6}}},
};

static double between(kas_rng *rng, double low, double high)
{
    return low + (high - low) * kas_rng_unit(rng);
}

static double distance_to_stroke(const stroke *s, double x, double y)
{
    double dx = s->x1 - s->x0, dy = s->y1 - s->y0, length = dx * dx + dy * dy;
    double t = length > 0 ? ((x - s->x0) * dx + (y - s->y0) * dy) / length : 0;
    t = fmin(1, fmax(0, t));
    return hypot(x - s->x0 - t * dx, y - s->y0 - t * dy);
}

static double distance_to(const figure *f, double x, double y)
{
    double nearest = f->circle > 0 ? fabs(hypot(x, y) - f->circle) : 1e9;
    for (int i = 0; i < f->count; i++)
        nearest = fmin(nearest, distance_to_stroke(&f->strokes[i], x, y));
    return nearest;
}

/* Computes the distance in pixels of every pixel to the figure, which is placed at random. */
static void place(const figure *f, kas_rng *rng, uint32_t side, float *distance)
{
    double size = between(rng, .22, .32) * side, tilt = between(rng, -.15, .15);
    double x0 = between(rng, .35, .65) * side, y0 = between(rng, .35, .65) * side;
    double c = cos(tilt) / size, s = sin(tilt) / size;
    for (uint32_t y = 0; y < side; y++)
        for (uint32_t x = 0; x < side; x++) {
            double dx = x + .5 - x0, dy = y + .5 - y0;
            distance[y * side + x] =
                (float)(size * distance_to(f, c * dx + s * dy, c * dy - s * dx));
        }
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Draws two colours that differ by at least 100 levels in all channels together; either may be the
 * brighter one. */
static void draw_colours(kas_rng *rng, double front[3], double back[3])
{
    double apart;
    do {
        apart = 0;
        for (int c = 0; c < 3; c++) {
            front[c] = between(rng, 30, 225);
            back[c] = between(rng, 30, 225);
            apart += fabs(front[c] - back[c]);
        }
    } while (apart < 100);
}

static void draw_image(const figure *f, kas_rng *rng, uint32_t side, float *work, uint8_t *out)
{
    uint32_t count = side * side;
    float *distance = work, *sorted = work + count;
    double front[3], back[3];
    place(f, rng, side, distance);
    memcpy(sorted, distance, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_floats);
    double threshold = sorted[(uint32_t)(between(rng, .14, .22) * count)];
    draw_colours(rng, front, back);
    double ramp_x = between(rng, -30, 30), ramp_y = between(rng, -30, 30);
    double noise = between(rng, 4, 16);
    for (uint32_t i = 0; i < count; i++) {
        double alpha = fmin(1, fmax(0, threshold - distance[i] + .5));
        double ramp =
            ramp_x * ((i % side + .5) / side - .5) + ramp_y * ((i / side + .5) / side - .5);
        for (int c = 0; c < 3; c++) {
            double value = back[c] + alpha * (front[c] - back[c]) + ramp;
            value = round(value + noise * kas_rng_normal(rng));
            out[3 * i + c] = (uint8_t)fmin(255, fmax(0, value));
        }
    }
}

/* Draws a set. Image i shows class i modulo the number of classes, because training shuffles
 * anyway. Every image has its own stream of random numbers, so that a smaller set has the first
 * images of a larger one. */
static kas_status draw_set(kas_images *images, uint32_t set, uint32_t side, uint32_t classes,
                           uint64_t seed)
{
    size_t pixels = (size_t)side * side;
    float *work = malloc(2 * pixels * sizeof *work);
    if (!work)
        return kas_fail(KAS_NO_MEMORY, "out of memory for an image of %u x %u", side, side);
    for (uint32_t i = 0; i < images->count; i++) {
        uint32_t label = i % classes;
        kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_DATASET, (uint64_t)set << 32 | i);
        images->labels[i] = (uint16_t)label;
        draw_image(&figures[label], &rng, side, work, images->pixels + i * pixels * 3);
    }
    free(work);
    return KAS_OK;
}

kas_status kas_make_shapes(uint32_t train, uint32_t test, uint32_t side, uint32_t classes,
                           uint64_t seed, kas_dataset **out)
{
    *out = NULL;
    if (classes < 2 || classes > sizeof figures / sizeof *figures || side < 8 || side > 256)
        return kas_fail(KAS_BAD_INPUT,
                        "shapes: expected 2 to %zu classes and a side of 8 to 256 pixels, found %u "
                        "and %u",
                        sizeof figures / sizeof *figures, classes, side);
    kas_dataset *d;
    KAS_TRY(kas_dataset_create(side, side, 3, classes, train, test, &d));
    kas_status status = KAS_OK;
    for (uint32_t k = 0; k < classes && status == KAS_OK; k++)
        status = kas_dataset_name_class(d, k, figures[k].name);
    if (status == KAS_OK)
        status = draw_set(&d->train, 0, side, classes, seed);
    if (status == KAS_OK)
        status = draw_set(&d->test, 1, side, classes, seed);
    if (status != KAS_OK) {
        kas_dataset_close(d);
        return status;
    }
    kas_dataset_finish(d);
    *out = d;
    return KAS_OK;
}
