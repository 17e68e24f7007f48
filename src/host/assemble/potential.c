#include "host/assemble/potential.h"

#include <math.h>

kas_status kas_potential(const kas_potential_setup *s, const kas_replacement *replacement,
                         kas_score_memory *memory, double *out)
{
    const kas_score_setup setup = {.net = s->choices->net,
                                   .target = s->choices->target,
                                   .targets = s->choices->targets,
                                   .asked = {[KAS_SCORE_FISHER] = true},
                                   .batch = s->minibatch->images,
                                   .seed = s->seed,
                                   .minibatch = s->minibatch};
    kas_scored scored;
    *out = NAN;
    const kas_status status =
        kas_score_average(&setup, replacement, 0, s->seed, s->draws, memory, &scored);
    if (status == KAS_ILLEGAL || status == KAS_UNSUPPORTED)
        return KAS_OK;
    KAS_TRY(status);
    *out = scored.value[KAS_SCORE_FISHER];
    return KAS_OK;
}
