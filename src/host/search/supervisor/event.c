/* Tells the caller of kas_supervise what happens, with the state of the search. */
#include <math.h>

#include "host/leaderboard/objective.h"
#include "host/search/supervisor/supervisor_state.h"

static void count_items(const kas_supervisor *s, kas_event *event)
{
    for (int i = 0; i < s->count; i++) {
        const kas_work *w = &s->list[i];
        if (w->kind == KAS_WORK_BASELINE)
            event->baseline = w;
        event->finals |= w->kind == KAS_WORK_FINAL;
        if (w->kind != KAS_WORK_CANDIDATE || kas_work_discarded(w->state))
            continue;
        event->ended += kas_work_ended(w->state);
        event->finished += w->state == KAS_WORK_FINISHED;
        event->running += w->state == KAS_WORK_RUNNING;
    }
    event->best = kas_objective_leader(s->options->search, s->list, s->count);
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
    kas_event event = {.kind = kind,
                       .work = work,
                       .text = text,
                       .total = (int)s->wanted,
                       .phase = "",
                       .elapsed = kas_monotonic() - s->began};
    count_items(s, &event);
    event.eta = estimate(s, &event);
    for (int i = 0; i < s->options->workers * s->options->pack; i++)
        if (s->item[i].busy) {
            event.phase = s->item[i].phase;
            event.fraction = s->item[i].fraction;
            break;
        }
    s->options->on_event(s->options->context, &event);
}
