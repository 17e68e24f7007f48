#include "host/search/originals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"

static void free_list(kas_original *list, int count)
{
    for (int i = 0; i < count; i++)
        free(list[i].kernel);
    free(list);
}

void kas_originals_free(kas_originals *originals)
{
    free_list(originals->scored, originals->scored_count);
    free_list(originals->waiting, originals->waiting_count);
    *originals = (kas_originals){0};
}

static kas_original describe(const kas_work *work, double score)
{
    kas_original original = {.params = work->params, .score = score};
    memcpy(original.name, work->name, sizeof original.name);
    return original;
}

kas_status kas_originals_add(kas_originals *originals, const kas_work *work, double score)
{
    if (!KAS_GROW(originals->scored, originals->scored_count))
        return kas_fail(KAS_NO_MEMORY, "no memory for the scores of candidates");
    originals->scored[originals->scored_count++] = describe(work, score);
    return KAS_OK;
}

kas_status kas_originals_wait(kas_originals *originals, const kas_work *work)
{
    kas_original original = describe(work, NAN);
    original.kernel = strdup(work->kernel);
    if (!original.kernel || !KAS_GROW(originals->waiting, originals->waiting_count)) {
        free(original.kernel);
        return kas_fail(KAS_NO_MEMORY, "no memory for the scores of candidates");
    }
    originals->waiting[originals->waiting_count++] = original;
    return KAS_OK;
}

typedef struct settling {
    kas_original *list;
    kas_originals_score *score;
    void *context;
} settling;

static kas_status score_one(void *context, kas_score_memory *memory, int item)
{
    const settling *s = context;
    kas_original *original = &s->list[item];
    return s->score(s->context, original->name, original->kernel, memory, &original->score);
}

/* Moves those that may be copied behind the others that wait, and returns how many there are. */
static int bring_together(kas_originals *originals, const kas_work *work)
{
    int others = 0;
    for (int i = 0; i < originals->waiting_count; i++)
        if (originals->waiting[i].params != work->params) {
            const kas_original other = originals->waiting[i];
            originals->waiting[i] = originals->waiting[others];
            originals->waiting[others++] = other;
        }
    return originals->waiting_count - others;
}

kas_status kas_originals_settle(kas_originals *originals, const kas_work *work,
                                kas_originals_score *score, void *context)
{
    const int count = bring_together(originals, work);
    settling s = {originals->waiting + originals->waiting_count - count, score, context};
    KAS_TRY(kas_score_each(0, count, score_one, &s));
    for (int i = 0; i < count; i++) {
        if (!KAS_GROW(originals->scored, originals->scored_count))
            return kas_fail(KAS_NO_MEMORY, "no memory for the scores of candidates");
        kas_original *last = &originals->waiting[--originals->waiting_count];
        free(last->kernel);
        last->kernel = NULL;
        originals->scored[originals->scored_count++] = *last;
    }
    return KAS_OK;
}

const char *kas_originals_of(const kas_originals *originals, const kas_work *work, double score)
{
    static const double same = 1e-6; /* relative */
    for (int i = 0; i < originals->scored_count; i++) {
        const kas_original *original = &originals->scored[i];
        if (original->params == work->params && fabs(original->score - score) <= same * score)
            return original->name;
    }
    return NULL;
}
