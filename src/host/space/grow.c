#include "host/space/grow.h"

typedef struct drawing {
    kas_growth *g;
    kas_rng rng;
    kas_use use[KAS_MAX_USES];
} drawing;

static int draw_value(void *context, int var, const kas_dim *value, int count)
{
    drawing *d = context;
    (void)var;
    (void)value;
    return (int)kas_rng_below(&d->rng, (uint32_t)count);
}

static bool try_type(drawing *d, kas_type type)
{
    int count = kas_list_uses(&d->g->kernel, type, d->use);
    while (count > 0) {
        uint32_t pick = kas_rng_below(&d->rng, (uint32_t)count);
        if (kas_growth_try(d->g, &d->use[pick], draw_value, d))
            return true;
        d->use[pick] = d->use[--count];
    }
    return false;
}

static bool step(drawing *d)
{
    kas_type type[KAS_TYPE_COUNT];
    for (int t = 0; t < KAS_TYPE_COUNT; t++)
        type[t] = (kas_type)t;
    for (int count = KAS_TYPE_COUNT; count > 0; count--) {
        uint32_t pick = kas_rng_below(&d->rng, (uint32_t)count);
        if (try_type(d, type[pick]))
            return true;
        type[pick] = type[count - 1];
    }
    return false;
}

kas_reject kas_grow(kas_growth *g, const kas_target *targets, int count, uint64_t attempt)
{
    const kas_sample_options *o = g->options;
    drawing d; /* the list of uses is written before it is read */
    uint32_t numbers[64];
    d.g = g;
    /* The version is part of the key: a sampler that draws otherwise shares no attempt numbers. */
    d.rng =
        kas_rng_make(o->seed ^ ((uint64_t)KAS_SAMPLER_VERSION << 48), KAS_PURPOSE_SAMPLE, attempt);
    int groups = kas_group_numbers(targets, count, numbers);
    uint32_t group = groups > 0 ? numbers[kas_rng_below(&d.rng, (uint32_t)groups)] : 0;
    uint32_t range = (uint32_t)(o->max_primitives - o->min_primitives + 1);
    kas_growth_begin(g, o->min_primitives + (int)kas_rng_below(&d.rng, range), group);
    while (g->kernel.nodes <= g->primitives)
        if (!step(&d))
            return KAS_REJECT_DEAD_END;
    return kas_growth_finish(g);
}
