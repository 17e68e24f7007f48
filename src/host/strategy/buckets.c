#include "host/strategy/buckets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/core/rank.h"

static int bucket_of(const kas_work *work)
{
    return (int)floor(2 * log2(work->flops / work->conv_flops));
}

static bool better(double a, double b)
{
    return isfinite(a) && (!isfinite(b) || a > b);
}

/* Gives each member of a full bucket one number: its score, or what its ranks make. */
static kas_status combine(const kas_buckets *b, const int *member, double *out)
{
    double *all = malloc(sizeof *all * KAS_BUCKET_SCORES * (size_t)b->each);
    const double *score[KAS_BUCKET_SCORES];
    if (!all)
        return kas_fail(KAS_NO_MEMORY, "no memory for the scores of %d proposals", b->each);
    for (int s = 0; s < b->scores; s++) {
        score[s] = all + s * b->each;
        for (int i = 0; i < b->each; i++)
            all[s * b->each + i] = b->waiting[member[i]].score[s];
    }
    kas_status status = KAS_OK;
    if (b->scores > 1)
        status = kas_combine_ranks(b->each, b->scores, score, out);
    else
        memcpy(out, all, sizeof *out * (size_t)b->each);
    free(all);
    return status;
}

/* Chooses among the members of a full bucket. What the study has decided stands; the one that it
 * trains may be among those that it does not have yet. -1: it has decided against all. */
static int choose(const kas_buckets *b, const int *member, const double *score)
{
    int best = -1;
    for (int i = 0; i < b->each; i++) {
        const kas_waiting *w = &b->waiting[member[i]];
        if (w->stored && w->work.state != KAS_WORK_PREFILTERED)
            return i;
        if (!w->stored && (best < 0 || better(score[i], score[best])))
            best = i;
    }
    return best;
}

static void dismiss(const kas_buckets *b, kas_waiting *w, double of_it, const kas_waiting *chosen,
                    double of_chosen)
{
    char score[64] = "it has no score";
    if (w->stored) /* with its reason */
        return;
    if (isfinite(of_it))
        snprintf(score, sizeof score, "%s %.5g", b->score, of_it);
    w->work.state = KAS_WORK_PREFILTERED;
    snprintf(w->work.reason, sizeof w->work.reason,
             "%s; of %d proposals of like FLOPs %s is trained", score, b->each,
             chosen ? chosen->work.name : "another");
    if (chosen && isfinite(of_chosen))
        snprintf(w->work.reason, sizeof w->work.reason,
                 "%s; of %d proposals of like FLOPs %s is trained, with %.5g", score, b->each,
                 chosen->work.name, of_chosen);
}

/* Moves the members of a full bucket to those that are ready. */
static kas_status empty(kas_buckets *b, const int *member, const double *score)
{
    const int chosen = choose(b, member, score);
    int left = 0, next = 0;
    b->readies = b->taken = 0;
    if (!b->ready)
        b->ready = calloc((size_t)b->each, sizeof *b->ready);
    if (!b->ready)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d proposals", b->each);
    for (int i = 0; i < b->each; i++) {
        kas_waiting *w = &b->waiting[member[i]];
        if (chosen < 0)
            dismiss(b, w, score[i], NULL, NAN);
        else if (i != chosen)
            dismiss(b, w, score[i], &b->waiting[member[chosen]], score[chosen]);
        b->ready[b->readies++] = w->work;
    }
    for (int i = 0; i < b->waits; i++)
        if (next < b->each && member[next] == i)
            next++;
        else
            b->waiting[left++] = b->waiting[i];
    b->waits = left;
    return KAS_OK;
}

kas_status kas_buckets_add(kas_buckets *b, kas_work *work, const double score[KAS_BUCKET_SCORES],
                           bool stored)
{
    int *member = malloc(sizeof *member * (size_t)b->each), members = 0;
    double *combined = malloc(sizeof *combined * (size_t)b->each);
    kas_status status = KAS_OK;
    if (!member || !combined || !KAS_GROW(b->waiting, b->waits)) {
        kas_work_clear(work);
        free(member);
        free(combined);
        return kas_fail(KAS_NO_MEMORY, "no memory for %d proposals", b->waits + 1);
    }
    b->waiting[b->waits] = (kas_waiting){.work = *work, .stored = stored};
    memcpy(b->waiting[b->waits++].score, score, sizeof *score * (size_t)b->scores);
    for (int i = 0; i < b->waits; i++)
        if (bucket_of(&b->waiting[i].work) == bucket_of(work))
            member[members++] = i;
    if (members == b->each)
        status = combine(b, member, combined);
    if (members == b->each && status == KAS_OK)
        status = empty(b, member, combined);
    free(member);
    free(combined);
    return status;
}

bool kas_buckets_take(kas_buckets *b, kas_work *out)
{
    if (b->taken == b->readies)
        return false;
    *out = b->ready[b->taken++];
    return true;
}

void kas_buckets_free(kas_buckets *b)
{
    for (int i = 0; i < b->waits; i++)
        kas_work_clear(&b->waiting[i].work);
    for (int i = b->taken; i < b->readies; i++)
        kas_work_clear(&b->ready[i]);
    free(b->waiting);
    free(b->ready);
    *b = (kas_buckets){0};
}
