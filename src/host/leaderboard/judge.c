#include "host/leaderboard/judge.h"

#include <math.h>
#include <string.h>

#include "host/train/prune.h"

double kas_judge_cost(const kas_work *work)
{
    return work->predicted > 0 ? work->predicted : work->flops;
}

/* Which finished candidates a candidate is compared with. */
typedef enum scope { ALL, BEFORE_THE_WINDOW, EARLIER_GENERATIONS } scope;

static scope scope_of(const kas_search_options *options)
{
    if (kas_search_in_generations(options))
        return EARLIER_GENERATIONS;
    return strcmp(options->prune, "deterministic") == 0 ? BEFORE_THE_WINDOW : ALL;
}

static bool in_scope(const kas_search_options *options, scope scope, const kas_curve *c,
                     const kas_work *work, int epoch)
{
    if (c->index == work->index || c->epochs <= epoch || c->epochs == 0)
        return false;
    if (scope == EARLIER_GENERATIONS)
        return c->generation < work->generation;
    return scope == ALL || c->index < work->index - options->prune_window;
}

bool kas_judge_prune(const kas_search_options *options, const kas_curve *finished, int count,
                     const kas_work *work, int epoch, double accuracy)
{
    if (strcmp(options->prune, "none") == 0)
        return false;
    if (!isfinite(accuracy))
        return true;
    const scope scope = scope_of(options);
    bool dominated = false;
    double best = NAN, best_last = -1;
    for (int i = 0; i < count; i++) {
        const kas_curve *c = &finished[i];
        if (!in_scope(options, scope, c, work, epoch))
            continue;
        double last = c->accuracy[c->epochs - 1];
        if (last > best_last) {
            best_last = last;
            best = c->accuracy[epoch];
        }
        double cost = scope == ALL ? c->latency : c->cost,
               own = scope == ALL ? work->measured.latency : kas_judge_cost(work);
        /* Without a latency on either side the candidate counts as the slower one. */
        bool slower = isnan(cost) || isnan(own) || cost <= own;
        dominated |= slower && c->accuracy[epoch] >= accuracy;
    }
    return dominated && kas_prune_now(options->theta, epoch,
                                      kas_search_recipe(options, true).epochs, accuracy, best);
}

static bool counts(const kas_work *work)
{
    return (work->kind == KAS_WORK_CANDIDATE || work->kind == KAS_WORK_BASELINE) &&
           work->state == KAS_WORK_FINISHED && isfinite(work->measured.accuracy);
}

static bool beats(const kas_measured *a, const kas_measured *b)
{
    return a->accuracy >= b->accuracy && a->latency <= b->latency &&
           (a->accuracy > b->accuracy || a->latency < b->latency);
}

bool kas_judge_on_frontier(const kas_work *work, int count, int i)
{
    if (!counts(&work[i]) || !isfinite(work[i].measured.latency))
        return false;
    for (int j = 0; j < count; j++)
        if (counts(&work[j]) && beats(&work[j].measured, &work[i].measured))
            return false;
    return true;
}

void kas_judge_frontier(const kas_work *work, int count, bool *frontier)
{
    for (int i = 0; i < count; i++)
        frontier[i] = kas_judge_on_frontier(work, count, i);
}
