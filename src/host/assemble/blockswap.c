#include "host/assemble/blockswap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/space/name_set.h"

static double cost_at(const kas_blockswap_options *o, int t, int option)
{
    return o->option[t * kas_choices_options(o->choices) + option].cost;
}

static double least_cost(const kas_blockswap_options *o, int t)
{
    double least = INFINITY;
    for (int i = 0; i < kas_choices_options(o->choices); i++)
        least = fmin(least, cost_at(o, t, i)); /* a NaN is passed over */
    return least;
}

/* Draws for one target after the other, in random order, among the options with which the others
 * can still be within the limit. Returns false when there are none. */
static bool draw(const kas_blockswap_options *o, kas_rng *rng, uint32_t *order, int *chosen)
{
    const int targets = o->choices->targets, options = kas_choices_options(o->choices);
    double least = 0; /* what was drawn, and the cheapest of all that is left */
    for (int t = 0; t < targets; t++) {
        order[t] = (uint32_t)t;
        least += least_cost(o, t);
    }
    kas_rng_shuffle(rng, order, (uint32_t)targets);
    for (int i = 0; i < targets; i++) {
        const int t = (int)order[i];
        int possible[KAS_CHOICES_KERNELS + 1], count = 0;
        least -= least_cost(o, t);
        for (int k = 0; k < options; k++)
            if (kas_choices_has(o->choices, t, k) && least + cost_at(o, t, k) <= o->limit)
                possible[count++] = k;
        if (!count)
            return false;
        chosen[t] = possible[kas_rng_below(rng, (uint32_t)count)];
        least += cost_at(o, t, chosen[t]);
    }
    return true;
}

/* Networks that wait to be scored together. */
enum { BATCH = 64 };
typedef struct batch {
    kas_replacement replacement[BATCH];
    int *chosen; /* [BATCH][targets] */
    int count;
} batch;

static int *chosen_of(const kas_blockswap_options *o, const batch *b, int i)
{
    return &b->chosen[(size_t)i * (size_t)o->choices->targets];
}

static kas_status is_fresh(const kas_replacement *r, kas_name_set *seen, bool *fresh)
{
    kas_assignment a;
    char name[KAS_NAME_SIZE];
    KAS_TRY(kas_assignment_make(r, &a));
    const kas_status status = kas_assignment_name(&a, name);
    kas_assignment_free(&a);
    return status == KAS_OK ? kas_name_set_add(seen, name, fresh) : status;
}

/* Takes a draw within the limit, which stands behind the batch, unless its sizes are above the
 * budget or it came before. */
static kas_status consider(const kas_blockswap_options *o, kas_name_set *seen, batch *b)
{
    kas_replacement *r = &b->replacement[b->count];
    bool fresh = false;
    kas_status status = kas_choices_replacement(o->choices, chosen_of(o, b, b->count), r);
    if (status == KAS_OVER_BUDGET || status == KAS_ILLEGAL)
        return KAS_OK;
    KAS_TRY(status);
    status = is_fresh(r, seen, &fresh);
    if (status == KAS_OK && fresh)
        b->count++;
    else
        kas_replacement_free(r);
    return status;
}

/* Scores a batch, and empties it. Of equal networks the first one drawn is the best. */
static kas_status judge(const kas_blockswap_options *o, batch *b, kas_blockswap_result *out)
{
    double potential[BATCH];
    const size_t size = sizeof *out->chosen * (size_t)o->choices->targets;
    const kas_status status = o->potentials(o->context, b->count, b->replacement, potential);
    for (int i = 0; i < b->count; i++) {
        if (status == KAS_OK && isfinite(potential[i]) && !(potential[i] <= out->potential)) {
            out->potential = potential[i];
            memcpy(out->chosen, chosen_of(o, b, i), size);
        }
        kas_replacement_free(&b->replacement[i]);
    }
    b->count = 0;
    return status;
}

/* Draws until the batch is full, or there are enough networks, or few are left. */
static kas_status fill(const kas_blockswap_options *o, kas_rng *rng, uint32_t *order,
                       kas_name_set *seen, batch *b, kas_blockswap_result *out)
{
    while (b->count < BATCH && out->scored < o->draws &&
           out->drawn < out->last + KAS_BLOCKSWAP_TRIES) {
        const int before = b->count;
        out->drawn++;
        if (draw(o, rng, order, chosen_of(o, b, before)))
            KAS_TRY(consider(o, seen, b));
        if (b->count > before) {
            out->scored++;
            out->last = out->drawn;
        }
    }
    return KAS_OK;
}

static kas_status fail_none(uint64_t drawn)
{
    return kas_fail(KAS_NOTHING_VALID,
                    "none of %llu networks drawn is within the budget and has a finite Fisher "
                    "potential; allow more with --params or --latency, or give smaller kernels",
                    (unsigned long long)drawn);
}

kas_status kas_blockswap(const kas_blockswap_options *o, kas_blockswap_result *out)
{
    const size_t targets = (size_t)o->choices->targets + 1;
    uint32_t *order = malloc(sizeof *order * targets);
    batch *b = calloc(1, sizeof *b);
    kas_rng rng = kas_rng_make(o->seed, KAS_PURPOSE_BLOCK, 0);
    kas_name_set seen = {0};
    kas_status status = KAS_OK;
    *out = (kas_blockswap_result){.potential = NAN};
    out->chosen = calloc(targets, sizeof *out->chosen);
    if (b)
        b->chosen = malloc(sizeof *b->chosen * targets * BATCH);
    if (!order || !out->chosen || !b || !b->chosen)
        KAS_TRY_GOTO(kas_fail(KAS_NO_MEMORY, "no memory for %d layers", o->choices->targets), out);
    do {
        KAS_TRY_GOTO(fill(o, &rng, order, &seen, b, out), out);
        if (b->count)
            KAS_TRY_GOTO(judge(o, b, out), out);
    } while (out->scored < o->draws && out->drawn < out->last + KAS_BLOCKSWAP_TRIES);
    if (isnan(out->potential))
        status = fail_none(out->drawn);
out:
    for (int i = 0; b && i < b->count; i++)
        kas_replacement_free(&b->replacement[i]);
    kas_name_set_free(&seen);
    free(b ? b->chosen : NULL);
    free(b);
    free(order);
    if (status != KAS_OK) {
        free(out->chosen);
        out->chosen = NULL;
    }
    return status;
}
