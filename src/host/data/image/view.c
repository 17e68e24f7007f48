#include "host/data/image/view.h"

#include <math.h>

#include "host/core/random.h"

static const double least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;
static const double inner = 7.0 / 8;
enum { DRAWS = 10 };

/* Returns a box of w x h with its corner at (x, y). */
static kas_box box_at(double x, double y, double w, double h)
{
    return (kas_box){x, y, x + w, y + h};
}

/* Returns the largest centred box whose width is `ratio` times its height, scaled by `share`. */
static kas_box middle(uint32_t width, uint32_t height, double ratio, double share)
{
    double w = fmin(width, height * ratio) * share, h = fmin(height, width / ratio) * share;
    return box_at((width - w) / 2, (height - h) / 2, w, h);
}

/* Returns a uniform number of 0 .. room. */
static double place(kas_rng *rng, double room)
{
    return kas_rng_below(rng, (uint32_t)room + 1);
}

static kas_box random_box(kas_rng *rng, double least_area, uint32_t width, uint32_t height,
                          double ratio)
{
    double area = (double)width * height;
    double low = log(least_ratio), high = log(most_ratio);
    for (int i = 0; i < DRAWS; i++) {
        double part = area * (least_area + (1 - least_area) * kas_rng_unit(rng));
        double shape = ratio * exp(low + (high - low) * kas_rng_unit(rng));
        double w = round(sqrt(part * shape)), h = round(sqrt(part / shape));
        if (w < 1 || h < 1 || w > width || h > height)
            continue;
        double x = place(rng, width - w), y = place(rng, height - h);
        return box_at(x, y, w, h);
    }
    double own = (double)width / height;
    return middle(width, height, fmin(fmax(own, ratio * least_ratio), ratio * most_ratio), 1);
}

kas_box kas_view_box(const kas_view *view, uint32_t position, uint32_t width, uint32_t height,
                     uint32_t w, uint32_t h, bool *mirror)
{
    double ratio = (double)w / h;
    *mirror = false;
    if (!view->training)
        return middle(width, height, ratio, inner);
    kas_rng rng =
        kas_rng_make(view->seed, KAS_PURPOSE_CROP, (uint64_t)view->epoch << 32 | position);
    kas_box box = random_box(&rng, view->least_area, width, height, ratio);
    *mirror = view->flip && (kas_rng_u32(&rng) >> 31);
    return box;
}
