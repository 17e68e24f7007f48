#include "host/cli/check/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "host/reference/kernel/reference.h"
#include "jit/programs.h"

kas_status kas_check_shapes_of(const kas_replacement *r, const kas_kernel *kernel,
                               kas_check_shapes *out)
{
    const kas_binding *binding = r->solution.binding;
    const size_t targets = (size_t)r->solution.targets;
    *out = (kas_check_shapes){.target = calloc(targets, sizeof *out->target),
                              .binding = calloc(targets, sizeof *out->binding),
                              .gain = calloc(targets, sizeof *out->gain)};
    if (!out->target || !out->binding || !out->gain)
        return kas_fail(KAS_NO_MEMORY, "out of memory");
    for (int t = 0; t < r->solution.targets; t++) {
        bool seen = kas_replacement_kernel(r, t) != kernel;
        for (int before = 0; before < t && !seen; before++)
            seen = kas_programs_are_one(r, before, t);
        if (seen)
            continue;
        out->target[out->count] = r->target[t];
        out->gain[out->count] = kas_replacement_gain(r, t);
        out->binding[out->count++] = binding[t];
    }
    return KAS_OK;
}

void kas_check_shapes_choose(kas_check_shapes *s, int wanted, long long turn)
{
    const int first = wanted ? (int)(turn * wanted % s->count) : 0;
    const int kept = wanted && wanted < s->count ? wanted : s->count;
    for (int i = 0; i < first; i++) { /* rotates the list by one */
        const kas_target target = s->target[0];
        const kas_binding binding = s->binding[0];
        const float gain = s->gain[0];
        memmove(s->target, s->target + 1, (size_t)(s->count - 1) * sizeof *s->target);
        memmove(s->binding, s->binding + 1, (size_t)(s->count - 1) * sizeof *s->binding);
        memmove(s->gain, s->gain + 1, (size_t)(s->count - 1) * sizeof *s->gain);
        s->gain[s->count - 1] = gain;
        s->target[s->count - 1] = target;
        s->binding[s->count - 1] = binding;
    }
    s->count = kept;
}

kas_status kas_check_shapes_screen(const kas_check_shapes *s, const kas_kernel *kernel, int batch,
                                   uint64_t seed, bool *passes)
{
    *passes = true;
    for (int i = 0; i < s->count && *passes; i++) {
        double deviation;
        KAS_TRY(kas_reference_output_deviation(kernel, &s->target[i], &s->binding[i], batch, seed,
                                               &deviation));
        *passes = deviation >= KAS_DEVIATION_LOW && deviation <= KAS_DEVIATION_HIGH;
    }
    return KAS_OK;
}

void kas_check_shapes_free(kas_check_shapes *s)
{
    free(s->target);
    free(s->binding);
    free(s->gain);
}
