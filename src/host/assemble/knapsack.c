#include "host/assemble/knapsack.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* The cost, the further costs, and the share that is taken of their limits. */
enum { MEASURES = 1 + KAS_FRONTIER_FURTHER + 1 };

/* A choice of options for the layers so far: an option behind a choice for the layers before. */
typedef struct state {
    double cost, loss, further[KAS_FRONTIER_FURTHER];
    int32_t before, option;
    bool kept;
} state;

typedef struct kas_frontier_stage {
    int32_t *before, *option; /* [count] */
} stage;

/* What is worked on, and the list of choices for the layers so far. */
typedef struct search {
    const kas_option *option; /* [layers][options] */
    int options, most, count;
    const double *limit;                /* of the further costs; NULL: there are none */
    double least[KAS_FRONTIER_FURTHER]; /* sums of further costs over all layers */
    state *list;
    kas_frontier *out;
} search;

static bool can_be_chosen(const kas_option *option)
{
    return isfinite(option->cost) && isfinite(option->loss);
}

/* ---- one list -------------------------------------------------------------------------------- */

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/* What beats a choice is in front of it. Equal sums are in the order of their options, so that the
 * result does not depend on qsort. */
static int compare(const void *x, const void *y)
{
    const state *a = x, *b = y;
    int order = compare_numbers(a->cost, b->cost);
    if (!order)
        order = compare_numbers(a->loss, b->loss);
    for (int f = 0; f < KAS_FRONTIER_FURTHER && !order; f++)
        order = compare_numbers(a->further[f], b->further[f]);
    if (!order)
        order = (a->before > b->before) - (a->before < b->before);
    return order ? order : (a->option > b->option) - (a->option < b->option);
}

static state extended(const search *s, const state *before, int index, const kas_option *by, int k)
{
    state to = {before->cost + by->cost, before->loss + by->loss, {0}, index, k, false};
    for (int f = 0; f < KAS_FRONTIER_FURTHER && s->limit; f++)
        to.further[f] = before->further[f] + by->further[f];
    return to;
}

/* Whether the further costs stay within their limits where the layers to come have the least. */
static bool can_be_completed(const search *s, const state *choice, const double *rest)
{
    for (int f = 0; f < KAS_FRONTIER_FURTHER && s->limit; f++)
        if (choice->further[f] + rest[f] > s->limit[f])
            return false;
    return true;
}

static int extend(const search *s, int layer, const double *rest, state *to)
{
    int count = 0;
    for (int i = 0; i < s->count; i++)
        for (int k = 0; k < s->options; k++) {
            const kas_option *by = &s->option[(size_t)layer * (size_t)s->options + (size_t)k];
            if (!can_be_chosen(by))
                continue;
            to[count] = extended(s, &s->list[i], i, by, k);
            count += can_be_completed(s, &to[count], rest);
        }
    return count;
}

/* Whether one of the choices in front, whose costs are no higher, is no worse. Without further
 * costs the last of them has the least loss. */
static bool is_beaten(const state *front, int count, const state *choice, bool limited)
{
    for (int i = count - 1; i >= 0; i--) {
        bool worse = front[i].loss > choice->loss;
        for (int f = 0; f < KAS_FRONTIER_FURTHER && limited; f++)
            worse |= front[i].further[f] > choice->further[f];
        if (!worse || !limited)
            return !worse;
    }
    return false;
}

static int drop_beaten(state *list, int count, bool limited)
{
    int kept = 0;
    qsort(list, (size_t)count, sizeof *list, compare);
    for (int i = 0; i < count; i++)
        if (!is_beaten(list, kept, &list[i], limited))
            list[kept++] = list[i];
    return kept;
}

/* Returns how much of what the limits leave free beyond the least sums the choice takes: the largest
 * share of any further cost. */
static double share_taken(const search *s, const state *choice, const double *rest)
{
    double share = 0;
    for (int f = 0; f < KAS_FRONTIER_FURTHER; f++) {
        const double over = choice->further[f] + rest[f] - s->least[f];
        share = fmax(share, over / (s->limit[f] - s->least[f])); /* 0 / 0 counts as 0 */
    }
    return share;
}

/* Returns one of the numbers in which a thinned list keeps the least choice of each cell. */
static double measure(const search *s, const state *choice, const double *rest, int which)
{
    if (which == 0)
        return choice->cost;
    return which < MEASURES - 1 ? choice->further[which - 1] : share_taken(s, choice, rest);
}

/* Marks the least choice of each cell of loss in each measure, and the cheapest of the least loss. */
static void mark(const search *s, const double *rest, double least, double width, int measures,
                 int32_t *best)
{
    bool has_least = false;
    for (int i = 0; i < s->count; i++) {
        const state *choice = &s->list[i];
        const int cell = width > 0 ? (int)floor((choice->loss - least) / width) : 0;
        for (int k = 0; k < measures; k++) {
            int32_t *of = &best[cell * measures + k];
            if (*of < 0 || measure(s, choice, rest, k) < measure(s, &s->list[*of], rest, k))
                *of = i;
        }
        s->list[i].kept = !has_least && choice->loss == least;
        has_least |= s->list[i].kept;
    }
}

