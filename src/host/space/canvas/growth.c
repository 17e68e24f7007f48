#include "host/space/canvas/growth.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/canvas/prune.h"
#include "host/space/primitive.h"

/* The greatest depth of the stack: each step may save every node before it. */
enum { SAVED_NODES = KAS_MAX_NODES * (KAS_MAX_NODES - 1) / 2 };

static void add_binding(kas_growth *g, const kas_target *target)
{
    kas_binding binding = kas_target_binding(&g->kernel, target);
    for (int i = 0; i < g->bindings; i++)
        if (memcmp(&g->binding[i], &binding, sizeof binding) == 0)
            return;
    g->binding[g->bindings++] = binding;
}

kas_status kas_growth_create(const kas_sample_options *options, const kas_target *targets,
                             int count, kas_growth **out)
{
    *out = NULL;
    KAS_TRY(kas_sample_options_check(options));
    kas_growth *g = calloc(1, sizeof *g);
    if (g) {
        g->binding = calloc((size_t)count + 1, sizeof *g->binding);
        g->saved = malloc(SAVED_NODES * sizeof *g->saved);
    }
    if (!g || !g->binding || !g->saved || kas_pairs_create(&g->pairs) != KAS_OK) {
        kas_growth_free(g);
        return kas_fail(KAS_NO_MEMORY, "no memory to sample a kernel");
    }
    g->options = options;
    g->ops = kas_sample_operations(options);
    for (int t = 0; t < count; t++)
        add_binding(g, &targets[t]);
    *out = g;
    return KAS_OK;
}

void kas_growth_free(kas_growth *growth)
{
    if (!growth)
        return;
    kas_pairs_free(growth->pairs);
    free(growth->binding);
    free(growth->saved);
    free(growth);
}

void kas_growth_bind(const kas_growth *g, kas_binding *binding)
{
    binding->value[KAS_SYM_G0] = g->kernel.group_value[0];
    memset(&binding->value[KAS_SYM_R0], 0, KAS_MAX_SPLITS * sizeof *binding->value);
    kas_splits_bind(&g->kernel, binding);
}

/* Lists the segments of the kernel's split, of which a sampled kernel has one at most. */
static void find_segments(kas_growth *g)
{
    const kas_split *split = &g->kernel.split[0];
    const bool joins = (g->ops & KAS_OP_BIT(KAS_OP_CONCAT)) && split->whole.num != 0;
    g->segments = 0;
    for (int k = 0; joins && k < kas_split_segments(split); k++)
        if (kas_split_segment(&g->kernel, 0, k, &g->segment[g->segments]))
            g->segments++;
}

void kas_growth_begin(kas_growth *g, int primitives, uint32_t group,
                      const kas_split split[KAS_MAX_SPLITS])
{
    g->kernel.node[0] = (kas_node){.op = KAS_OP_INPUT}; /* the others are set when they are added */
    memset(g->kernel.group_value, 0, sizeof g->kernel.group_value);
    memset(g->kernel.split, 0, sizeof g->kernel.split);
    memset(g->read, 0, sizeof g->read);
    g->primitives = primitives;
    g->vars = g->saved_nodes = 0;
    g->width = 1;
    g->kernel.group_value[0] = group;
    if (split)
        memcpy(g->kernel.split, split, sizeof g->kernel.split);
    for (int i = 0; i < g->bindings; i++)
        kas_growth_bind(g, &g->binding[i]);
    find_segments(g);
    g->kernel.nodes = 1;
    kas_node_infer(&g->kernel, 0);
    kas_pairs_begin(g->pairs);
    g->context = kas_pairs_context(g->pairs, group, g->kernel.split);
    g->known[0].number = kas_pairs_number(g->pairs, &g->kernel.node[0].shape);
    g->known[0].holds = 0;
}

static bool refuse(kas_growth *g, kas_refusal why)
{
    g->refused = why;
    return false;
}

bool kas_growth_is_integer(const kas_growth *g, const kas_dim *dim)
{
    uint64_t size;
    if (kas_dim_is_whole_by_default(dim))
        return true;
    for (int i = 0; i < g->bindings; i++)
        if (!kas_dim_eval(dim, &g->binding[i], &size))
            return false;
    return true;
}

bool kas_growth_size_fits(const kas_growth *g, const kas_dim *dim)
{
    int x = kas_dim_var(dim);
    if (x < 0)
        return kas_growth_is_integer(g, dim);
    kas_dim rest = *dim;
    rest.exp[KAS_SYM_X0 + x]--;
    return kas_dim_var(&rest) < 0;
}

