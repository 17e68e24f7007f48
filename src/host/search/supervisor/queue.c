/* Chooses the next item: first the baseline, then the candidates in order, then finalists in turns
 * with the unmodified network, then the final trainings. Where there are rungs, also decides who
 * goes on from one.  Only the supervisor that proposes adds items or decides about rungs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/leaderboard/leaderboard.h"
#include "host/leaderboard/objective.h"
#include "host/leaderboard/publish.h"
#include "host/leaderboard/rungs.h"
#include "host/leaderboard/spent.h"
#include "host/search/supervisor/supervisor_state.h"

enum { STOCK = 8 };

static const kas_work *find(const kas_supervisor *s, kas_work_kind kind)
{
    return kas_work_find(s->list, s->count, kind);
}

static kas_status claim(kas_supervisor *s, kas_work_kind kind, int64_t limit, kas_work *out,
                        bool *found)
{
    KAS_TRY(kas_store_claim(s->store, kind, limit, s->owner, kas_supervisor_lease(s), out, found));
    return *found ? kas_supervisor_refresh(s) : KAS_OK;
}

/* Returns the number below which candidates may run now. --prune deterministic holds candidate k
 * back until those with which it is compared have ended, unless generations do; otherwise there is
 * no limit (-1). */
static int64_t candidate_limit(const kas_supervisor *s)
{
    if (strcmp(s->options->search->prune, "deterministic") != 0 ||
        kas_search_in_generations(s->options->search))
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

static int64_t stored_candidates(const kas_supervisor *s)
{
    int64_t have = 0;
    for (int i = 0; i < s->count; i++)
        have += s->list[i].kind == KAS_WORK_CANDIDATE;
    return have;
}

/* Returns how many candidates in the store reach training: --candidates counts only these. */
static int64_t trained_candidates(const kas_supervisor *s)
{
    int64_t trained = 0;
    for (int i = 0; i < s->count; i++)
        trained += s->list[i].kind == KAS_WORK_CANDIDATE && !kas_work_discarded(s->list[i].state);
    return trained;
}

/* Returns whether the study gets more candidates when it has `trained` that reach training. */
static bool want_more(const kas_supervisor *s, int64_t trained)
{
    const kas_search_options *o = s->options->search;
    if (!s->leads || s->exhausted || find(s, KAS_WORK_FINAL))
        return false;
    if (o->candidates > 0)
        return trained < s->wanted;
    return s->busy_before + kas_monotonic() - s->began < o->time_limit;
}

/* Looks up how many candidates the study has to get: another command may have given it more. */
static kas_status look_up_wanted(kas_supervisor *s)
{
    kas_study study;
    kas_search_options options;
    KAS_TRY(kas_store_get_study(s->store, &study));
    const kas_status status = kas_search_options_read(s->options->study, study.options, &options);
    if (status == KAS_OK && options.candidates > s->wanted)
        s->wanted = options.candidates;
    memcpy(s->options_digest, study.options_digest, sizeof s->options_digest);
    kas_study_clear(&study);
    return status;
}

static kas_status draw(kas_supervisor *s, kas_work *out, bool *ready)
{
    const kas_strategy *strategy = &s->options->strategy;
    *out = (kas_work){.kind = KAS_WORK_CANDIDATE};
    const kas_elapsed before = kas_elapsed_since((kas_elapsed){0});
    kas_status status = strategy->next(strategy->context, s->list, s->count, out, ready);
    s->drew += kas_spent_device(s->options->search, kas_elapsed_since(before));
    out->kind = KAS_WORK_CANDIDATE;
    if (status != KAS_OK)
        kas_work_clear(out);
    return status;
}

/* Takes the next candidate of the strategy, which may have been drawn ahead. */
static kas_status take_drawn(kas_supervisor *s, kas_work *out, bool *ready)
{
    kas_foreseen *f = &s->foreseen;
    *ready = true;
    if (f->count > 0) {
        *out = f->work[0];
        memmove(f->work, f->work + 1, sizeof *f->work * (size_t)--f->count);
        return KAS_OK;
    }
    return f->status == KAS_OK ? draw(s, out, ready) : kas_fail(f->status, "%s", f->message);
}

/* Takes candidate number `sampled` of the strategy and adds it to the store. If the store has it
 * already, it must be the same. *ready is false when the strategy waits for results. `drawing` is set
 * when no worker gets the candidate: hundreds of such ones may come in a row, and each may have to be
 * scored. */
static kas_status sample_one(kas_supervisor *s, int64_t have, bool *ready)
{
    kas_work next;
    kas_status status = take_drawn(s, &next, ready);
    if (status == KAS_OK && !*ready)
        return KAS_OK;
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
    s->drawing = !news || kas_work_discarded(next.state);
    kas_work_clear(&next);
    if (status == KAS_OK && news)
        status = kas_supervisor_refresh(s);
    return status;
}

const kas_work *kas_queue_waiting(const kas_supervisor *s, int n)
{
    const int64_t have = stored_candidates(s);
    for (int i = 0; i < s->count; i++)
        if (s->list[i].kind == KAS_WORK_CANDIDATE && s->list[i].state == KAS_WORK_QUEUED &&
            n-- == 0)
            return &s->list[i];
    for (int i = 0; i < s->foreseen.count; i++)
        if (s->foreseen.work[i].index >= have && /* otherwise another supervisor has added it */
            s->foreseen.work[i].state == KAS_WORK_QUEUED && n-- == 0)
            return &s->foreseen.work[i];
    return NULL;
}

void kas_queue_foresee(kas_supervisor *s)
{
    kas_foreseen *f = &s->foreseen;
    const int64_t have = stored_candidates(s), next = s->sampled + f->count;
    int64_t trained = trained_candidates(s);
    for (int i = 0; i < f->count; i++)
        trained += !kas_work_discarded(f->work[i].state);
    /* A process that has not walked through the store's candidates yet does not know the next. */
    if (f->status != KAS_OK || f->count == KAS_AHEAD_MOST || s->sampled < have ||
        !want_more(s, trained))
        return;
    bool ready;
    kas_work *work = &f->work[f->count];
    f->status = draw(s, work, &ready);
    if (f->status == KAS_OK && ready) {
        work->index = next;
        f->count++;
    } else if (f->status != KAS_OK) {
        snprintf(f->message, sizeof f->message, "%s", kas_error());
    }
}

/* Adds the next candidate to the store, if there can be one now. *added may be true for one that
 * never runs. */
static kas_status add_candidate(kas_supervisor *s, bool *added)
{
    const int64_t have = stored_candidates(s);
    bool ready = true;
    *added = false;
    if (!want_more(s, trained_candidates(s)))
        KAS_TRY(look_up_wanted(s));
    if (!want_more(s, trained_candidates(s)))
        return KAS_OK;
    KAS_TRY(sample_one(s, have, &ready)); /* a new process walks through those that the store has */
    *added = ready && !s->exhausted;
    return KAS_OK;
}

/* Deletes the checkpoints of those that have ended at a rung: nobody goes on from them. Another
 * supervisor may have promoted some meanwhile, so the store says who has ended. */
static void drop_not_promoted(const kas_supervisor *s, const kas_settled *list, int count)
{
    for (int i = 0; i < s->count; i++)
        for (int n = 0; n < count && s->list[i].state == KAS_WORK_NOT_PROMOTED; n++)
            if (list[n].id == s->list[i].id)
                kas_study_drop_checkpoint(s->options->study, &s->list[i]);
}

/* Decides about candidates that wait at a rung. In generations the rung ends when all others of the
 * generation, which must have all its candidates, have reached it or have ended. *changed says
 * whether anything did. */
static kas_status settle_rung(kas_supervisor *s, bool *changed)
{
    const kas_search_options *o = s->options->search;
    kas_settled *list;
    char reason[128];
    int count;
    if (o->asynchronous)
        KAS_TRY(kas_rungs_promote(s->store, o, s->list, s->count,
                                  want_more(s, trained_candidates(s)), reason, &list, &count));
    else
        KAS_TRY(kas_rungs_settle(o, s->list, s->count, reason, &list, &count));
    kas_status status = count ? kas_store_settle(s->store, list, count) : KAS_OK;
    *changed = count > 0;
    if (status == KAS_OK && count)
        kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL, reason);
    if (status == KAS_OK)
        status = kas_supervisor_refresh(s);
    if (status == KAS_OK)
        drop_not_promoted(s, list, count);
    free(list);
    return status;
}

