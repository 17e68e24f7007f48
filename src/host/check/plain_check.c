/* Checks the whole kernel at all targets, see plain.h. */
#include <math.h>
#include <string.h>

#include "host/check/plain.h"

/* ---- the graph ------------------------------------------------------------------------------- */

static kas_status check_graph(const kas_kernel *kernel)
{
    bool read[KAS_MAX_NODES] = {false};
    if (kernel->nodes < 2 || kernel->nodes > KAS_MAX_NODES)
        return kas_fail(KAS_ILLEGAL, "%d nodes are not allowed", kernel->nodes);
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_node *node = &kernel->node[i];
        if (node->inputs > KAS_MAX_INPUTS)
            return kas_fail(KAS_ILLEGAL, "node %d: %d operands are not allowed", i, node->inputs);
        for (int k = 0; k < node->inputs; k++) {
            if (node->in[k] >= i)
                return kas_fail(KAS_ILLEGAL, "node %d reads node %d, which does not come before it",
                                i, node->in[k]);
            read[node->in[k]] = true;
        }
    }
    for (int i = 0; i + 1 < kernel->nodes; i++)
        if (!read[i])
            return kas_fail(KAS_ILLEGAL, "node %d: nothing reads it, and it is not the last", i);
    return KAS_OK;
}

static kas_status check_output(const kas_kernel *kernel, const kas_plain_layer *layer,
                               const kas_plain_tensor *y)
{
    uint64_t channels = 1;
    for (int d = 0; d < y->channels; d++)
        channels *= y->channel[d];
    if (channels != layer->value[KAS_SYM_C] || y->h != layer->value[KAS_SYM_H] ||
        y->w != layer->value[KAS_SYM_W])
        return kas_fail(KAS_ILLEGAL, "node %d: the output has %llu channels, %llu x %llu",
                        kernel->nodes - 1, (unsigned long long)channels, (unsigned long long)y->h,
                        (unsigned long long)y->w);
    return KAS_OK;
}

/* ---- Theorem 1 ------------------------------------------------------------------------------- */

/* For every tensor, whether an earlier variable has changed it. */
typedef struct moved {
    bool by_another[KAS_MAX_NODES];
} moved;

/* Checks a node after a variable was doubled: one channel dim has doubled, or nothing has changed.
 * *channel gets that dim, -1 for none. */
static kas_status check_doubled(int i, const kas_plain_tensor *once, const kas_plain_tensor *twice,
                                int *channel)
{
    *channel = -1;
    if (once->channels != twice->channels || once->h != twice->h || once->w != twice->w)
        return kas_fail(KAS_ILLEGAL, "node %d: a spatial dim has a variable (Theorem 1)", i);
    for (int d = 0; d < once->channels; d++) {
        if (once->channel[d] == twice->channel[d])
            continue;
        if (twice->channel[d] != 2 * once->channel[d] || *channel >= 0)
            return kas_fail(KAS_ILLEGAL,
                            "node %d: dim %d is not a multiple of one variable "
                            "(Theorem 1)",
                            i, d);
        *channel = d;
    }
    return KAS_OK;
}

/* Checks the dims where docs/primitives.md admits no variable: the dim of a GROUP_ALL and the
 * groups of a map. */
static kas_status check_fixed(const kas_kernel *kernel, int i, const kas_plain_tensor *operand,
                              int channel)
{
    const kas_node *node = &kernel->node[i];
    if (channel >= 0 && ((node->op == KAS_OP_GROUP_ALL && node->dim == channel) ||
                         ((node->op == KAS_OP_FC || node->op == KAS_OP_CONV) && node->grouped &&
                          operand->marked[channel])))
        return kas_fail(KAS_ILLEGAL, "node %d: the number of groups has a variable", i);
    return KAS_OK;
}

static kas_status check_variable(const kas_kernel *kernel, const kas_plain_layer *layer,
                                 const kas_plain_tensor *once, int symbol, moved *moved)
{
    kas_plain_layer other = *layer;
    kas_plain_tensor twice[KAS_MAX_NODES];
    kas_plain_cost cost;
    int channel[KAS_MAX_NODES];
    other.value[symbol] *= 2;
    if (kas_plain_nodes(kernel, &other, twice, &cost) != KAS_OK)
        return kas_fail_context(KAS_ILLEGAL, "with %s doubled (Theorem 1)",
                                kas_symbol_name((kas_symbol)symbol));
    for (int i = 0; i < kernel->nodes; i++) {
        KAS_TRY(check_doubled(i, &once[i], &twice[i], &channel[i]));
        if (channel[i] >= 0 && moved->by_another[i])
            return kas_fail(KAS_ILLEGAL, "node %d: one tensor has two variables (Theorem 1)", i);
        moved->by_another[i] |= channel[i] >= 0;
        if (kernel->node[i].inputs > 0) /* those primitives read one tensor */
            KAS_TRY(check_fixed(kernel, i, &once[kernel->node[i].in[0]],
                                channel[kernel->node[i].in[0]]));
    }
    return check_output(kernel, layer, &twice[kernel->nodes - 1]);
}

