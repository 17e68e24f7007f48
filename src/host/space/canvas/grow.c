#include "host/space/canvas/grow.h"

#include "host/space/weights.h"

typedef struct drawing {
    kas_growth *g;
    kas_rng rng;
    kas_op_filter filter;
    kas_candidate_op use[KAS_MAX_CANDIDATE_OPS];
} drawing;

static int draw_value(void *context, const kas_candidate_op *use, int var,
                      const kas_value *const *value, int count)
{
    drawing *d = context;
    (void)use;
    (void)var;
    (void)value;
    return (int)kas_rng_below(&d->rng, (uint32_t)count);
}

static bool try_type(drawing *d, kas_type type)
{
    int count = kas_list_candidate_ops(&d->g->kernel, type, &d->filter, d->use);
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
    kas_type type[KAS_TYPES_OF_TABLE_1];
    for (int t = 0; t < KAS_TYPES_OF_TABLE_1; t++)
        type[t] = (kas_type)t;
    for (int count = KAS_TYPES_OF_TABLE_1; count > 0; count--) {
        uint32_t pick = kas_rng_below(&d->rng, (uint32_t)count);
        if (try_type(d, type[pick]))
            return true;
        type[pick] = type[count - 1];
    }
    return false;
}

/* Returns whether some node looks beyond its own pixel, as a convolution larger than 1x1 does. */
static bool sees_neighbours(const kas_kernel *kernel)
{
    for (int i = 1; i < kernel->nodes; i++) {
        const kas_node *node = &kernel->node[i];
        int channels = kernel->node[node->in[0]].shape.channels;
        bool folds = node->op == KAS_OP_FOLD_AVG || node->op == KAS_OP_FOLD_MAX;
        if (node->op == KAS_OP_SHIFT || node->op == KAS_OP_UNFOLD ||
            (folds && node->dim >= channels) ||
            (node->op == KAS_OP_SOFTMAX && node->dim_end > channels))
            return true;
    }
    return false;
}

static bool replaces_larger_than_1x1(const kas_growth *g)
{
    for (int i = 0; i < g->bindings; i++)
        if (g->binding[i].value[KAS_SYM_KH] > 1 || g->binding[i].value[KAS_SYM_KW] > 1)
            return true;
    return false;
}

kas_reject kas_rejection_rules(const kas_growth *g)
{
    if (!kas_kernel_has_weight(&g->kernel))
        return KAS_REJECT_NO_WEIGHT;
    return replaces_larger_than_1x1(g) && !sees_neighbours(&g->kernel) ? KAS_REJECT_ONE_PIXEL
                                                                       : KAS_REJECT_NONE;
}

kas_reject kas_grow(kas_growth *g, const kas_target *targets, int count, uint64_t attempt)
{
    const kas_sample_options *o = g->options;
    drawing d; /* not initialised: the list is written before it is read */
    uint32_t numbers[64];
    d.g = g;
    d.filter = kas_op_filter_table_1();
    /* The version is part of the key, so that samplers of different versions share
     * no random numbers. */
    d.rng = kas_rng_make(o->seed ^ ((uint64_t)KAS_REJECTION_VERSION << 48), KAS_PURPOSE_SAMPLE,
                         attempt);
    int groups = kas_group_numbers(targets, count, numbers);
    uint32_t group = groups > 0 ? numbers[kas_rng_below(&d.rng, (uint32_t)groups)] : 0;
    uint32_t range = (uint32_t)(o->max_primitives - o->min_primitives + 1);
    kas_growth_begin(g, o->min_primitives + (int)kas_rng_below(&d.rng, range), group, NULL);
    while (g->kernel.nodes <= g->primitives)
        if (!step(&d))
            return KAS_REJECT_DEAD_END;
    kas_reject why = kas_growth_finish(g);
    return why == KAS_REJECT_NONE ? kas_rejection_rules(g) : why;
}
