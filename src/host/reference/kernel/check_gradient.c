/* Analytic gradients against finite differences.
 *
 * With the branches frozen at the base point the kernel is smooth, so central differences converge;
 * the step is not guessed: steps shrink by 4 and Richardson's extrapolation (Ridders 1982) keeps
 * the estimate that changed least.  x and every weight are moved separately: together, a large
 * gradient would hide a wrong small one. */
#include "host/reference/kernel/evaluate.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"

enum { STEPS = 14 };
#define FIRST_STEP 1e-3
#define GOOD_ENOUGH 1e-8
/* A derivative is compared relative to the gradient's length, which is what a random direction
 * typically gives (a direction that happens to be nearly orthogonal would only show rounding), and
 * to the terms of the sum that is differentiated. */
#define TERMS_SHARE 1e-6

typedef struct check {
    kas_reference *ref;
    double *x, *y, *weight[KAS_MAX_NODES]; /* copies, which are moved */
    double *direction, *base;              /* as long as the largest block */
    const double *dy;
    int first; /* first node whose values change with the block that is moved */
    size_t x_size, y_size, largest;
    double terms; /* sum of |dy * y| at the base point */
} check;

static double weighted(check *c)
{
    double sum = 0;
    kas_ref_evaluate(c->ref, c->x, (const double *const *)c->weight, c->y, true, c->first);
    for (size_t i = 0; i < c->y_size; i++)
        sum += c->dy[i] * c->y[i];
    return sum;
}

static double weighted_at(check *c, double *block, size_t size, double step)
{
    for (size_t i = 0; i < size; i++)
        block[i] = c->base[i] + step * c->direction[i];
    double value = weighted(c);
    memcpy(block, c->base, size * sizeof *block);
    return value;
}

/* Returns the derivative along c->direction; NaN when no step gives finite values. */
static double numeric_derivative(check *c, double *block, size_t size)
{
    double row[STEPS], best = NAN, best_change = INFINITY, step = FIRST_STEP;
    int filled = 0;
    for (int k = 0; k < STEPS; k++, step /= 4) {
        double found =
            (weighted_at(c, block, size, step) - weighted_at(c, block, size, -step)) / (2 * step);
        if (!isfinite(found)) { /* the step was too large: sqrt left its domain, say */
            filled = 0;
            continue;
        }
        double factor = 1;
        for (int j = 0; j < filled; j++) { /* removes errors in h^2, h^4, ... one by one */
            factor *= 16;
            double better = found + (found - row[j]) / (factor - 1);
            double change = fmax(fabs(better - found), fabs(better - row[j]));
            /* Differences of sums of terms are multiples of their rounding: at tiny steps two
             * estimates may agree by chance */
            change = fmax(change, DBL_EPSILON * c->terms / step);
            row[j] = found;
            found = better;
            if (change < best_change) {
                best_change = change;
                best = found;
            }
        }
        row[filled++] = found;
        if (best_change <= GOOD_ENOUGH * fabs(best))
            break;
    }
    return best;
}

/* Fills c->direction with normal numbers as large as the block's own values. */
static void draw_direction(check *c, const double *block, size_t size, kas_rng *rng)
{
    double squares = 0;
    for (size_t i = 0; i < size; i++)
        squares += block[i] * block[i];
    double scale = squares > 0 ? sqrt(squares / (double)size) : 1;
    for (size_t i = 0; i < size; i++)
        c->direction[i] = scale * kas_rng_normal(rng);
    memcpy(c->base, block, size * sizeof *block);
}

static double block_error(check *c, double *block, const double *grad, size_t size, kas_rng *rng)
{
    double analytic = 0, length = 0;
    draw_direction(c, block, size, rng);
    for (size_t i = 0; i < size; i++) {
        analytic += grad[i] * c->direction[i];
        length += grad[i] * grad[i] * c->direction[i] * c->direction[i];
    }
    double numeric = numeric_derivative(c, block, size);
    weighted(c); /* the block is as it was; this makes the values so again */
    double scale = fmax(sqrt(length), TERMS_SHARE * c->terms);
    double error = fabs(analytic - numeric);
    if (error == 0)
        return 0;
    return error / fmax(fmax(fabs(analytic), fabs(numeric)), scale);
}

