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

/* Scores a draw within the limit, unless its sizes are above the budget or it came before. */
static kas_status consider(const kas_blockswap_options *o, const int *chosen, kas_name_set *seen,
                           kas_blockswap_result *out)
{
    kas_replacement r;
    kas_assignment a;
    char name[KAS_NAME_SIZE];
    double potential;
    bool fresh = false;
    kas_status status = kas_choices_replacement(o->choices, chosen, &r);
    if (status == KAS_OVER_BUDGET || status == KAS_ILLEGAL)
        return KAS_OK;
    KAS_TRY(status);
    KAS_TRY_GOTO(kas_assignment_make(&r, &a), out);
    status = kas_assignment_name(&a, name);
    kas_assignment_free(&a);
    if (status == KAS_OK)
        status = kas_name_set_add(seen, name, &fresh);
    if (status != KAS_OK || !fresh)
        goto out;
    KAS_TRY_GOTO(o->potential(o->context, &r, &potential), out);
    out->scored++;
    if (isfinite(potential) && !(potential <= out->potential)) {
        out->potential = potential;
        memcpy(out->chosen, chosen, sizeof *chosen * (size_t)o->choices->targets);
    }
out:
    kas_replacement_free(&r);
    return status;
}

kas_status kas_blockswap(const kas_blockswap_options *o, kas_blockswap_result *out)
{
    uint64_t last = 0; /* draws up to the last one that was scored */
    int *chosen = malloc(sizeof *chosen * ((size_t)o->choices->targets + 1));
    uint32_t *order = malloc(sizeof *order * ((size_t)o->choices->targets + 1));
    kas_rng rng = kas_rng_make(o->seed, KAS_PURPOSE_BLOCK, 0);
    kas_name_set seen = {0};
    kas_status status = KAS_OK;
    *out = (kas_blockswap_result){.potential = NAN};
    out->chosen = calloc((size_t)o->choices->targets + 1, sizeof *out->chosen);
    if (!chosen || !order || !out->chosen)
        status = kas_fail(KAS_NO_MEMORY, "no memory for %d layers", o->choices->targets);
    while (status == KAS_OK && out->drawn < last + KAS_BLOCKSWAP_TRIES && out->scored < o->draws) {
        const int before = out->scored;
        out->drawn++;
        if (draw(o, &rng, order, chosen))
            status = consider(o, chosen, &seen, out);
        if (out->scored > before)
            last = out->drawn;
    }
    if (status == KAS_OK && isnan(out->potential))
        status = kas_fail(KAS_NOTHING_VALID,
                          "none of %llu networks drawn is within the budget and has a finite "
                          "Fisher potential; allow more with --params or --latency, or give "
                          "smaller kernels",
                          (unsigned long long)out->drawn);
    kas_name_set_free(&seen);
    free(chosen);
    free(order);
    if (status != KAS_OK) {
        free(out->chosen);
        out->chosen = NULL;
    }
    return status;
}