/* Returns how many candidates may wait in the queue for others to take them. Where time is the
 * limit none should be begun long after it was added, and with --asynchronous one that may go on
 * from its rung comes before a new one. */
static int most_queued(const kas_supervisor *s)
{
    const kas_search_options *o = s->options->search;
    return o->candidates > 0 && !o->asynchronous ? STOCK : 1;
}

/* Adds a candidate or decides about rungs. *more says whether anything changed. */
static kas_status propose(kas_supervisor *s, bool *more)
{
    const bool asynchronous = s->options->search->asynchronous;
    const int64_t limit = candidate_limit(s);
    int queued = 0;
    *more = false;
    for (int i = 0; i < s->count; i++)
        queued += s->list[i].kind == KAS_WORK_CANDIDATE && s->list[i].state == KAS_WORK_QUEUED;
    if ((limit >= 0 && stored_candidates(s) >= limit) || queued >= most_queued(s))
        return KAS_OK;
    if (asynchronous)
        KAS_TRY(settle_rung(s, more));
    if (!*more)
        KAS_TRY(add_candidate(s, more));
    /* The newest generation is whole now, unless its proposals are awaited. */
    if (!*more && !asynchronous && !kas_asking_busy(s->options->asking))
        KAS_TRY(settle_rung(s, more));
    return KAS_OK;
}

