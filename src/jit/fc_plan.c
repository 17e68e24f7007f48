/* Decides how a fully-connected node is computed: which unfolds it takes over, and by what. */
#include "jit/lower_fc.h"

enum {
    DIRECT_MACS = 16, /* multiply-adds per tap and group up to which a library has no chance */
    DIRECT_CHANNELS = 4
};

static bool is_group_dim(const kas_lower *l, int node, int d)
{
    const kas_node *n = &l->kernel->node[node];
    return n->grouped && l->kernel->node[n->in[0]].shape.is_group[d];
}

/* Taps must be contracted, and stand behind every contracted dim that is none (KRSC weights are
 * addressed by channel, then tap). */
static bool tap_fits(const kas_lower *l, int node, int d, const bool *is_tap)
{
    const int in = l->kernel->node[node].in[0];
    if (d < 0 || is_group_dim(l, node, d))
        return false;
    for (int e = d + 1; e < l->kernel->node[in].shape.channels; e++)
        if (!is_tap[e] && !is_group_dim(l, node, e))
            return false;
    return true;
}

/* Walks back from the operand through groups and unfolds; at[d] is where dim d of the node reached
 * stands in the operand, -1 when it was split on the way. */
typedef struct walk {
    int node, channels, axes;
    bool w_first;
    int at[KAS_MAX_CHANNEL_DIMS];
    bool is_tap[KAS_MAX_CHANNEL_DIMS]; /* of the operand */
} walk;

static bool step_group(const kas_lower *l, walk *w)
{
    const kas_node *n = &l->kernel->node[w->node];
    for (int d = n->dim; d + 1 < w->channels; d++)
        w->at[d] = d == n->dim ? -1 : w->at[d + 1];
    w->channels--;
    w->node = n->in[0];
    return true;
}

static bool step_unfold(const kas_lower *l, int node, walk *w)
{
    const kas_node *n = &l->kernel->node[w->node];
    const int taps = n->axes == (KAS_AXIS_H | KAS_AXIS_W) ? 2 : 1;
    bool is_tap[KAS_MAX_CHANNEL_DIMS];
    for (int d = 0; d < KAS_MAX_CHANNEL_DIMS; d++)
        is_tap[d] = w->is_tap[d];
    if ((n->axes & w->axes) || kas_node_dilation(n) > 1)
        return false;
    for (int d = w->channels - 1; d >= w->channels - taps; d--) {
        if (!tap_fits(l, node, w->at[d], is_tap))
            return false;
        is_tap[w->at[d]] = true;
    }
    for (int d = 0; d < KAS_MAX_CHANNEL_DIMS; d++)
        w->is_tap[d] = is_tap[d];
    w->w_first = n->axes == KAS_AXIS_W && (w->axes & KAS_AXIS_H); /* H was unfolded after W */
    w->axes |= n->axes;
    w->channels -= taps;
    w->node = n->in[0];
    return true;
}

static void find_base(kas_lower *l, int node, bool *is_tap)
{
    kas_lowered_fc *fc = &l->fc[node];
    walk w = {.node = l->kernel->node[node].in[0]};
    w.channels = l->kernel->node[w.node].shape.channels;
    for (int d = 0; d < w.channels; d++)
        w.at[d] = d;
    fc->base = w.node;
    fc->axes = 0;
    for (bool more = true; more;) {
        const kas_op op = (kas_op)l->kernel->node[w.node].op;
        more = op == KAS_OP_UNFOLD
                   ? step_unfold(l, node, &w)
                   : (op == KAS_OP_GROUP || op == KAS_OP_GROUP_ALL) && step_group(l, &w);
        if (more && op == KAS_OP_UNFOLD) {
            fc->base = w.node;
            fc->axes = w.axes;
            fc->w_first = w.w_first;
        }
    }
    for (int d = 0; d < KAS_MAX_CHANNEL_DIMS; d++)
        is_tap[d] = w.is_tap[d];
}

static void sort_dims(kas_lower *l, int node, const bool *is_tap)
{
    kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    for (int d = 0; d < l->kernel->node[in].shape.channels; d++) {
        if (is_tap[d])
            fc->tap[fc->taps++] = d;
        else if (is_group_dim(l, node, d))
            fc->group[fc->groups++] = d;
        else
            fc->channel[fc->channels++] = d;
    }
}

/* The taps are the last digits of the contracted index. */
static void set_taps(kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    kas_weight *w = &l->weight[fc->weight];
    for (int i = 0; i < fc->taps; i++)
        w->in_channels /= (uint32_t)l->size[in][fc->tap[i]];
}

kas_status kas_fc_plan(kas_lower *l, int node)
{
    kas_lowered_fc *fc = &l->fc[node];
    bool is_tap[KAS_MAX_CHANNEL_DIMS];
    KAS_TRY(kas_weight_sizes_at(l->kernel, node, l->binding, &fc->sizes));
    fc->weight = kas_lower_new_weight(l, node, &fc->sizes);
    find_base(l, node, is_tap);
    sort_dims(l, node, is_tap);
    set_taps(l, node);
    const uint32_t channels = l->weight[fc->weight].in_channels;
    fc->library = !(fc->sizes.fan_in == 1 ||
                    (channels <= DIRECT_CHANNELS && fc->sizes.fan_out <= DIRECT_CHANNELS &&
                     channels * fc->sizes.fan_out <= DIRECT_MACS));
    /* One weight stride for the instance must do, hence parts_in 1. */
    const int64_t q = l->ir->tensor[l->tensor[fc->base]].size[KAS_DIM_Q];
    fc->share = fc->library && q == 1 && l->target->parts_in == 1 && l->target->parts_out > 1;
    if (q == 1 && l->target->parts_out == 1)
        fc->share = false;
    return KAS_OK;
}
