#include "host/assemble/knapsack.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* A choice of options for the layers so far: an option behind a choice for the layers before. */
typedef struct state {
    double cost, loss;
    int32_t before, option;
} state;

typedef struct kas_frontier_stage {
    int32_t *before, *option; /* [count] */
} stage;

/* ---- one list -------------------------------------------------------------------------------- */

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/* Equal sums are in the order of their options, so that the result does not depend on qsort. */
static int compare(const void *x, const void *y)
{
    const state *a = x, *b = y;
    int order = compare_numbers(a->cost, b->cost);
    if (!order)
        order = compare_numbers(a->loss, b->loss);
    if (!order)
        order = (a->before > b->before) - (a->before < b->before);
    return order ? order : (a->option > b->option) - (a->option < b->option);
}

static int extend(const kas_frontier *f, const kas_option *option, int options, state *to)
{
    int count = 0;
    for (int i = 0; i < f->points; i++)
        for (int k = 0; k < options; k++)
            if (isfinite(option[k].cost) && isfinite(option[k].loss))
                to[count++] = (state){f->point[i].cost + option[k].cost,
                                      f->point[i].loss + option[k].loss, i, k};
    return count;
}

/* Drops what another choice beats. */
static int drop_beaten(state *list, int count)
{
    int kept = 0;
    qsort(list, (size_t)count, sizeof *list, compare);
    for (int i = 0; i < count; i++)
        if (!kept || list[i].loss < list[kept - 1].loss)
            list[kept++] = list[i];
    return kept;
}

/* Keeps the cheapest choice of each of `cells` cells of loss, and the one of the least loss.
 * Returns how many are left; *width is that of a cell. */
static int thin(state *list, int count, int cells, double *width)
{
    const double least = list[count - 1].loss;
    int kept = 0;
    double last = INFINITY;
    *width = (list[0].loss - least) / cells;
    for (int i = 0; i < count; i++) {
        const double cell = floor((list[i].loss - least) / *width);
        if (cell < last || i == count - 1)
            list[kept++] = list[i];
        last = cell;
    }
    return kept;
}

/* ---- the frontier ---------------------------------------------------------------------------- */

static kas_status keep(kas_frontier *f, int layer, const state *list, int count)
{
    stage *s = &f->stage[layer];
    kas_frontier_point *point = realloc(f->point, sizeof *point * (size_t)count);
    if (point)
        f->point = point;
    s->before = malloc(sizeof *s->before * (size_t)count);
    s->option = malloc(sizeof *s->option * (size_t)count);
    if (!point || !s->before || !s->option)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d choices of layers", count);
    f->points = count;
    for (int i = 0; i < count; i++) {
        point[i] = (kas_frontier_point){list[i].cost, list[i].loss};
        s->before[i] = list[i].before;
        s->option[i] = list[i].option;
    }
    return KAS_OK;
}

static kas_status add_layer(kas_frontier *f, int layer, const kas_option *option, int options,
                            int most)
{
    state *list = malloc(sizeof *list * (size_t)f->points * (size_t)options);
    kas_status status;
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d choices of layers", f->points);
    int count = extend(f, option, options, list);
    if (count == 0) {
        status = kas_fail(KAS_NOTHING_VALID, "layer %d has no option", layer);
    } else {
        double width = 0;
        count = drop_beaten(list, count);
        if (count > most)
            count = thin(list, count, most - 2, &width);
        f->gap += width;
        status = keep(f, layer, list, count);
    }
    free(list);
    return status;
}

kas_status kas_frontier_find(const kas_option *option, int layers, int options, int most,
                             kas_frontier *out)
{
    *out = (kas_frontier){.layers = layers, .points = 1};
    out->point = calloc(1, sizeof *out->point);
    out->stage = calloc((size_t)layers + 1, sizeof *out->stage);
    kas_status status = out->point && out->stage
                            ? KAS_OK
                            : kas_fail(KAS_NO_MEMORY, "no memory for %d layers", layers);
    for (int l = 0; l < layers && status == KAS_OK; l++)
        status = add_layer(out, l, option + (size_t)l * (size_t)options, options, most);
    if (status != KAS_OK)
        kas_frontier_free(out);
    return status;
}

void kas_frontier_free(kas_frontier *f)
{
    for (int l = 0; f->stage && l < f->layers; l++) {
        free(f->stage[l].before);
        free(f->stage[l].option);
    }
    free(f->stage);
    free(f->point);
    *f = (kas_frontier){0};
}

int kas_frontier_within(const kas_frontier *f, double limit)
{
    int found = -1;
    while (found + 1 < f->points && f->point[found + 1].cost <= limit)
        found++;
    return found;
}

void kas_frontier_choice(const kas_frontier *f, int point, int *chosen)
{
    for (int l = f->layers - 1; l >= 0; l--) {
        chosen[l] = f->stage[l].option[point];
        point = f->stage[l].before[point];
    }
}
