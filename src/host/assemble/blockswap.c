#include "host/assemble/blockswap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/space/name_set.h"

static void draw(const kas_choices *c, kas_rng *rng, int *chosen)
{
    for (int t = 0; t < c->targets; t++)
        do
            chosen[t] = (int)kas_rng_below(rng, (uint32_t)kas_choices_options(c));
        while (!kas_choices_has(c, t, chosen[t]));
}

static double cost_of(const kas_blockswap_options *o, const int *chosen)
{
    const int options = kas_choices_options(o->choices);
    double cost = 0;
    for (int t = 0; t < o->choices->targets; t++)
        cost += o->option[t * options + chosen[t]].cost;
    return cost;
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
    const uint64_t most = (uint64_t)o->draws * KAS_BLOCKSWAP_TRIES;
    int *chosen = malloc(sizeof *chosen * ((size_t)o->choices->targets + 1));
    kas_rng rng = kas_rng_make(o->seed, KAS_PURPOSE_BLOCK, 0);
    kas_name_set seen = {0};
    kas_status status = KAS_OK;
    *out = (kas_blockswap_result){.potential = NAN};
    out->chosen = calloc((size_t)o->choices->targets + 1, sizeof *out->chosen);
    if (!chosen || !out->chosen)
        status = kas_fail(KAS_NO_MEMORY, "no memory for %d layers", o->choices->targets);
    for (; status == KAS_OK && out->drawn < most && out->scored < o->draws; out->drawn++) {
        draw(o->choices, &rng, chosen);
        if (cost_of(o, chosen) <= o->limit)
            status = consider(o, chosen, &seen, out);
    }
    if (status == KAS_OK && isnan(out->potential))
        status = kas_fail(KAS_NOTHING_VALID,
                          "none of %llu networks drawn is within the budget and has a finite "
                          "Fisher potential; allow more with --params or --latency, or give "
                          "smaller kernels",
                          (unsigned long long)out->drawn);
    kas_name_set_free(&seen);
    free(chosen);
    if (status != KAS_OK) {
        free(out->chosen);
        out->chosen = NULL;
    }
    return status;
}