/* What this supervisor does not take, because of its role, may wait in the queue. With `drawing` the
 * loop looks for signals and lines before more are drawn. */
static kas_status next_candidate(kas_supervisor *s, kas_work *out, bool *found)
{
    for (bool more = true; more;) {
        KAS_TRY(claim(s, KAS_WORK_CANDIDATE, candidate_limit(s), out, found));
        if (*found)
            return KAS_OK;
        KAS_TRY(propose(s, &more));
        more = more && !s->drawing;
    }
    return KAS_OK;
}

/* Returns whether all items of kinds before `kind` have ended. */
static bool ended_before(const kas_supervisor *s, int kind)
{
    for (int i = 0; i < s->count; i++)
        if ((int)s->list[i].kind < kind && !kas_work_ended(s->list[i].state))
            return false;
    return true;
}

static bool all_ended(const kas_supervisor *s)
{
    return ended_before(s, KAS_WORK_TURNS + 1);
}

bool kas_queue_complete(const kas_supervisor *s)
{
    return find(s, KAS_WORK_FINAL) && find(s, KAS_WORK_FINAL_BASELINE) && all_ended(s);
}

static kas_status grows(void *context, const kas_study *present, kas_study_change *out)
{
    (void)context, (void)present;
    out->grows = true;
    return KAS_OK;
}

kas_status kas_queue_reopen(kas_supervisor *s)
{
    if (!kas_queue_complete(s) || s->wanted == 0 || trained_candidates(s) >= s->wanted)
        return KAS_OK;
    KAS_TRY(kas_store_revise(s->store, grows, NULL));
    return kas_supervisor_refresh(s);
}

/* Makes the final training of a finalist; a later one of the unmodified network. The texts are the
 * candidate's. */
