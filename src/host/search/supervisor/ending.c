/* How a study ended, as an exit status with its message. */
#include <stdio.h>
#include <string.h>

#include "host/leaderboard/finals.h"
#include "host/leaderboard/leaderboard.h"
#include "host/leaderboard/objective.h"
#include "host/search/supervisor/supervisor_state.h"

bool kas_supervisor_is_missing(const kas_work *w)
{
    const bool explores = w->kind == KAS_WORK_FINAL && !w->answers;
    return kas_work_ended(w->state) && w->state != KAS_WORK_FINISHED && w->kind != KAS_WORK_TURNS &&
           (w->state == KAS_WORK_MACHINE_FAULT || (w->kind != KAS_WORK_CANDIDATE && !explores));
}

/* The end of a study in which no kernel answers the objective. */
static kas_status no_answer(const kas_supervisor *s, const kas_ending *end)
{
    const kas_search_options *o = s->options->search;
    const kas_work *near = end->nearest,
                   *baseline = kas_work_find(s->list, s->count, KAS_WORK_BASELINE);
    const kas_paired select = kas_objective_lost(near, baseline, KAS_SELECTING),
                     confirm = kas_objective_lost(near, baseline, KAS_CONFIRMING);
    char missing[KAS_ENDING_MISSING];
    return kas_fail(
        KAS_NOTHING_VALID,
        "%s: %s. The nearest is candidate %lld, %s, at %.2f of the latency: it loses %.2f "
        "points (standard error %.2f) on the images that select and %.2f (%.2f) on "
        "those that confirm. Everything is kept: `kas-gpu best` lists all candidates, "
        "and the same command with more --candidates goes on",
        s->options->study, kas_ending_missing(o, near, missing), (long long)near->index, near->name,
        kas_objective_ratio(o, s->list, s->count, near), 100 * select.lost, 100 * select.error,
        100 * confirm.lost, 100 * confirm.error);
}

/* The end of a study in which no candidate was trained. */
static kas_status all_discarded(const kas_supervisor *s, int candidates, int slow)
{
    const kas_search_options *o = s->options->search;
    const char *study = s->options->study;
    if (slow == candidates)
        return kas_fail(KAS_NOTHING_VALID,
                        "%s: all %d candidates were predicted to be slower than --latency %g "
                        "allows; allow more, or fewer --flops",
                        study, candidates, o->latency);
    if (slow == 0)
        return kas_fail(KAS_NOTHING_VALID,
                        "%s: --legality %s rejected all %d candidates; allow it more tolerance",
                        study, o->legality, candidates);
    return kas_fail(KAS_NOTHING_VALID,
                    "%s: of %d candidates %d were predicted to be slower than --latency %g allows, "
                    "and --legality %s rejected the others; allow more of either",
                    study, candidates, slow, o->latency, o->legality);
}

kas_status kas_supervisor_ending(kas_supervisor *s)
{
    int candidates = 0, slow = 0, discarded = 0, left = 0;
    const char *reason = "";
    for (int i = 0; i < s->count; i++) {
        const kas_work *w = &s->list[i];
        char name[KAS_ITEM_NAME];
        kas_study_item_name(w, name);
        slow += w->kind == KAS_WORK_CANDIDATE && w->state == KAS_WORK_PREDICTED_SLOW;
        discarded += w->kind == KAS_WORK_CANDIDATE && kas_work_discarded(w->state);
        candidates += w->kind == KAS_WORK_CANDIDATE;
        if (w->kind == KAS_WORK_CANDIDATE && w->state == KAS_WORK_MACHINE_FAULT) {
            left++;
            reason = w->reason;
        }
        if (w->kind >= KAS_WORK_FINAL && kas_supervisor_is_missing(w))
            return kas_fail(KAS_FAILURE, "%s: the training %s ended as \"%s\": %s; see logs/%s.log",
                            s->options->study, name, kas_work_state_name(w->state), w->reason,
                            name);
    }
    const kas_ending end = kas_ending_of(s->options->search, s->list, s->count);
    if (discarded > 0 && discarded == candidates)
        return all_discarded(s, candidates, slow);
    candidates -= discarded; /* no worker had these */
    if (!end.nearest && left)
        return kas_fail(KAS_MACHINE,
                        "%s: none of the %d candidates finished, and %d of them could not be "
                        "evaluated on this machine: %.400s; when it is repaired, run the same "
                        "command",
                        s->options->study, candidates, left, reason);
    if (!end.nearest)
        return kas_fail(KAS_NOTHING_VALID,
                        "%s: none of the %d candidates finished; `kas-gpu status` tells why, "
                        "`kas-gpu log` more",
                        s->options->study, candidates);
    if (left) {
        char text[400];
        snprintf(text, sizeof text,
                 "%d of the %d candidates could not be evaluated on this machine: %.200s; the same "
                 "command tries them again",
                 left, candidates, reason);
        kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL, text);
    }
    return !s->options->search->finalists || end.answer || kas_finals_answer(s->list, s->count)
               ? KAS_OK
               : no_answer(s, &end);
}