/* Returns the number of node i's shape; the numbers of its operands are known. */
static uint32_t number_of_shape(const kas_growth *g, int i)
{
    const kas_node *node = &g->kernel.node[i];
    if (kas_op_has_trait(node->op, KAS_TRAIT_SAME_SHAPE))
        return g->known[node->in[0]].number;
    if (kas_type_of(node->op) == KAS_TYPE_BROADCAST)
        return g->known[node->in[1]].number;
    return kas_pairs_number(g->pairs, &node->shape);
}

/* Returns whether every size of the shape can be an integer. Most shapes were looked at before. */
static bool shape_is_possible(const kas_growth *g, uint32_t number, const kas_shape *shape)
{
    if (kas_pairs_facts(g->pairs, number)->whole_in == g->context)
        return true;
    for (int d = 0; d < kas_shape_rank(shape); d++)
        if (!kas_growth_size_fits(g, kas_shape_at(shape, d)))
            return false;
    kas_pairs_note_whole(g->pairs, number, g->context);
    return true;
}

static uint32_t var_bit(int var)
{
    return var >= 0 ? 1u << var : 0;
}

/* Sets the number of node i's shape and the variables that its sizes hold, and returns whether each
 * size can be an integer. */
static bool node_is_possible(kas_growth *g, int i)
{
    const kas_node *node = &g->kernel.node[i];
    const kas_primitive *primitive = kas_primitive_get(node->op);
    kas_growth_known *known = &g->known[i];
    kas_dim size;
    known->number = number_of_shape(g, i);
    known->holds = var_bit(kas_number_var(known->number));
    if (!shape_is_possible(g, known->number, &node->shape))
        return false;
    if (!primitive->divisor)
        return true;
    if (primitive->divisor(&g->kernel, i, &size) != KAS_OK || !kas_growth_size_fits(g, &size))
        return false;
    known->holds |= var_bit(kas_dim_var(&size));
    return true;
}

/* Checks every node of a set in the order of node numbers, so operands come first. */
static bool are_possible(kas_growth *g, uint64_t nodes)
{
    for (; nodes; nodes &= nodes - 1)
        if (!node_is_possible(g, __builtin_ctzll(nodes)))
            return false;
    return true;
}

static bool size_takes(const kas_growth *g, const kas_dim *size, int var, const kas_dim *value)
{
    kas_dim with;
    return size->exp[KAS_SYM_X0 + var] == 0 ||
           (kas_dim_substitute(size, var, value, &with) && kas_growth_size_fits(g, &with));
}

static bool node_takes(const kas_growth *g, int i, int var, const kas_dim *value)
{
    const kas_node *node = &g->kernel.node[i];
    const kas_primitive *primitive = kas_primitive_get(node->op);
    const bool in_shape = kas_number_var(g->known[i].number) == var;
    kas_dim size;
    for (int d = 0; in_shape && d < node->shape.channels; d++)
        if (!size_takes(g, &node->shape.channel[d], var, value))
            return false;
    return !primitive->divisor ||
           (primitive->divisor(&g->kernel, i, &size) == KAS_OK && size_takes(g, &size, var, value));
}

bool kas_growth_takes(const kas_growth *g, int var, const kas_dim *value)
{
    for (int i = 0; i < g->kernel.nodes; i++)
        if ((g->known[i].holds >> var & 1) && !node_takes(g, i, var, value))
            return false;
    return true;
}

static bool size_takes_both(const kas_growth *g, const kas_dim *size, int var, const kas_dim *value,
                            int second, const kas_dim *second_value)
{
    kas_dim with;
    return (size->exp[KAS_SYM_X0 + var] == 0 && size->exp[KAS_SYM_X0 + second] == 0) ||
           (kas_dim_substitute(size, var, value, &with) &&
            kas_dim_substitute(&with, second, second_value, &with) &&
            kas_growth_size_fits(g, &with));
}

static bool node_takes_both(const kas_growth *g, int i, int var, const kas_dim *value, int second,
                            const kas_dim *second_value)
{
    const kas_node *node = &g->kernel.node[i];
    const kas_primitive *primitive = kas_primitive_get(node->op);
    kas_dim size;
    for (int d = 0; d < node->shape.channels; d++)
        if (!size_takes_both(g, &node->shape.channel[d], var, value, second, second_value))
            return false;
    return !primitive->divisor || (primitive->divisor(&g->kernel, i, &size) == KAS_OK &&
                                   size_takes_both(g, &size, var, value, second, second_value));
}

