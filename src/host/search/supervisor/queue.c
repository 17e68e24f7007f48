/* Chooses the next item: first the baseline, then the candidates in order, then the
 * final trainings. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/leaderboard/judge.h"
#include "host/search/supervisor/supervisor_state.h"

static const kas_work *find(const kas_supervisor *s, kas_work_kind kind)
{
    for (int i = 0; i < s->count; i++)
        if (s->list[i].kind == kind)
            return &s->list[i];
    return NULL;
}

static kas_status claim(kas_supervisor *s, kas_work_kind kind, int64_t limit, kas_work *out,
                        bool *found)
{
    KAS_TRY(kas_store_claim(s->store, kind, limit, s->owner, kas_supervisor_lease(s), out, found));
    return *found ? kas_supervisor_refresh(s) : KAS_OK;
}

/* Returns the number below which candidates may run now. --prune deterministic holds candidate k
 * back until those with which it is compared have ended; otherwise there is no limit (-1). */
static int64_t candidate_limit(const kas_supervisor *s)
{
    if (strcmp(s->options->search->prune, "deterministic") != 0)
        return -1;
    int64_t ended = 0;
    for (int i = 0; i < s->count; i++)
        if (s->list[i].kind == KAS_WORK_CANDIDATE) {
            if (!kas_work_ended(s->list[i].state))
                break;
            ended = s->list[i].index + 1;
        }
    return ended + s->options->search->prune_window + 1;
}

static bool want_more(const kas_supervisor *s, int64_t have)
{
    const kas_search_options *o = s->options->search;
    if (s->exhausted || find(s, KAS_WORK_FINAL))
        return false;
    if (o->candidates > 0)
        return have < o->candidates;
    return s->busy_before + kas_monotonic() - s->began < o->time_limit;
}

static kas_status draw(kas_supervisor *s, kas_work *out)
{
    *out = (kas_work){.kind = KAS_WORK_CANDIDATE};
    kas_status status = s->options->strategy.next(s->options->strategy.context, out);
    out->kind = KAS_WORK_CANDIDATE;
    return status;
}

/* Takes the next candidate of the strategy, which may have been drawn ahead. */
static kas_status take_drawn(kas_supervisor *s, kas_work *out)
{
    kas_foreseen *f = &s->foreseen;
    if (f->count > 0) {
        *out = f->work[0];
        memmove(f->work, f->work + 1, sizeof *f->work * (size_t)--f->count);
        return KAS_OK;
    }
    return f->status == KAS_OK ? draw(s, out) : kas_fail(f->status, "%s", f->message);
}

/* Takes candidate number `sampled` of the strategy and adds it to the store. If the store has it
 * already, it must be the same. */
static kas_status sample_one(kas_supervisor *s, int64_t have)
{
    kas_work next;
    kas_status status = take_drawn(s, &next);
    if (status == KAS_NOTHING_VALID) {
        s->exhausted = true;
        kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL, kas_error());
        return KAS_OK;
    }
    KAS_TRY(status);
    next.index = s->sampled++;
    bool added;
    if (next.index >= have)
        status = kas_store_add(s->store, &next, &added);
    for (int i = 0; i < s->count && status == KAS_OK; i++)
        if (s->list[i].kind == KAS_WORK_CANDIDATE && s->list[i].index == next.index &&
            strcmp(s->list[i].name, next.name) != 0)
            status = kas_fail(KAS_STORE,
                              "%s: candidate %lld is %s in the study, but this kas-gpu samples %s; "
                              "go on with the version that began the study",
                              s->options->study, (long long)next.index, s->list[i].name, next.name);
    const bool news = next.index >= have; /* added here, or by another supervisor meanwhile */
    kas_work_clear(&next);
    if (status == KAS_OK && news)
        status = kas_supervisor_refresh(s);
    return status;
}

static int64_t stored_candidates(const kas_supervisor *s)
{
    int64_t have = 0;
    for (int i = 0; i < s->count; i++)
        have += s->list[i].kind == KAS_WORK_CANDIDATE;
    return have;
}

const kas_work *kas_queue_waiting(const kas_supervisor *s, int n)
{
    const int64_t have = stored_candidates(s);
    for (int i = 0; i < s->count; i++)
        if (s->list[i].kind == KAS_WORK_CANDIDATE && s->list[i].state == KAS_WORK_QUEUED &&
            n-- == 0)
            return &s->list[i];
    for (int i = 0; i < s->foreseen.count; i++)
        if (s->foreseen.work[i].index >= have && n-- == 0) /* otherwise another supervisor has
                                                              added it */
            return &s->foreseen.work[i];
    return NULL;
}

