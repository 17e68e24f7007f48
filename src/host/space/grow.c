#include "host/space/grow.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/primitive.h"
#include "host/space/prune.h"
#include "host/space/uses.h"

typedef struct growth {
    const kas_sample_options *options;
    kas_rng rng;
    kas_kernel *kernel;
    kas_kernel saved; /* to undo a substitution that proved illegal */
    bool read[KAS_MAX_NODES];
    int primitives;       /* how many there shall be */
    int vars;             /* how many were made */
    kas_binding *binding; /* of each distinct template size */
    int bindings;
    kas_use use[KAS_MAX_USES];
} growth;

static bool same_binding(const kas_binding *a, const kas_binding *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void set_bindings(growth *g, const kas_target *targets, int count)
{
    for (int t = 0; t < count; t++) {
        kas_binding binding = kas_target_binding(g->kernel, &targets[t]);
        int i = 0;
        while (i < g->bindings && !same_binding(&g->binding[i], &binding))
            i++;
        if (i == g->bindings)
            g->binding[g->bindings++] = binding;
    }
}

static bool is_integer(const growth *g, const kas_dim *dim)
{
    uint64_t size;
    for (int i = 0; i < g->bindings; i++)
        if (!kas_dim_eval(dim, &g->binding[i], &size))
            return false;
    return true;
}

/* The variable of a size that the solver may choose freely; anything else must be an integer now.
 * A variable below the line would have to divide something: the sampler never leaves one. */
static bool size_is_possible(const growth *g, const kas_dim *dim)
{
    int x = kas_dim_var(dim);
    if (x < 0)
        return is_integer(g, dim);
    kas_dim rest = *dim;
    rest.exp[KAS_SYM_X0 + x]--;
    return kas_dim_var(&rest) < 0;
}

static bool node_is_possible(const growth *g, int i)
{
    kas_dim sizes[KAS_MAX_DIMS + 1];
    int count = kas_node_integers(g->kernel, i, sizes);
    for (int d = 0; d < count; d++)
        if (!size_is_possible(g, &sizes[d]))
            return false;
    return count >= 0;
}

static bool all_are_possible(const growth *g)
{
    for (int i = 0; i < g->kernel->nodes; i++)
        if (!node_is_possible(g, i))
            return false;
    return true;
}

/* A value with H or W in it would give weights that span the image; one with G0 needs a G0. */
static int usable_values(const growth *g, kas_dim *list, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (list[i].exp[KAS_SYM_H] == 0 && list[i].exp[KAS_SYM_W] == 0 &&
            (list[i].exp[KAS_SYM_G0] == 0 || g->kernel->group_value[0]))
            list[kept++] = list[i];
    return kept;
}

/* 6.2: draws a value for the variable of LHS and carries it through the whole micro-DAG. The nodes
 * before the substitution are in g->saved when *substituted is set. */
static bool match(growth *g, int lhs, int rhs, bool *substituted)
{
    kas_dim list[KAS_MAX_SUBSTITUTIONS];
    int count, var;
    *substituted = false;
    if (kas_match_substitutions(&g->kernel->node[lhs].shape, &g->kernel->node[rhs].shape, list,
                                &count, &var) != KAS_OK)
        return false;
    if (var < 0)
        return true;
    count = usable_values(g, list, count);
    if (count == 0)
        return false;
    memcpy(g->saved.node, g->kernel->node, (size_t)g->kernel->nodes * sizeof *g->saved.node);
    *substituted = true;
    return kas_kernel_substitute(g->kernel, var, &list[kas_rng_below(&g->rng, (uint32_t)count)]) ==
           KAS_OK;
}

static kas_node node_of(const growth *g, const kas_use *use)
{
    kas_node node = {.op = use->op,
                     .inputs = kas_op_get(use->op)->inputs,
                     .in = {use->in[0], use->in[1]},
                     .dim = use->dim,
                     .dim_end = use->dim_end,
                     .axes = use->axes,
                     .offset = use->offset,
                     .grouped = use->grouped};
    if (use->op == KAS_OP_FC)
        node.out = kas_dim_symbol((kas_symbol)(KAS_SYM_X0 + g->vars));
    return node;
}

/* What the output's variable must be for it to be [C, H, W]; *var -1 when it is already. */
static bool output_value(const growth *g, const kas_shape *shape, int *var, kas_dim *value)
{
    kas_dim product = kas_dim_const(1), c = kas_dim_symbol(KAS_SYM_C);
    if (!kas_shape_has_image(shape))
        return false;
    for (int d = 0; d < shape->channels; d++)
        if (!kas_dim_mul(&product, &shape->channel[d], &product))
            return false;
    *var = kas_dim_var(&product);
    if (*var < 0)
        return kas_dim_equal(&product, &c);
    product.exp[KAS_SYM_X0 + *var] = 0;
    return kas_dim_div(&c, &product, value) && is_integer(g, value);
}

/* Leaves after a use: what is not read, less the operands that are now, plus the result. */
static int width_after(const growth *g, const kas_use *use)
{
    int width = 1;
    for (int i = 0; i < g->kernel->nodes; i++)
        width += !g->read[i];
    width -= !g->read[use->in[0]];
    if (kas_op_get(use->op)->inputs == 2)
        width -= !g->read[use->in[1]];
    return width;
}

/* Topology heuristics: the primitives left must be able to merge all leaves. */
static bool topology_allows(const growth *g, const kas_use *use)
{
    int left = g->primitives - g->kernel->nodes; /* after this one */
    int width = width_after(g, use);
    if (use->op == KAS_OP_GROUP && g->kernel->group_value[0] == 0)
        return false;
    if (use->op == KAS_OP_FC && g->vars == KAS_MAX_VARS)
        return false;
    return width <= g->options->max_width && width - 1 <= left;
}

static bool new_node_fits(const growth *g, int i, bool substituted)
{
    kas_dim value;
    int var;
    if (kas_node_infer(g->kernel, i) != KAS_OK || kas_prune_node(g->kernel, i))
        return false;
    if (!(substituted ? all_are_possible(g) : node_is_possible(g, i)))
        return false;
    return i < g->primitives || output_value(g, &g->kernel->node[i].shape, &var, &value);
}

/* Appends the use if every rule allows it; otherwise the kernel is as before. */
static bool try_use(growth *g, const kas_use *use)
{
    int i = g->kernel->nodes, inputs = kas_op_get(use->op)->inputs;
    bool substituted = false;
    if (!topology_allows(g, use))
        return false;
    bool fits = inputs < 2 || match(g, use->in[0], use->in[1], &substituted);
    if (fits) {
        g->kernel->node[i] = node_of(g, use);
        g->kernel->nodes++;
        fits = new_node_fits(g, i, substituted);
    }
    if (!fits) {
        g->kernel->nodes = i;
        if (substituted)
            memcpy(g->kernel->node, g->saved.node, (size_t)i * sizeof *g->saved.node);
        return false;
    }
    for (int k = 0; k < inputs; k++)
        g->read[use->in[k]] = true;
    g->vars += use->op == KAS_OP_FC;
    return true;
}

static bool try_type(growth *g, kas_type type)
{
    int count = kas_list_uses(g->kernel, type, g->use);
    while (count > 0) {
        uint32_t pick = kas_rng_below(&g->rng, (uint32_t)count);
        if (try_use(g, &g->use[pick]))
            return true;
        g->use[pick] = g->use[--count];
    }
    return false;
}

static bool step(growth *g)
{
    kas_type type[KAS_TYPE_COUNT];
    for (int t = 0; t < KAS_TYPE_COUNT; t++)
        type[t] = (kas_type)t;
    for (int count = KAS_TYPE_COUNT; count > 0; count--) {
        uint32_t pick = kas_rng_below(&g->rng, (uint32_t)count);
        if (try_type(g, type[pick]))
            return true;
        type[pick] = type[count - 1];
    }
    return false;
}

/* Does anything look beyond its own pixel, as a convolution larger than 1x1 does? */
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

static bool replaces_larger_than_1x1(const growth *g)
{
    for (int i = 0; i < g->bindings; i++)
        if (g->binding[i].value[KAS_SYM_KH] > 1 || g->binding[i].value[KAS_SYM_KW] > 1)
            return true;
    return false;
}

/* A variable in the output takes the value that makes it [C, H, W]. */
static kas_reject finish(growth *g)
{
    kas_kernel *kernel = g->kernel;
    kas_dim value;
    int var;
    if (!output_value(g, &kernel->node[kernel->nodes - 1].shape, &var, &value))
        return KAS_REJECT_OUTPUT;
    if (var >= 0 && kas_kernel_substitute(kernel, var, &value) != KAS_OK)
        return KAS_REJECT_OUTPUT;
    if (!all_are_possible(g))
        return KAS_REJECT_VARIABLES;
    if (kas_kernel_infer(kernel) != KAS_OK)
        return KAS_REJECT_OUTPUT;
    if (kas_prune_kernel(kernel))
        return KAS_REJECT_REDUNDANT;
    if (!kas_kernel_has_weight(kernel))
        return KAS_REJECT_NO_WEIGHT;
    if (replaces_larger_than_1x1(g) && !sees_neighbours(kernel))
        return KAS_REJECT_ONE_PIXEL;
    return KAS_REJECT_NONE;
}

static kas_reject grow(growth *g)
{
    int low = g->options->min_primitives, high = g->options->max_primitives;
    g->primitives = low + (int)kas_rng_below(&g->rng, (uint32_t)(high - low + 1));
    g->kernel->nodes = 1;
    kas_node_infer(g->kernel, 0);
    while (g->kernel->nodes <= g->primitives)
        if (!step(g))
            return KAS_REJECT_DEAD_END;
    return finish(g);
}

static kas_status check_options(const kas_sample_options *o)
{
    if (o->min_primitives < 1 || o->max_primitives >= KAS_MAX_NODES ||
        o->min_primitives > o->max_primitives)
        return kas_fail(KAS_USAGE,
                        "%d to %d primitives asked for; at least 1 and at most %d are "
                        "possible",
                        o->min_primitives, o->max_primitives, KAS_MAX_NODES - 1);
    if (o->max_width < 1)
        return kas_fail(KAS_USAGE, "a width of %d; at least 1 is needed", o->max_width);
    return KAS_OK;
}

kas_status kas_grow(const kas_sample_options *options, const kas_target *targets, int count,
                    uint64_t attempt, kas_kernel *kernel, kas_reject *why)
{
    KAS_TRY(check_options(options));
    growth *g = calloc(1, sizeof *g);
    kas_binding *binding = calloc((size_t)count + 1, sizeof *binding);
    kas_status status = KAS_OK;
    uint32_t numbers[64];
    if (!g || !binding) {
        status = kas_fail(KAS_NO_MEMORY, "no memory to sample a kernel");
        goto done;
    }
    memset(kernel, 0, sizeof *kernel);
    g->options = options;
    g->kernel = kernel;
    g->binding = binding;
    /* The version is part of the key: a sampler that draws otherwise shares no attempt numbers. */
    g->rng = kas_rng_make(options->seed ^ ((uint64_t)KAS_SAMPLER_VERSION << 48), KAS_PURPOSE_SAMPLE,
                          attempt);
    int groups = kas_group_numbers(targets, count, numbers);
    if (groups > 0)
        kernel->group_value[0] = numbers[kas_rng_below(&g->rng, (uint32_t)groups)];
    set_bindings(g, targets, count);
    *why = grow(g);
done:
    free(binding);
    free(g);
    return status;
}
