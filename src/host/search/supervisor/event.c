/* Tells the caller of kas_supervise what happens, with the state of the search. */
#include <math.h>

#include "host/leaderboard/leaderboard.h"
#include "host/leaderboard/objective.h"
#include "host/search/supervisor/supervisor_state.h"

/* Counts the items and finds the candidate that leads, when the list has changed: there are two ticks a
 * second. */
static void count_items(kas_supervisor *s)
{
    kas_tally *t = &s->tally;
    if (t->of.connection == s->mark.connection && t->of.number == s->mark.number &&
        t->of.removed == s->mark.removed)
        return;
    *t = (kas_tally){.of = s->mark, .best = -1};
    for (int i = 0; i < s->count; i++) {
        const kas_work *w = &s->list[i];
        t->finals |= w->kind == KAS_WORK_FINAL;
        if (w->kind != KAS_WORK_CANDIDATE || kas_work_discarded(w->state))
            continue;
        t->ended += kas_work_ended(w->state);
        t->finished += w->state == KAS_WORK_FINISHED;
        t->running += w->state == KAS_WORK_RUNNING;
    }
    const kas_work *best =
        kas_objective_leader_kept(s->options->search, s->list, s->count, &s->losses);
    if (best)
        t->best = (int)(best - s->list);
}

const kas_work *kas_supervisor_leader(kas_supervisor *s)
{
    count_items(s);
    return s->tally.of.connection && s->tally.best >= 0 ? &s->list[s->tally.best] : NULL;
}

/* Estimates the time left from the mean time of ended items and the number of workers. With rungs
 * an item mostly waits, so there the study's time is shared out among those that ended. */
static double estimate(const kas_supervisor *s, const kas_event *event)
{
    double spent = 0;
    int ended = 0, left = event->total - event->ended;
    for (int i = 0; i < s->count; i++) {
        const kas_work *w = &s->list[i];
        if (kas_work_ended(w->state) && w->ended > w->started) {
            spent += w->ended - w->started;
            ended++;
        }
        left += w->kind != KAS_WORK_CANDIDATE && !kas_work_ended(w->state);
    }
    if (ended == 0 || event->total == 0)
        return NAN;
    if (!event->finals)
        left += (s->options->search->finalists + 1) * s->options->search->seeds;
    if (s->options->search->rungs.count)
        return event->ended ? (s->busy_before + kas_monotonic() - s->began) / ended * left : NAN;
    return spent / ended * left / (s->options->workers * s->options->pack);
}

void kas_supervisor_emit(kas_supervisor *s, kas_event_kind kind, const kas_work *work,
                         const char *text)
{
    if (!s->options->on_event)
        return;
    const kas_work *best = kas_supervisor_leader(s);
    const kas_tally *t = &s->tally;
    kas_event event = {.kind = kind,
                       .work = work,
                       .text = text,
                       .total = (int)s->wanted,
                       .ended = t->ended,
                       .finished = t->finished,
                       .running = t->running,
                       .best = best,
                       .baseline = kas_work_find(s->list, s->count, KAS_WORK_BASELINE),
                       .finals = t->finals,
                       .phase = "",
                       .elapsed = kas_monotonic() - s->began};
    event.eta = estimate(s, &event);
    for (int i = 0; i < s->options->workers * s->options->pack; i++)
        if (s->item[i].busy) {
            event.phase = s->item[i].phase;
            event.fraction = s->item[i].fraction;
            break;
        }
    s->options->on_event(s->options->context, &event);
}