bool kas_growth_takes_both(const kas_growth *g, int var, const kas_dim *value, int second,
                           const kas_dim *second_value)
{
    const uint32_t either = 1u << var | 1u << second;
    for (int i = 0; i < g->kernel.nodes; i++)
        if ((g->known[i].holds & either) &&
            !node_takes_both(g, i, var, value, second, second_value))
            return false;
    return true;
}

bool kas_growth_may_use(const kas_growth *g, const kas_dim *value)
{
    return (g->options->spatial_weights ||
            (value->exp[KAS_SYM_H] == 0 && value->exp[KAS_SYM_W] == 0)) &&
           (value->exp[KAS_SYM_G0] == 0 || g->kernel.group_value[0]);
}

/* Saves a node as it is now, for the step that appends node i. */
static void save(kas_growth *g, int i, int node)
{
    g->saved[g->saved_nodes++] =
        (kas_saved_node){.place = node, .node = g->kernel.node[node], .known = g->known[node]};
    g->step[i].saved++;
}

static void restore(kas_growth *g, int i)
{
    for (; g->step[i].saved > 0; g->step[i].saved--) {
        const kas_saved_node *saved = &g->saved[--g->saved_nodes];
        g->kernel.node[saved->place] = saved->node;
        g->known[saved->place] = saved->known;
    }
}

/* Gives a variable its value within the step that appends node i. */
static bool substitute(kas_growth *g, int i, int var, const kas_dim *value)
{
    const uint64_t changes = kas_kernel_nodes_of(&g->kernel, var);
    uint64_t unsaved = changes & ~g->step[i].changed & (((uint64_t)1 << i) - 1);
    for (; unsaved; unsaved &= unsaved - 1)
        save(g, i, __builtin_ctzll(unsaved));
    g->step[i].changed |= changes;
    return kas_kernel_substitute(&g->kernel, var, value) == KAS_OK;
}

/* Gives the variable of LHS a value and carries it through the whole micro-DAG (6.2). */
static bool match(kas_growth *g, int i, const kas_candidate_op *use, kas_pick_value *pick,
                  void *context)
{
    const kas_value *usable[KAS_MAX_SUBSTITUTIONS];
    kas_value renamed[KAS_MAX_SUBSTITUTIONS];
    int count = 0;
    const uint32_t lhs = g->known[use->in[0]].number, rhs = g->known[use->in[1]].number;
    kas_pair *pair = kas_pairs_get(g->pairs, lhs, rhs);
    if (pair->fit == KAS_FIT_NEVER)
        return refuse(g, KAS_REFUSED_SHAPE);
    if (pair->fit != KAS_FIT_BY_VALUE)
        return true;
    const kas_value *value = kas_pairs_values(g->pairs, pair);
    const int var = kas_number_var(lhs);
    for (int k = 0; k < pair->values; k++)
        if (kas_growth_may_use(g, &value[k].size)) {
            renamed[count] = (kas_value){kas_pair_size(&value[k].size, rhs), value[k].tiles};
            usable[count] = &renamed[count];
            count++;
        }
    int chosen = count > 0 ? pick(context, use, var, usable, count) : -1;
    if (chosen < 0)
        return refuse(g, KAS_REFUSED_VALUE);
    return substitute(g, i, var, &usable[chosen]->size) || refuse(g, KAS_REFUSED_VALUE);
}

/* Returns whether node i could be the output, that is [C, H, W]. *var is its variable, whose value
 * must then be *value, or -1 when the shape has none. */
static bool output_value(const kas_growth *g, int i, int *var, kas_dim *value)
{
    const kas_shape_facts *facts = kas_pairs_facts(g->pairs, g->known[i].number);
    *var = kas_number_var(g->known[i].number);
    if (facts->output != KAS_OUTPUT_BY_VALUE)
        return facts->output == KAS_OUTPUT_AS_IT_IS;
    *value = facts->value;
    return kas_growth_may_use(g, value) && kas_growth_is_integer(g, value);
}

/* Returns the number of leaves after a candidate operation: the present ones, less its operands,
 * plus its result. */
static int width_after(const kas_growth *g, const kas_candidate_op *use)
{
    int width = g->width + 1;
    uint64_t counted = 0;
    for (int k = 0; k < use->inputs; k++) {
        uint64_t operand = (uint64_t)1 << use->in[k];
        width -= !g->read[use->in[k]] && !(counted & operand);
        counted |= operand;
    }
    return width;
}

/* Returns whether the primitive makes a size of its own, which is free until a solver sets it. */
static bool makes_variable(const kas_candidate_op *use)
{
    return kas_primitive_get(use->op)->attributes & KAS_ATTR_OUT;
}