/* Keeps what is marked, at most s->most choices; *width is that of a cell. */
static kas_status thin(search *s, const double *rest, int measures, double *width)
{
    const int cells = (s->most - 1) / measures - 1, marks = (cells + 1) * measures;
    double least = INFINITY, largest = -INFINITY;
    assert(cells > 0);
    int32_t *best = malloc(sizeof *best * (size_t)marks);
    int kept = 0;
    if (!best)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d choices of layers", marks);
    for (int i = 0; i < s->count; i++) {
        least = fmin(least, s->list[i].loss);
        largest = fmax(largest, s->list[i].loss);
    }
    for (int i = 0; i < marks; i++)
        best[i] = -1;
    *width = (largest - least) / cells;
    mark(s, rest, least, *width, measures, best);
    for (int i = 0; i < marks; i++)
        if (best[i] >= 0)
            s->list[best[i]].kept = true;
    for (int i = 0; i < s->count; i++)
        if (s->list[i].kept)
            s->list[kept++] = s->list[i];
    s->count = kept;
    free(best);
    return KAS_OK;
}

/* ---- the frontier ---------------------------------------------------------------------------- */

/* Gets the least further costs of all layers behind `layer`; -1: of all. */
static void least_rest(const search *s, int layer, double rest[KAS_FRONTIER_FURTHER])
{
    for (int f = 0; f < KAS_FRONTIER_FURTHER; f++) {
        rest[f] = 0;
        for (int l = layer + 1; l < s->out->layers && s->limit; l++) {
            const kas_option *option = &s->option[(size_t)l * (size_t)s->options];
            double least = INFINITY;
            for (int k = 0; k < s->options; k++)
                if (can_be_chosen(&option[k]))
                    least = fmin(least, option[k].further[f]);
            rest[f] += least;
        }
    }
}

static bool has_option(const search *s, int layer)
{
    for (int k = 0; k < s->options; k++)
        if (can_be_chosen(&s->option[(size_t)layer * (size_t)s->options + (size_t)k]))
            return true;
    return false;
}

/* Remembers how the list of a layer was made. */
static kas_status keep(search *s, int layer)
{
    stage *to = &s->out->stage[layer];
    to->before = malloc(sizeof *to->before * (size_t)s->count);
    to->option = malloc(sizeof *to->option * (size_t)s->count);
    if (!to->before || !to->option)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d choices of layers", s->count);
    for (int i = 0; i < s->count; i++) {
        to->before[i] = s->list[i].before;
        to->option[i] = s->list[i].option;
    }
    return KAS_OK;
}

/* Behind the last layer the further costs are within their limits, and beat nothing any more. */
static kas_status add_layer(search *s, int layer)
{
    double rest[KAS_FRONTIER_FURTHER], width = 0;
    const bool limited = s->limit && layer + 1 < s->out->layers;
    state *list = malloc(sizeof *list * ((size_t)s->count * (size_t)s->options + 1));
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d choices of layers", s->count);
    least_rest(s, layer, rest);
    s->count = extend(s, layer, rest, list);
    free(s->list);
    s->list = list;
    if (s->count == 0)
        return kas_fail(KAS_OVER_BUDGET, "no choice is within the limits");
    s->count = drop_beaten(list, s->count, limited);
    if (s->count > s->most) {
        KAS_TRY(thin(s, rest, limited ? MEASURES : 1, &width));
        s->out->gap += limited ? INFINITY : width;
    }
    list = realloc(s->list, sizeof *list * (size_t)s->count);
    s->list = list ? list : s->list;
    return keep(s, layer);
}

static kas_status take_points(const search *s)
{
    kas_frontier *out = s->out;
    out->points = s->count;
    out->point = malloc(sizeof *out->point * (size_t)s->count);
    if (!out->point)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d choices of layers", s->count);
    for (int i = 0; i < s->count; i++)
        out->point[i] = (kas_frontier_point){s->list[i].cost, s->list[i].loss};
    return KAS_OK;
}

kas_status kas_frontier_find(const kas_option *option, int layers, int options,
                             const double limit[KAS_FRONTIER_FURTHER], int most, kas_frontier *out)
{
    *out = (kas_frontier){.layers = layers};
    search s = {.option = option,
                .options = options,
                .limit = limit,
                .most =
                    limit && most > KAS_FRONTIER_MOST_LIMITED ? KAS_FRONTIER_MOST_LIMITED : most,
                .count = 1,
                .list = calloc(1, sizeof *s.list),
                .out = out};
    out->stage = calloc((size_t)layers + 1, sizeof *out->stage);
    kas_status status =
        s.list && out->stage ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %d layers", layers);
    for (int l = 0; l < layers && status == KAS_OK; l++)
        if (!has_option(&s, l))
            status = kas_fail(KAS_NOTHING_VALID, "layer %d has no option", l);
    if (status == KAS_OK)
        least_rest(&s, -1, s.least);
    for (int l = 0; l < layers && status == KAS_OK; l++)
        status = add_layer(&s, l);
    if (status == KAS_OK)
        status = take_points(&s);
    free(s.list);
    if (status != KAS_OK) {
        const double gap = out->gap;
        kas_frontier_free(out);
        out->gap = gap;
    }
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
