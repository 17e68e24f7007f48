#include "host/train/schedule.h"

#include <math.h>

#include "host/core/random.h"

/* Draws from the Gamma distribution of shape a > 0 and scale 1: Marsaglia and Tsang, "A simple
 * method for generating gamma variables" (2000); for a < 1 by gamma(a + 1) * u^(1/a). */
static double draw_gamma(double a, kas_rng *rng)
{
    if (a < 1)
        return draw_gamma(a + 1, rng) * pow(1 - kas_rng_unit(rng), 1 / a);
    double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = kas_rng_normal(rng), v = 1 + c * x, u = 1 - kas_rng_unit(rng);
        v = v * v * v;
        if (v > 0 && log(u) < x * x / 2 + d - d * v + d * log(v))
            return d * v;
    }
}

/* Draws from Beta(a, a). With a tiny `a` both Gamma numbers may underflow, and then the result is 0
 * or 1. */
static double draw_beta(double a, kas_rng *rng)
{
    double x = draw_gamma(a, rng), y = draw_gamma(a, rng);
    return x + y > 0 ? x / (x + y) : kas_rng_unit(rng) < 0.5 ? 0 : 1;
}

/* Sets [at, at + length) to the part inside [0, size) of a stretch of `side` around `centre`. */
static void cut_off(int centre, int side, int size, uint16_t *at, uint16_t *length)
{
    int from = centre - side / 2, to = from + side;
    from = from < 0 ? 0 : from;
    to = to > size ? size : to;
    *at = (uint16_t)from;
    *length = (uint16_t)(to - from);
}

static void paste(const kas_run_plan *plan, double lambda, kas_rng *rng, kas_step_row *row)
{
    double scale = sqrt(1 - lambda);
    cut_off((int)kas_rng_below(rng, (uint32_t)plan->h), (int)(plan->h * scale), plan->h, &row->top,
            &row->height);
    cut_off((int)kas_rng_below(rng, (uint32_t)plan->w), (int)(plan->w * scale), plan->w, &row->left,
            &row->width);
    row->share = (float)(1 - (double)row->height * row->width / ((double)plan->h * plan->w));
}

static void mix(const kas_run_plan *plan, uint64_t step, kas_step_row *row)
{
    const kas_recipe *r = plan->recipe;
    row->blend = row->share = 1;
    if (!kas_recipe_mixes(r))
        return;
    kas_rng rng = kas_rng_make(plan->seed, KAS_PURPOSE_MIX, step);
    bool pasted = r->mixup > 0 && r->cutmix > 0 ? kas_rng_below(&rng, 2) : r->cutmix > 0;
    double lambda = draw_beta(pasted ? r->cutmix : r->mixup, &rng);
    if (pasted)
        paste(plan, lambda, &rng, row);
    else
        row->blend = row->share = (float)lambda;
}

kas_step_row kas_schedule_row(const kas_run_plan *plan, uint64_t step)
{
    const kas_recipe *r = plan->recipe;
    double done = (double)step;
    kas_step_row row = {.lr = (float)kas_recipe_lr(r, plan->steps_per_epoch, step)};
    if (r->optimiser == KAS_ADAMW) {
        row.correction1 = (float)(1 / (1 - pow(r->beta1, done + 1)));
        row.correction2 = (float)(1 / sqrt(1 - pow(r->beta2, done + 1)));
    }
    row.renew = (float)(1 - fmin(r->ema, done / (done + 10)));
    mix(plan, step, &row);
    return row;
}
