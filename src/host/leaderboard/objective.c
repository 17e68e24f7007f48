#include "host/leaderboard/objective.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/leaderboard/leaderboard.h"

/* ---- selection ------------------------------------------------------------------------------- */

/* Which points are compared by what they cost. */
typedef struct limits {
    int objective;
    double max_loss; /* those that lose less are within */
    double reach;    /* those that are more accurate are in reach; NaN: only those within are */
} limits;

typedef struct ranked {
    double key[4]; /* the smaller is the better; the first that differs decides */
    int64_t number;
    int at;
} ranked;

static double last_if_unknown(double value)
{
    return isnan(value) ? INFINITY : value;
}

static bool is_within(const limits *l, const kas_point *p)
{
    return p->loss < l->max_loss;
}

static bool in_reach(const limits *l, const kas_point *p)
{
    return is_within(l, p) || p->accuracy > l->reach;
}

static ranked rank_of(const limits *l, const kas_point *p, int front, double crowding)
{
    const double worse = -p->accuracy, cost = last_if_unknown(p->cost);
    if (isnan(p->accuracy))
        return (ranked){.key = {INFINITY}, .number = p->number};
    if (l->objective == KAS_OBJECTIVE_ACCURACY)
        return (ranked){.key = {worse, cost}, .number = p->number};
    if (l->objective == KAS_OBJECTIVE_LATENCY && is_within(l, p))
        return (ranked){.key = {0, cost, worse}, .number = p->number};
    if (in_reach(l, p))
        return (ranked){.key = {1, front, -crowding, worse}, .number = p->number};
    return (ranked){.key = {2, last_if_unknown(p->loss), worse, cost}, .number = p->number};
}

static int by_key(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    for (int i = 0; i < 4; i++)
        if (x->key[i] != y->key[i])
            return x->key[i] < y->key[i] ? -1 : 1;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->at > y->at) - (x->at < y->at);
}

/* Sorts the points in reach into fronts, and leaves the others out. */
static kas_status sort_reached(const limits *l, const kas_point *point, int count, int *front,
                               double *crowding)
{
    kas_point *reached = calloc((size_t)count + 1, sizeof *reached);
    if (!reached)
        return kas_fail(KAS_NO_MEMORY, "an order of candidates: out of memory");
    for (int i = 0; i < count; i++) {
        reached[i] = point[i];
        if (!in_reach(l, &point[i]))
            reached[i].accuracy = NAN;
    }
    kas_status status = kas_pareto_fronts(reached, count, front);
    if (status == KAS_OK)
        status = kas_pareto_crowding(reached, count, front, crowding);
    free(reached);
    return status;
}

static kas_status fill_order(const limits *l, const kas_point *point, int count, int *front,
                             double *crowding, ranked *list, int *order)
{
    if (!front || !crowding || !list)
        return kas_fail(KAS_NO_MEMORY, "an order of candidates: out of memory");
    if (l->objective != KAS_OBJECTIVE_ACCURACY)
        KAS_TRY(sort_reached(l, point, count, front, crowding));
    for (int i = 0; i < count; i++) {
        list[i] = rank_of(l, &point[i], front[i], crowding[i]);
        list[i].at = i;
    }
    qsort(list, (size_t)count, sizeof *list, by_key);
    for (int i = 0; i < count; i++)
        order[i] = list[i].at;
    return KAS_OK;
}

static kas_status order_by(const limits *l, const kas_point *point, int count, int *order)
{
    int *front = calloc((size_t)count + 1, sizeof *front);
    double *crowding = calloc((size_t)count + 1, sizeof *crowding);
    ranked *list = calloc((size_t)count + 1, sizeof *list);
    const kas_status status = fill_order(l, point, count, front, crowding, list, order);
    free(list);
    free(crowding);
    free(front);
    return status;
}

kas_status kas_objective_order(int objective, double max_loss, const kas_point *point, int count,
                               int *order)
{
    return order_by(&(limits){objective, max_loss, NAN}, point, count, order);
}

