#include "host/strategy/buckets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bucket_of(const kas_work *work)
{
    return (int)floor(2 * log2(work->flops / work->conv_flops));
}

static bool better(double a, double b)
{
    return isfinite(a) && (!isfinite(b) || a > b);
}

/* Chooses among the members of a full bucket. What the study has decided stands; the one that it
 * trains may be among those that it does not have yet. -1: it has decided against all. */
static int choose(const kas_waiting *waiting, const int *member, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++) {
        const kas_waiting *w = &waiting[member[i]];
        if (w->stored && w->work.state != KAS_WORK_PREFILTERED)
            return member[i];
        if (!w->stored && (best < 0 || better(w->score, waiting[best].score)))
            best = member[i];
    }
    return best;
}

static void dismiss(const kas_buckets *b, kas_waiting *w, const kas_waiting *chosen)
{
    char score[64] = "it has no score";
    if (w->stored) /* with its reason */
        return;
    if (isfinite(w->score))
        snprintf(score, sizeof score, "%s %.5g", b->score, w->score);
    w->work.state = KAS_WORK_PREFILTERED;
    snprintf(w->work.reason, sizeof w->work.reason,
             "%s; of %d proposals of like FLOPs %s is trained", score, b->each,
             chosen ? chosen->work.name : "another");
    if (chosen && isfinite(chosen->score))
        snprintf(w->work.reason, sizeof w->work.reason,
                 "%s; of %d proposals of like FLOPs %s is trained, with %.5g", score, b->each,
                 chosen->work.name, chosen->score);
}

/* Moves the members of a full bucket to those that are ready. */
static kas_status empty(kas_buckets *b, const int *member)
{
    const int chosen = choose(b->waiting, member, b->each);
    int left = 0, next = 0;
    b->readies = b->taken = 0;
    if (!b->ready)
        b->ready = calloc((size_t)b->each, sizeof *b->ready);
    if (!b->ready)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d proposals", b->each);
    for (int i = 0; i < b->each; i++) {
        kas_waiting *w = &b->waiting[member[i]];
        if (member[i] != chosen)
            dismiss(b, w, chosen < 0 ? NULL : &b->waiting[chosen]);
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

kas_status kas_buckets_add(kas_buckets *b, kas_work *work, double score, bool stored)
{
    kas_waiting *grown = realloc(b->waiting, sizeof *grown * ((size_t)b->waits + 1));
    int *member = malloc(sizeof *member * (size_t)b->each), members = 0;
    kas_status status = KAS_OK;
    if (grown)
        b->waiting = grown;
    if (!grown || !member) {
        kas_work_clear(work);
        free(member);
        return kas_fail(KAS_NO_MEMORY, "no memory for %d proposals", b->waits + 1);
    }
    b->waiting[b->waits++] = (kas_waiting){*work, score, stored};
    for (int i = 0; i < b->waits; i++)
        if (bucket_of(&b->waiting[i].work) == bucket_of(work))
            member[members++] = i;
    if (members == b->each)
        status = empty(b, member);
    free(member);
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