static kas_work final_of(const kas_ending *end, int finalist, int seed)
{
    kas_work final = {.kind = KAS_WORK_FINAL_BASELINE, .attempt = -1};
    final.flops = final.params = final.conv_flops = final.conv_params = NAN;
    if (finalist < end->finalists) {
        final = *end->finalist[finalist];
        final.kind = KAS_WORK_FINAL;
        final.answers = end->finalist[finalist] == end->answer;
    }
    final.seed = seed;
    return final;
}

/* Names the answer, and adds the final trainings of all finalists and of the unmodified network by
 * every seed. The answer is in the store before any of them sees the test set. Where a study that
 * grew has another answer now, best/ loses the kernel of the earlier one before it can get weights of
 * this one: a process that is killed in between comes by here again. *added is false when the study was
 * given more candidates meanwhile. */
static kas_status add_finals(kas_supervisor *s, const kas_ending *end, bool *added)
{
    const int seeds = s->options->search->seeds, count = (end->finalists + 1) * seeds;
    KAS_TRY(kas_publish_withdraw(s->options->study, end->answer->name));
    kas_work *list = calloc((size_t)count, sizeof *list);
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "final trainings: out of memory");
    for (int i = 0; i < count; i++)
        list[i] = final_of(end, i / seeds, i % seeds);
    const kas_status status = kas_store_add_finals(s->store, s->options_digest, list, count, added);
    free(list);
    return status == KAS_OK ? kas_supervisor_refresh(s) : status;
}

/* Adds the measurement in turns of the first finalist that has none; *missing says whether there
 * was one. One at a time: so no other item runs meanwhile, in this worker or in another, and the
 * next finalists may be others. */
static kas_status add_turns(kas_supervisor *s, const kas_ending *end, bool *missing)
{
    bool added; /* false: another supervisor has added it */
    *missing = false;
    for (int i = 0; i < end->finalists && !*s->options->search->latency_on; i++) {
        if (kas_objective_turns(s->list, s->count, end->finalist[i]->index))
            continue;
        kas_work turns = *end->finalist[i]; /* the texts are the candidate's */
        turns.kind = KAS_WORK_TURNS;
        *missing = true;
        KAS_TRY(kas_store_add(s->store, &turns, &added));
        return kas_supervisor_refresh(s);
    }
    return KAS_OK;
}

/* Times the finalists in turns, then names the answer and adds the final trainings. *ready says
 * whether these are there. */
static kas_status before_finals(kas_supervisor *s, kas_work *out, bool *found, bool *ready,
                                bool *done)
{
    bool missing;
    *ready = false;
    KAS_TRY(claim(s, KAS_WORK_TURNS, -1, out, found));
    if (*found || !all_ended(s))
        return KAS_OK;
    const kas_ending end = kas_ending_of(s->options->search, s->list, s->count);
    *done = !end.answer;
    if (*done)
        return KAS_OK;
    KAS_TRY(add_turns(s, &end, &missing));
    if (missing)
        return claim(s, KAS_WORK_TURNS, -1, out, found);
    return add_finals(s, &end, ready);
}

static kas_status next_final(kas_supervisor *s, bool finals, kas_work *out, bool *found, bool *done)
{
    bool ready = find(s, KAS_WORK_FINAL);
    if (!ready)
        KAS_TRY(before_finals(s, out, found, &ready, done));
    if (!ready)
        return KAS_OK;
    if (finals)
        KAS_TRY(claim(s, KAS_WORK_FINAL, -1, out, found));
    if (finals && !*found)
        KAS_TRY(claim(s, KAS_WORK_FINAL_BASELINE, -1, out, found));
    *done = !*found && all_ended(s);
    return KAS_OK;
}

/* Returns whether candidates need something of the baseline that is not there yet: its latency for
 * their budget, or its weights to begin with. */