static void check_free(check *c)
{
    free(c->x);
    free(c->y);
    for (int i = 0; i < KAS_MAX_NODES; i++)
        free(c->weight[i]);
    free(c->direction);
    free(c->base);
}

static kas_status check_create(check *c, const double *x, const double *const *weight)
{
    const kas_target *t = &c->ref->target;
    size_t part = (size_t)c->ref->batch * t->c * t->h * t->w;
    c->x_size = c->largest = (size_t)c->ref->batch * t->c * c->ref->x_h * c->ref->x_w * t->parts_in;
    c->y_size = part * t->parts_out;
    c->x = malloc(c->x_size * sizeof(double));
    c->y = malloc(c->y_size * sizeof(double));
    bool ok = c->x && c->y;
    for (int i = 0; i < c->ref->weights; i++) {
        size_t size = kas_reference_weight_size(c->ref, i);
        c->weight[i] = malloc(size * sizeof(double));
        ok = ok && c->weight[i];
        if (c->weight[i])
            memcpy(c->weight[i], weight[i], size * sizeof(double));
        c->largest = size > c->largest ? size : c->largest;
    }
    c->direction = malloc(c->largest * sizeof(double));
    c->base = malloc(c->largest * sizeof(double));
    if (!ok || !c->direction || !c->base)
        return kas_fail(KAS_NO_MEMORY, "reference: no memory for a gradient check");
    memcpy(c->x, x, c->x_size * sizeof(double));
    return KAS_OK;
}

static int node_of_weight(const kas_reference *ref, int weight)
{
    int i = 0;
    while (ref->node[i].weight != weight)
        i++;
    return i;
}

kas_status kas_reference_compare_gradient(kas_reference *ref, const double *x,
                                          const double *const *weight, const double *dy,
                                          const double *dx, const double *const *dweight,
                                          int directions, uint64_t seed, double *worst)
{
    check c = {.ref = ref, .dy = dy};
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 0);
    kas_status status = KAS_OK;
    *worst = 0;
    KAS_TRY_GOTO(check_create(&c, x, weight), out);
    KAS_TRY_GOTO(kas_reference_forward(ref, x, weight, c.y), out);
    for (size_t i = 0; i < c.y_size; i++)
        c.terms += fabs(dy[i] * c.y[i]);
    for (int d = 0; d < directions; d++)
        for (int block = -1; block < ref->weights; block++) {
            c.first = block < 0 ? 0 : node_of_weight(ref, block);
            double error = block < 0 ? block_error(&c, c.x, dx, c.x_size, &rng)
                                     : block_error(&c, c.weight[block], dweight[block],
                                                   kas_reference_weight_size(ref, block), &rng);
            if (!isnan(*worst) && !(error <= *worst)) /* NaN is the worst, and stays */
                *worst = error;
        }
out:
    check_free(&c);
    return status;
}

kas_status kas_reference_check_gradient(kas_reference *ref, const double *x,
                                        const double *const *weight, const double *dy,
                                        int directions, uint64_t seed, double *worst)
{
    const kas_target *t = &ref->target;
    size_t part = (size_t)ref->batch * t->c * t->h * t->w;
    double *y = malloc(part * t->parts_out * sizeof(double));
    double *dx =
        malloc((size_t)ref->batch * t->c * ref->x_h * ref->x_w * t->parts_in * sizeof(double));
    double *dweight[KAS_MAX_NODES] = {0};
    kas_status status = KAS_OK;
    bool ok = y && dx;
    for (int i = 0; i < ref->weights; i++) {
        dweight[i] = malloc(kas_reference_weight_size(ref, i) * sizeof(double));
        ok = ok && dweight[i];
    }
    if (!ok) {
        status = kas_fail(KAS_NO_MEMORY, "reference: no memory for a gradient check");
        goto out;
    }
    KAS_TRY_GOTO(kas_reference_forward(ref, x, weight, y), out);
    KAS_TRY_GOTO(kas_reference_backward(ref, dy, dx, dweight), out);
    KAS_TRY_GOTO(kas_reference_compare_gradient(ref, x, weight, dy, dx,
                                                (const double *const *)dweight, directions, seed,
                                                worst),
                 out);
out:
    free(y);
    free(dx);
    for (int i = 0; i < ref->weights; i++)
        free(dweight[i]);
    return status;
}