void kas_queue_foresee(kas_supervisor *s)
{
    kas_foreseen *f = &s->foreseen;
    const int64_t have = stored_candidates(s), next = s->sampled + f->count;
    /* A process that has not walked through the store's candidates yet does not know the next. */
    if (f->status != KAS_OK || f->count == KAS_AHEAD_MOST || s->sampled < have ||
        !want_more(s, next))
        return;
    kas_work *work = &f->work[f->count];
    f->status = draw(s, work);
    if (f->status == KAS_OK) {
        work->index = next;
        f->count++;
    } else {
        snprintf(f->message, sizeof f->message, "%s", kas_error());
        kas_work_clear(work);
    }
}

static kas_status next_candidate(kas_supervisor *s, kas_work *out, bool *found)
{
    for (;;) {
        int64_t limit = candidate_limit(s), have = stored_candidates(s);
        KAS_TRY(claim(s, KAS_WORK_CANDIDATE, limit, out, found));
        if (*found || (limit >= 0 && have >= limit) || !want_more(s, have))
            return KAS_OK;
        do /* a new process walks through the candidates that the store has */
            KAS_TRY(sample_one(s, have));
        while (s->sampled <= have && !s->exhausted);
    }
}

static bool all_ended(const kas_supervisor *s)
{
    for (int i = 0; i < s->count; i++)
        if (!kas_work_ended(s->list[i].state))
            return false;
    return true;
}

bool kas_queue_complete(const kas_supervisor *s)
{
    return find(s, KAS_WORK_FINAL) && find(s, KAS_WORK_FINAL_BASELINE) && all_ended(s);
}

static kas_status add_finals(kas_supervisor *s, const kas_work *best)
{
    kas_work baseline = {.kind = KAS_WORK_FINAL_BASELINE, .attempt = -1};
    baseline.flops = baseline.params = baseline.conv_flops = baseline.conv_params = NAN;
    bool added;
    KAS_TRY(kas_store_add_final(s->store, best));
    KAS_TRY(kas_store_add(s->store, &baseline, &added));
    return kas_supervisor_refresh(s);
}

static kas_status next_final(kas_supervisor *s, kas_work *out, bool *found, bool *done)
{
    if (!find(s, KAS_WORK_FINAL)) {
        const kas_work *best = kas_judge_best(s->list, s->count);
        if (!best) {
            *done = true;
            return KAS_OK;
        }
        KAS_TRY(add_finals(s, best));
    }
    KAS_TRY(claim(s, KAS_WORK_FINAL, -1, out, found));
    if (!*found)
        KAS_TRY(claim(s, KAS_WORK_FINAL_BASELINE, -1, out, found));
    *done = !*found && all_ended(s);
    return KAS_OK;
}

kas_status kas_queue_next(kas_supervisor *s, kas_work *out, bool *found, bool *done)
{
    *found = *done = false;
    KAS_TRY(kas_supervisor_refresh(s)); /* another supervisor may have changed it */
    KAS_TRY(claim(s, KAS_WORK_BASELINE, -1, out, found));
    if (*found)
        return KAS_OK;
    const kas_work *baseline = find(s, KAS_WORK_BASELINE);
    if (baseline && kas_work_ended(baseline->state) && baseline->state != KAS_WORK_FINISHED)
        return kas_fail(KAS_FAILURE,
                        "%s: the unmodified network could not be trained (%s: %s), so there is "
                        "nothing to compare with; see logs/baseline.log, then run the command "
                        "again",
                        s->options->study, kas_work_state_name(baseline->state), baseline->reason);
    if (s->options->search->latency > 0 && baseline && isnan(baseline->measured.latency))
        return KAS_OK; /* the latency budget needs it */
    if (!find(s, KAS_WORK_FINAL)) {
        KAS_TRY(next_candidate(s, out, found));
        if (*found || !all_ended(s))
            return KAS_OK;
    }
    return next_final(s, out, found, done);
}

kas_status kas_queue_solo(kas_supervisor *s, kas_work *out, bool *found)
{
    *found = false;
    while (s->solos > 0 && !*found) {
        KAS_TRY(kas_store_claim_item(s->store, s->solo[0], s->owner, kas_supervisor_lease(s), out,
                                     found));
        memmove(s->solo, s->solo + 1, sizeof *s->solo * (size_t)--s->solos);
    }
    return *found ? kas_supervisor_refresh(s) : KAS_OK;
}