/* ---- one target ------------------------------------------------------------------------------ */

/* Computes the rests of splits. A whole may hold the rest of another split; as many turns as there
 * are splits reach all. */
static void read_rests(const kas_kernel *kernel, kas_plain_layer *layer)
{
    for (int turn = 0; turn < KAS_MAX_SPLITS; turn++)
        for (int s = 0; s < KAS_MAX_SPLITS; s++) {
            const kas_split *split = &kernel->split[s];
            uint64_t whole;
            if (split->first && kas_plain_size(layer, &split->whole, &whole) &&
                whole > split->first)
                layer->value[KAS_SYM_R0 + s] = whole - split->first;
        }
}

static kas_status read_layer(const kas_kernel *kernel, const kas_target *t,
                             const kas_binding *binding, kas_plain_layer *layer)
{
    memset(layer, 0, sizeof *layer);
    layer->value[KAS_SYM_C] = t->c;
    layer->value[KAS_SYM_H] = t->h;
    layer->value[KAS_SYM_W] = t->w;
    layer->value[KAS_SYM_KH] = t->kernel_h;
    layer->value[KAS_SYM_KW] = t->kernel_w;
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        layer->value[KAS_SYM_G0 + g] = kernel->group_value[g];
    read_rests(kernel, layer);
    for (int v = 0; v < KAS_SYM_COUNT; v++) {
        if (v >= KAS_SYM_X0)
            layer->value[v] = binding->value[v];
        else if (layer->value[v] != binding->value[v])
            return kas_fail(KAS_ILLEGAL, "%s is %u in the solution, expected %llu",
                            kas_symbol_name((kas_symbol)v), binding->value[v],
                            (unsigned long long)layer->value[v]);
    }
    return KAS_OK;
}

/* Turns the cost of one instance into that of a layer ("Cost of a layer" in docs/primitives.md):
 * all instances, the sum of input parts, the average pool for a stride that the kernel does not
 * take. */
static void cost_of_layer(const kas_target *t, bool stride_inside, kas_plain_cost *cost)
{
    const double instances = (double)t->parts_in * t->parts_out;
    cost->flops *= instances;
    cost->params *= instances;
    cost->largest_tensor *= instances;
    cost->largest_weight *= instances;
    if (t->parts_in > 1)
        cost->flops += (double)t->parts_in * t->c_out * t->h * t->w;
    if (t->stride > 1 && !stride_inside)
        cost->flops += (double)t->c_in * t->h * t->stride * t->w * t->stride;
}

static kas_status check_limits(const kas_target *t, const kas_budget *budget,
                               const kas_plain_cost *cost)
{
    const double instances = (double)t->parts_in * t->parts_out;
    const double unfolded = instances * t->c * t->kernel_h * t->kernel_w * t->h * t->w;
    const double tensor = budget->max_tensor > 0 ? budget->max_tensor : fmax(unfolded, 1 << 22);
    const double weight = budget->max_weight > 0 ? budget->max_weight : 1 << 24;
    if (cost->largest_tensor > tensor || cost->largest_weight > weight)
        return kas_fail(KAS_UNSUPPORTED,
                        "a tensor of %.0f elements or a weight of %.0f exceeds its limit",
                        cost->largest_tensor, cost->largest_weight);
    return KAS_OK;
}

static kas_status check_target(const kas_kernel *kernel, const kas_target *t,
                               const kas_binding *binding, const kas_budget *budget,
                               kas_plain_cost *cost)
{
    kas_plain_layer layer;
    kas_plain_tensor tensor[KAS_MAX_NODES];
    moved moved = {{false}};
    if (t->c * t->parts_in != t->c_in || t->c * t->parts_out != t->c_out)
        return kas_fail(KAS_ILLEGAL, "%u and %u parts of %u channels do not give %u -> %u",
                        t->parts_in, t->parts_out, t->c, t->c_in, t->c_out);
    KAS_TRY(read_layer(kernel, t, binding, &layer));
    KAS_TRY(kas_plain_nodes(kernel, &layer, tensor, cost));
    KAS_TRY(check_output(kernel, &layer, &tensor[kernel->nodes - 1]));
    for (int v = KAS_SYM_X0; v < KAS_SYM_COUNT; v++)
        if (layer.value[v])
            KAS_TRY(check_variable(kernel, &layer, tensor, v, &moved));
    cost_of_layer(t, kernel->stride_inside, cost);
    return check_limits(t, budget, cost);
}