static bool candidates_await(const kas_supervisor *s, const kas_work *baseline)
{
    const kas_search_options *o = s->options->search;
    return baseline && ((o->latency > 0 && isnan(baseline->measured.latency)) ||
                        (kas_search_warm(o, 0) && s->options->role != KAS_TAKES_MEASURING &&
                         baseline->state != KAS_WORK_FINISHED));
}

kas_status kas_queue_stock(kas_supervisor *s)
{
    if (!kas_store_get_place(s->store) || s->options->takes_only)
        return KAS_OK;
    KAS_TRY(kas_supervisor_lead(s));
    if (!s->leads)
        return KAS_OK;
    KAS_TRY(kas_supervisor_refresh(s));
    const kas_work *baseline = find(s, KAS_WORK_BASELINE);
    const bool failed =
        kas_work_ended(baseline->state) && baseline->state != KAS_WORK_FINISHED; /* told later */
    for (bool more = !failed && !candidates_await(s, baseline) && !find(s, KAS_WORK_FINAL);
         more && !s->drawing;)
        KAS_TRY(propose(s, &more));
    return KAS_OK;
}

/* Returns whether the study gets no further candidates, as far as a supervisor knows that does not
 * propose them. */
static bool has_enough(const kas_supervisor *s)
{
    const int64_t trained = trained_candidates(s);
    return s->leads ? !want_more(s, trained) : s->wanted > 0 && trained >= s->wanted;
}

bool kas_queue_without_answer(const kas_supervisor *s)
{
    const kas_work *baseline = find(s, KAS_WORK_BASELINE);
    return baseline && baseline->state == KAS_WORK_FINISHED && has_enough(s) && all_ended(s) &&
           !kas_ending_of(s->options->search, s->list, s->count).answer;
}

/* Takes what is there: another supervisor proposes. */
static kas_status take_next(kas_supervisor *s, bool finals, kas_work *out, bool *found, bool *done)
{
    static const kas_work_kind kinds[] = {KAS_WORK_TURNS, KAS_WORK_FINAL, KAS_WORK_FINAL_BASELINE};
    KAS_TRY(claim(s, KAS_WORK_CANDIDATE, candidate_limit(s), out, found));
    for (int i = 0; i < (finals ? 3 : 1) && !*found; i++)
        KAS_TRY(claim(s, kinds[i], -1, out, found));
    if (*found)
        return KAS_OK;
    *done = kas_queue_complete(s) || (s->options->takes_only && kas_queue_without_answer(s));
    if (!*done && s->options->takes_only)
        KAS_TRY(kas_store_ended(s->store, done));
    return *done ? KAS_OK : kas_store_want(s->store);
}

kas_status kas_queue_next(kas_supervisor *s, bool finals, kas_work *out, bool *found, bool *done)
{
    *found = *done = false;
    KAS_TRY(kas_supervisor_refresh(s)); /* another supervisor may have changed it */
    KAS_TRY(claim(s, KAS_WORK_BASELINE, -1, out, found));
    if (*found)
        return KAS_OK;
    KAS_TRY(kas_supervisor_lead(s));
    const kas_work *baseline = find(s, KAS_WORK_BASELINE);
    if (baseline && kas_work_ended(baseline->state) && baseline->state != KAS_WORK_FINISHED)
        return kas_fail(KAS_FAILURE,
                        "%s: the unmodified network could not be trained (%s: %s), so there is "
                        "nothing to compare with; see logs/baseline.log, then run the command "
                        "again",
                        s->options->study, kas_work_state_name(baseline->state), baseline->reason);
    if (candidates_await(s, baseline))
        return KAS_OK;
    if (!s->leads)
        return take_next(s, finals, out, found, done);
    if (!find(s, KAS_WORK_FINAL)) {
        KAS_TRY(next_candidate(s, out, found));
        if (*found || s->drawing || !ended_before(s, KAS_WORK_FINAL) ||
            kas_asking_busy(s->options->asking))
            return KAS_OK;
    }
    return next_final(s, finals, out, found, done);
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