kas_status kas_objective_select(const kas_search_options *options, const kas_point *point,
                                int count, int *order)
{
    double best = NAN;
    for (int i = 0; i < count; i++)
        if (point[i].number >= 0)
            best = fmax(best, point[i].accuracy); /* which leaves NaN out */
    const double behind = fmin(0.01 * KAS_REACH_POINTS, best / KAS_REACH_SHARE);
    return order_by(&(limits){options->objective, options->max_loss, best - behind}, point, count,
                    order);
}

kas_paired kas_objective_lost(const kas_work *work, const kas_work *baseline, int part)
{
    return kas_correct_compare(baseline ? baseline->correct : NULL, work->correct, part);
}

kas_point kas_objective_point(const kas_work *work, const kas_work *baseline, double cost)
{
    return (kas_point){.accuracy = work->measured.accuracy,
                       .cost = cost,
                       .loss = kas_loss_of(work, baseline, KAS_SELECTING),
                       .number = work->index};
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What a candidate is judged by: the ratio of its latency, and the points that it loses on the half
 * that selects. */
typedef struct figures {
    double ratio, loss;
} figures;

/* What finalists are chosen by. */
typedef struct contest {
    const kas_search_options *options;
    const kas_work *work, *baseline;
    int count;
    kas_losses *losses; /* NULL: nothing is kept */
    figures
        *known; /* [count] of those that take part; NULL: without memory they are found each time */
    kas_ending confirmed; /* its finalists: the fastest whose loss both halves allow */
} contest;

/* What the best candidate has least of; NaN: the candidate does not qualify. */
typedef double key_fn(const contest *c, const kas_work *w);

static bool takes_part(const kas_work *w)
{
    return w->kind == KAS_WORK_CANDIDATE && w->state == KAS_WORK_FINISHED &&
           isfinite(w->measured.accuracy);
}

static bool is_finalist(const kas_ending *end, const kas_work *w)
{
    for (int i = 0; i < end->finalists; i++)
        if (end->finalist[i] == w)
            return true;
    return false;
}

const kas_work *kas_objective_turns(const kas_work *work, int count, int64_t index)
{
    for (int i = count - 1; i >= 0 && work[i].kind == KAS_WORK_TURNS; i--) /* the list is sorted */
        if (work[i].index == index)
            return &work[i];
    return NULL;
}

double kas_objective_ratio(const kas_search_options *options, const kas_work *work, int count,
                           const kas_work *w)
{
    const kas_work *baseline = kas_work_find(work, count, KAS_WORK_BASELINE);
    const kas_work *turns = kas_objective_turns(work, count, w->index);
    if (!baseline)
        return NAN;
    if (*options->latency_on) /* another machine has only predictions */
        return w->predicted / baseline->predicted;
    return turns && isfinite(turns->measured.ratio)
               ? turns->measured.ratio
               : w->measured.latency / baseline->measured.latency;
}

static figures find_figures(const contest *c, const kas_work *w)
{
    return (figures){.ratio = kas_objective_ratio(c->options, c->work, c->count, w),
                     .loss = kas_losses_find(c->losses, w, c->baseline)};
}

/* They are asked for again and again. */
static void find_all_figures(contest *c)
{
    if (c->losses)
        kas_losses_against(c->losses, c->baseline);
    c->known = calloc((size_t)c->count + 1, sizeof *c->known);
    for (int i = 0; i < c->count && c->known; i++)
        if (takes_part(&c->work[i]))
            c->known[i] = find_figures(c, &c->work[i]);
}

static figures figures_of(const contest *c, const kas_work *w)
{
    return c->known ? c->known[w - c->work] : find_figures(c, w);
}

static double ratio_of(const contest *c, const kas_work *w)
{
    return figures_of(c, w).ratio;
}

/* Where candidates come in generations, those that are measured too slow are trained all the same:
 * a measurement must not decide what depends on them. */
static bool too_slow(const contest *c, const kas_work *w)
{
    const double limit = c->options->latency;
    return limit > 0 && c->baseline && ratio_of(c, w) > limit;
}

static double error_rate(const contest *c, const kas_work *w)
{
    return too_slow(c, w) ? NAN : 1 - w->measured.accuracy;
}

/* The ratio of a kernel that is within the loss as far as the selecting half tells. */
static double latency_selected(const contest *c, const kas_work *w)
{
    const double ratio = ratio_of(c, w);
    const bool allowed = figures_of(c, w).loss < c->options->max_loss;
    return ratio < 1 && !too_slow(c, w) && allowed ? ratio : NAN;
}

static double latency_confirmed(const contest *c, const kas_work *w)
{
    return is_finalist(&c->confirmed, w) ? ratio_of(c, w) : NAN;
}

/* Returns the latency that a kernel has too much, in that of the unmodified network. */
static double excess_latency(const contest *c, const kas_work *w)
{
    const double limit = c->options->latency;
    const double most = c->options->objective == KAS_OBJECTIVE_ACCURACY ? INFINITY : 1;
    return fmax(0, last_if_unknown(ratio_of(c, w)) - (limit > 0 ? fmin(limit, most) : most));
}

/* Returns the share of images that a kernel loses too much, as far as the selecting half tells: among
 * all candidates the other one would find the lucky. */
static double excess_loss(const contest *c, const kas_work *w)
{
    if (c->options->objective == KAS_OBJECTIVE_ACCURACY)
        return 0;
    return fmax(0, last_if_unknown(figures_of(c, w).loss) - c->options->max_loss) / 100;
}

static double excess(const contest *c, const kas_work *w)
{
    return excess_latency(c, w) + excess_loss(c, w);
}

static double excess_of_one(const contest *c, const kas_work *w)
{
    const double latency = excess_latency(c, w), loss = excess_loss(c, w);
    return latency > 0 && loss > 0 ? NAN : latency + loss;
}

int kas_objective_compare(const kas_work *a, const kas_work *b)
{
    if (a->measured.accuracy != b->measured.accuracy)
        return a->measured.accuracy > b->measured.accuracy ? -1 : 1;
    if (a->flops != b->flops)
        return a->flops < b->flops ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Returns the best candidate that is no finalist yet; NULL: none qualifies. */
static const kas_work *pick(const contest *c, const kas_ending *end, key_fn *key)
{
    const kas_work *best = NULL;
    double least = NAN;
    for (int i = 0; i < c->count; i++) {
        const kas_work *w = &c->work[i];
        if (!takes_part(w) || is_finalist(end, w))
            continue;
        const double value = key(c, w);
        if (value < least ||
            (best ? value == least && kas_objective_compare(w, best) < 0 : !isnan(value))) {
            best = w;
            least = value;
        }
    }
    return best;
}

/* Asks the confirming half about the fastest candidates that the selecting half allows. It is asked
 * about few, or it would select among many too, and its figures would be too good like those of the
 * other half. */
static void confirm(contest *c)
{
    const int finalists = c->options->finalists;
    const int most = finalists > KAS_CONFIRMED_LEAST ? finalists : KAS_CONFIRMED_LEAST;
    kas_ending asked = {.finalists = 0};
    for (const kas_work *w; asked.finalists < most && asked.finalists < KAS_FINALISTS_MOST &&
                            (w = pick(c, &asked, latency_selected));) {
        asked.finalist[asked.finalists++] = w;
        if (!c->options->halves ||
            kas_loss_of(w, c->baseline, KAS_CONFIRMING) < c->options->max_loss)
            c->confirmed.finalist[c->confirmed.finalists++] = w;
    }
}

/* Adds finalists by turns until there are enough or none is left. */
static void choose_finalists(const contest *c, kas_ending *end)
{
    const kas_search_options *o = c->options;
    const bool by_latency = o->objective != KAS_OBJECTIVE_ACCURACY;
    const int wanted = o->finalists < KAS_FINALISTS_MOST ? o->finalists : KAS_FINALISTS_MOST;
    key_fn *const turn[2] = {by_latency ? latency_confirmed : error_rate, error_rate};
    if (!wanted)
        return;
    const kas_work *fastest = by_latency ? pick(c, end, latency_confirmed) : NULL;
    end->within = fastest != NULL;
    end->answer = fastest;
    if (o->objective == KAS_OBJECTIVE_LATENCY && !fastest)
        return;
    for (int passed = 0, i = 0; end->finalists < wanted && passed < 2; i++) {
        const kas_work *next = pick(c, end, turn[i % 2]);
        passed = next ? 0 : passed + 1;
        if (next)
            end->finalist[end->finalists++] = next;
    }
}

/* The accuracy by which the answer is chosen among finalists. */
static double confirmed_accuracy(const contest *c, const kas_work *w)
{
    return c->options->halves ? kas_correct_share(w->correct, KAS_CONFIRMING)
                              : w->measured.accuracy;
}

static kas_ending ending_of(const kas_search_options *options, const kas_work *work, int count,
                            kas_losses *losses)
{
    const kas_work *baseline = kas_work_find(work, count, KAS_WORK_BASELINE);
    contest c = {.options = options,
                 .work = work,
                 .baseline = baseline && baseline->state == KAS_WORK_FINISHED ? baseline : NULL,
                 .count = count,
                 .losses = losses};
    kas_ending end = {.finalists = 0};
    find_all_figures(&c);
    confirm(&c);
    end.nearest = pick(&c, &end, excess_of_one);
    if (!end.nearest)
        end.nearest = pick(&c, &end, excess);
    choose_finalists(&c, &end);
    if (!end.within)
        for (int i = 0; i < end.finalists; i++) /* the first is the best on the selecting half */
            if (!end.answer ||
                confirmed_accuracy(&c, end.finalist[i]) > confirmed_accuracy(&c, end.answer))
                end.answer = end.finalist[i];
    free(c.known);
    return end;
}

kas_ending kas_ending_of(const kas_search_options *options, const kas_work *work, int count)
{
    return ending_of(options, work, count, NULL);
}

const kas_work *kas_objective_leader_kept(const kas_search_options *options, const kas_work *work,
                                          int count, kas_losses *losses)
{
    const kas_ending end = ending_of(options, work, count, losses);
    return end.answer ? end.answer : end.nearest;
}

const kas_work *kas_objective_leader(const kas_search_options *options, const kas_work *work,
                                     int count)
{
    return kas_objective_leader_kept(options, work, count, NULL);
}

bool kas_ending_without_answer(const kas_search_options *options, double busy_seconds,
                               const kas_work *work, int count)
{
    const kas_work *baseline = kas_work_find(work, count, KAS_WORK_BASELINE);
    int counted = 0;
    if (!baseline || baseline->state != KAS_WORK_FINISHED)
        return false;
    for (int i = 0; i < count; i++) {
        const kas_work *w = &work[i];
        if (w->kind != KAS_WORK_CANDIDATE)
            continue;
        if (!kas_work_ended(w->state) || w->state == KAS_WORK_MACHINE_FAULT)
            return false;
        counted += !kas_work_discarded(w->state);
    }
    const bool enough =
        options->candidates ? counted == options->candidates : busy_seconds >= options->time_limit;
    return enough && counted > 0 && !kas_ending_of(options, work, count).answer;
}

const char *kas_ending_missing(const kas_search_options *options, const kas_work *nearest,
                               char out[KAS_ENDING_MISSING])
{
    const double limit = options->latency;
    if (!nearest)
        snprintf(out, KAS_ENDING_MISSING, "no candidate finished");
    else if (!options->finalists)
        snprintf(out, KAS_ENDING_MISSING, "no finalists were asked for (--finalists 0)");
    else if (options->objective != KAS_OBJECTIVE_LATENCY)
        snprintf(out, KAS_ENDING_MISSING, "no kernel that finished is within --latency %g", limit);
    else if (limit > 0 && limit < 1)
        snprintf(out, KAS_ENDING_MISSING, "no kernel is within --latency %g and --max-loss %g",
                 limit, options->max_loss);
    else
        snprintf(out, KAS_ENDING_MISSING,
                 "no kernel is faster than the unmodified network and within --max-loss %g",
                 options->max_loss);
    return out;
}