/* ---- images of another size ------------------------------------------------------------------ */

static bool size_stays(const kas_plain_layer *once, const kas_plain_layer *twice,
                       const kas_dim *size)
{
    uint64_t before, after;
    return size->num == 0 || (kas_plain_size(once, size, &before) &&
                              kas_plain_size(twice, size, &after) && before == after);
}

/* Checks the weights with one side of the image twice as long. Where a rule forbids that size, no
 * weight is compared: then the kernel itself fits one image size, whatever its weights are. */
static kas_status check_side(const kas_kernel *kernel, const kas_plain_layer *layer, int side)
{
    kas_plain_layer other = *layer;
    kas_plain_tensor tensor[KAS_MAX_NODES];
    kas_plain_cost once, twice;
    other.value[side] *= 2;
    read_rests(kernel, &other);
    for (int i = 0; i < kernel->nodes; i++)
        if (!size_stays(layer, &other, &kernel->node[i].out))
            return kas_fail(KAS_ILLEGAL, "node %d: its size changes with the size of the image", i);
    KAS_TRY(kas_plain_nodes(kernel, layer, tensor, &once));
    const bool quiet = kas_quiet(true);
    const bool fits = kas_plain_nodes(kernel, &other, tensor, &twice) == KAS_OK;
    kas_quiet(quiet);
    if (fits && once.params != twice.params)
        return kas_fail(KAS_ILLEGAL,
                        "%.0f parameters of an instance become %.0f with a larger image",
                        once.params, twice.params);
    return KAS_OK;
}

kas_status kas_plain_any_image(const kas_kernel *kernel, const kas_target *targets, int count,
                               const kas_solution *solution)
{
    for (int t = 0; t < count; t++)
        for (int side = KAS_SYM_H; side <= KAS_SYM_W; side++) {
            kas_plain_layer layer;
            KAS_TRY(read_layer(kernel, &targets[t], &solution->binding[t], &layer));
            if (check_side(kernel, &layer, side) != KAS_OK)
                return kas_fail_context(KAS_ILLEGAL, "target %d (%s), with %s doubled", t,
                                        targets[t].name, kas_symbol_name((kas_symbol)side));
        }
    return KAS_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

kas_status kas_plain_sum(const char *what, double ours, double told, double conv, double max_ratio)
{
    if (!(fabs(ours - told) <= 1e-9 * ours)) /* NaN is no match */
        return kas_fail(KAS_ILLEGAL, "the sum is %.17g %s, but the solution says %.17g", ours, what,
                        told);
    if (max_ratio > 0 && ours > max_ratio * conv)
        return kas_fail(KAS_OVER_BUDGET, "%.17g %s, %g times the convolutions' %.17g are allowed",
                        ours, what, max_ratio, conv);
    return KAS_OK;
}

kas_status kas_plain_check(const kas_kernel *kernel, const kas_target *targets, int count,
                           const kas_budget *budget, const kas_solution *solution)
{
    double flops = 0, params = 0, conv_flops = 0, conv_params = 0;
    KAS_TRY(check_graph(kernel));
    if (solution->targets != count)
        return kas_fail(KAS_ILLEGAL, "the solution has %d targets, expected %d", solution->targets,
                        count);
    for (int t = 0; t < count; t++) {
        const kas_target *at = &targets[t];
        kas_plain_cost cost;
        const kas_status status = check_target(kernel, at, &solution->binding[t], budget, &cost);
        if (status != KAS_OK)
            return kas_fail_context(status, "target %d (%s)", t, at->name);
        flops += cost.flops;
        params += cost.params;
        const double groups = at->groups ? at->groups : 1;
        const double weights = (double)at->c_in * at->c_out * at->kernel_h * at->kernel_w / groups;
        conv_params += weights;
        conv_flops += weights * at->h * at->w;
    }
    KAS_TRY(kas_plain_sum("FLOPs", flops, solution->flops, conv_flops, budget->max_flops_ratio));
    return kas_plain_sum("parameters", params, solution->params, conv_params,
                         budget->max_params_ratio);
}