/* Topology heuristics: the primitives left must be able to merge all leaves. */
static bool topology_allows(const kas_growth *g, const kas_candidate_op *use)
{
    int left = g->primitives - g->kernel.nodes; /* after this one */
    int width = width_after(g, use);
    if ((kas_primitive_get(use->op)->attributes & KAS_ATTR_SYMBOL) && g->kernel.group_value[0] == 0)
        return false;
    if (makes_variable(use) && g->vars == KAS_MAX_VARS)
        return false;
    return width <= g->options->max_width && width - 1 <= left;
}

static bool new_node_fits(kas_growth *g, int i)
{
    kas_dim value;
    int var;
    if (kas_node_infer(&g->kernel, i) != KAS_OK)
        return refuse(g, g->step[i].saved ? KAS_REFUSED_VALUE : KAS_REFUSED_SHAPE);
    if (!g->options->spatial_weights && kas_weight_spans_image(&g->kernel, i))
        return refuse(g, KAS_REFUSED_IMAGE);
    if (kas_prune_node(&g->kernel, i))
        return refuse(g, KAS_REFUSED_PRUNED);
    if (!are_possible(g, g->step[i].changed | (uint64_t)1 << i))
        return refuse(g, g->step[i].saved ? KAS_REFUSED_VALUE : KAS_REFUSED_SIZE);
    if (i == g->primitives && !output_value(g, i, &var, &value))
        return refuse(g, KAS_REFUSED_OUTPUT);
    return true;
}

bool kas_growth_try(kas_growth *g, const kas_candidate_op *use, kas_pick_value *pick, void *context)
{
    int i = g->kernel.nodes;
    if (!topology_allows(g, use))
        return refuse(g, KAS_REFUSED_WIDTH);
    g->step[i] = (kas_growth_step){.vars = g->vars, .width = g->width};
    bool fits = kas_type_of(use->op) != KAS_TYPE_BROADCAST || match(g, i, use, pick, context);
    if (fits) {
        kas_candidate_op_node(use, g->vars, &g->kernel.node[i]);
        g->kernel.nodes++;
        fits = new_node_fits(g, i);
    }
    if (!fits) {
        g->kernel.nodes = i;
        restore(g, i);
        return false;
    }
    g->width = width_after(g, use);
    for (int k = 0; k < use->inputs; k++) {
        g->step[i].read[k] = g->read[use->in[k]];
        g->read[use->in[k]] = true;
    }
    g->vars += makes_variable(use);
    return true;
}

bool kas_growth_fix(kas_growth *g, const kas_dim *value)
{
    const int last = g->kernel.nodes - 1;
    return substitute(g, last, g->vars - 1, value) && are_possible(g, g->step[last].changed);
}

void kas_growth_undo(kas_growth *g)
{
    int i = --g->kernel.nodes;
    const kas_growth_step *step = &g->step[i];
    const kas_node *node = &g->kernel.node[i];
    for (int k = node->inputs; k-- > 0;)
        g->read[node->in[k]] = step->read[k];
    g->vars = step->vars;
    g->width = step->width;
    restore(g, i);
}

bool kas_growth_only_leaves_are_read(const kas_growth *g)
{
    return g->primitives + 1 - g->kernel.nodes == g->width - 1 && g->segments <= 2;
}

uint32_t kas_growth_leaf_vars(const kas_growth *g)
{
    uint32_t vars = 0;
    for (int i = 0; i < g->kernel.nodes; i++)
        if (!g->read[i] && kas_number_var(g->known[i].number) >= 0)
            vars |= 1u << kas_number_var(g->known[i].number);
    return vars;
}

kas_reject kas_growth_finish(kas_growth *g)
{
    kas_kernel *kernel = &g->kernel;
    int last = kernel->nodes - 1, var;
    uint64_t changed = 0;
    kas_dim value;
    if (!output_value(g, last, &var, &value))
        return KAS_REJECT_OUTPUT;
    if (var >= 0 && !substitute(g, last, var, &value))
        return KAS_REJECT_OUTPUT;
    if (var >= 0 && !are_possible(g, g->step[last].changed))
        return KAS_REJECT_VARIABLES;
    /* A node was pruned when it was appended: a substitution since may have made it redundant. */
    for (int i = 1; i <= last; i++)
        changed |= g->step[i].changed;
    for (changed &= UINT64_MAX >> (KAS_MAX_NODES - 1 - last); changed; changed &= changed - 1)
        if (kas_prune_node(kernel, __builtin_ctzll(changed)))
            return KAS_REJECT_REDUNDANT;
    return kas_prune_output(kernel) || kas_prune_groups(kernel, 0) ? KAS_REJECT_REDUNDANT
                                                                   : KAS_REJECT_NONE;
}
