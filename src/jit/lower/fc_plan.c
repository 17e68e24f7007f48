/* Decides how a linear operator is computed: which unfolds it takes over, and whether by a
 * library. */
#include <math.h>
#include <string.h>

#include "jit/lower/lower_fc.h"

enum {
    DIRECT_MACS = 16, /* most multiply-adds per tap and group for which a library has no chance */
    DIRECT_CHANNELS = 4
};

static const kas_shape *input_shape(const kas_lower *l, int node)
{
    return &l->kernel->node[l->kernel->node[node].in[0]].shape;
}

/* Returns whether every position of the dim has a map of its own. */
static bool is_group_dim(const kas_lower *l, int node, int d)
{
    const kas_node *n = &l->kernel->node[node];
    if (d >= input_shape(l, node)->channels) /* it is a tap of the node's own windows */
        return false;
    return n->op == KAS_OP_CONV_DEPTHWISE || (n->grouped && input_shape(l, node)->is_group[d]);
}

/* Returns whether the dim is one that a mix leaves as it is. */
static bool is_kept_dim(const kas_lower *l, int node, int d)
{
    const kas_node *n = &l->kernel->node[node];
    return n->op == KAS_OP_MIX && (d < n->dim || d >= n->dim_end);
}

/* Returns whether the taps can be a convolution's: they must be contracted, and stand behind every
 * contracted dim that is no tap (KRSC weights are addressed by channel, then tap). */
static bool tap_fits(const kas_lower *l, int node, int d, const bool *is_tap)
{
    if (d < 0 || is_group_dim(l, node, d) || is_kept_dim(l, node, d))
        return false;
    for (int e = d + 1; e < l->fc[node].dims; e++)
        if (!is_tap[e] && !is_group_dim(l, node, e))
            return false;
    return true;
}

/* The walk from the operand back through groups and unfolds. at[d] is the place in the operand of
 * dim d of the node reached, -1 when the dim was split on the way. */
typedef struct walk {
    int node, channels, axes;
    bool w_first;
    bool library; /* the walk is for a library convolution, whose taps all have one distance: */
    int dilation; /* 0 while there are no taps */
    int at[KAS_FC_DIMS];
    bool is_tap[KAS_FC_DIMS]; /* by dim of the operand */
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

/* Returns whether a library convolution can take these windows over: all its taps must have one
 * distance, and with kept dims counted as pixels, neighbours would be neighbours no more. */
static bool library_takes(const kas_lower *l, int node, const walk *w, const kas_node *windows)
{
    for (int d = 0; d < l->fc[node].dims; d++)
        if (is_kept_dim(l, node, d))
            return false;
    return w->dilation == 0 || w->dilation == kas_node_dilation(windows);
}

static bool step_unfold(const kas_lower *l, int node, walk *w)
{
    const kas_node *n = &l->kernel->node[w->node];
    const int taps = n->axes == (KAS_AXIS_H | KAS_AXIS_W) ? 2 : 1;
    bool is_tap[KAS_FC_DIMS];
    for (int d = 0; d < KAS_FC_DIMS; d++)
        is_tap[d] = w->is_tap[d];
    if (l->stride > 1 || (n->axes & w->axes) || (w->library && !library_takes(l, node, w, n)))
        return false;
    for (int d = w->channels - 1; d >= w->channels - taps; d--) {
        if (!tap_fits(l, node, w->at[d], is_tap))
            return false;
        is_tap[w->at[d]] = true;
    }
    for (int d = 0; d < KAS_FC_DIMS; d++)
        w->is_tap[d] = is_tap[d];
    w->w_first = n->axes == KAS_AXIS_W && (w->axes & KAS_AXIS_H); /* H was unfolded after W */
    w->axes |= n->axes;
    w->dilation = kas_node_dilation(n);
    w->channels -= taps;
    w->node = n->in[0];
    return true;
}

static bool step(const kas_lower *l, int node, walk *w)
{
    switch (l->kernel->node[w->node].op) {
    case KAS_OP_UNFOLD:
        return step_unfold(l, node, w);
    case KAS_OP_GROUP:
    case KAS_OP_GROUP_ALL:
        return step_group(l, w);
    default:
        return false;
    }
}

/* Finds the node that a convolution reads, and the dims of the operand that are its taps; none
 * where windows are unfolded. */
static void find_base(kas_lower *l, int node, bool library, bool *is_tap)
{
    kas_lowered_fc *fc = &l->fc[node];
    const bool own = kas_fc_has_own_windows(fc);
    walk w = {.node = own ? node : fc->in, .channels = fc->dims, .library = library};
    for (int d = 0; d < w.channels; d++)
        w.at[d] = d;
    fc->base = fc->in;
    fc->axes = fc->dilation = 0;
    fc->w_first = false;
    for (bool more = !library || fc->windows != KAS_FC_UNFOLDED, first = own; more; first = false) {
        const int from = w.node;
        more = first ? step_unfold(l, node, &w) : step(l, node, &w);
        if (more && (first || l->kernel->node[from].op == KAS_OP_UNFOLD)) {
            fc->base = w.node;
            fc->axes = w.axes;
            fc->w_first = w.w_first;
            fc->dilation = w.dilation;
        }
    }
    for (int d = 0; d < KAS_FC_DIMS; d++)
        is_tap[d] = w.is_tap[d];
}

/* Sorts the contracted dims as they lie in the operand's memory, so that the library's operand lies
 * alike: on a CPU taps that the convolution does not take over stand in front of the channels. */
static void sort_channels(kas_lower *l, int node)
{
    kas_lowered_fc *fc = &l->fc[node];
    const kas_ir_tensor *in = &l->ir->tensor[l->tensor[fc->in]];
    int order[KAS_IR_RANK], count = 0, channel[KAS_FC_DIMS];
    kas_ir_memory_order(in, order);
    for (int i = 0; i < in->rank; i++)
        for (int k = 0; k < fc->channels; k++)
            if (KAS_DIM_C + fc->channel[k] == order[i])
                channel[count++] = fc->channel[k];
    memcpy(fc->channel, channel, sizeof channel[0] * (size_t)count);
}

/* Fills the node's dims by their part, for a library or for loops of our own. */
static void sort_dims(kas_lower *l, int node, bool library)
{
    bool is_tap[KAS_FC_DIMS];
    find_base(l, node, library, is_tap);
    kas_lowered_fc *fc = &l->fc[node];
    fc->taps = fc->groups = fc->channels = fc->kepts = 0;
    fc->in_channels = fc->sizes.fan_in;
    for (int d = 0; d < fc->dims; d++) {
        if (is_tap[d])
            fc->tap[fc->taps++] = d;
        else if (is_kept_dim(l, node, d))
            fc->kept[fc->kepts++] = d;
        else if (is_group_dim(l, node, d))
            fc->group[fc->groups++] = d;
        else
            fc->channel[fc->channels++] = d;
        if (is_tap[d])
            fc->in_channels /= (uint32_t)l->size[fc->in][d];
    }
    if (library)
        sort_channels(l, node);
}

kas_linear_policy kas_linear_policy_of(const char *device)
{
    return strncmp(device, "cpu", 3) == 0 ? KAS_LINEAR_CPU : KAS_LINEAR_GPU;
}

/* ---- library or loops ------------------------------------------------------------------------ */

/* What a kind of device makes of a linear operator: multiply-adds and bytes a second. */
typedef struct speed {
    double library, direct, bandwidth;
    int vector; /* outputs that a library computes together */
    double few; /* inputs of a group with which it reaches half of its rate */
} speed;

/* One core with AVX-512, as calibrated (host/predict/machine_builtin.c), and as sums over taps are
 * measured; an H100. Only ratios matter, and they differ little from one device to the next. */
static const speed cpu_speed = {4.6e10, 5e9, 1.4e10, 16, 1.3};
static const speed gpu_speed = {1.2e14, 8e12, 3.35e12, 8, 16};
/* How windows reach a GPU's library: its rate with tensor cores and without; what windows of groups
 * reach of it; seconds of a launch more. */
static const double tensor_rate = 2.5e14, plain_rate = 2.7e13, grouped_windows = 0.3, launch = 2e-6;

static const speed *speed_of(const kas_lower *l)
{
    return l->linear_policy == KAS_LINEAR_CPU ? &cpu_speed : &gpu_speed;
}

static double elements_of(const kas_fc_side *s)
{
    double n = 1;
    for (int d = 0; d < s->rank; d++)
        n *= (double)s->size[d];
    return n;
}

static double multiply_adds(const kas_lower *l, int node)
{
    const kas_fc_side out = kas_fc_output_side(l, node);
    return elements_of(&out) * l->fc[node].sizes.fan_in;
}

/* Returns how often a library's operand is moved: it is read and, where it is not in memory in the
 * convolution's order, written before, from memory or from what computes it. */
static int moves_of(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_op op = fc->base < KAS_WITHIN ? l->kernel->node[fc->base].op : KAS_OP_UNFOLD;
    if (op != KAS_OP_INPUT && (op < KAS_OP_FC || op > KAS_OP_MIX || !l->fc[fc->base].library))
        return 2;
    for (int i = 0; i < fc->channels; i++)
        if ((fc->kepts > 0 && fc->kept[fc->kepts - 1] > fc->channel[i]) ||
            (fc->groups > 0 && fc->group[fc->groups - 1] > fc->channel[i]))
            return 3;
    return 1;
}

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* Predicts the time of the library's convolution, with the packing of what it reads. */
static double library_seconds(const kas_lower *l, int node, const speed *v)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side in = kas_fc_input_side(l, node), out = kas_fc_output_side(l, node);
    const double size = (double)kas_dtype_size(l->ir->dtype);
    const double channels = fc->in_channels, outs = fc->sizes.fan_out;
    const bool depthwise = channels == 1 && outs == 1;
    const int vector = fc->groups > 0 ? v->vector / 2 : v->vector;
    const double whole = (double)(((int64_t)outs + vector - 1) / vector * vector);
    double rate = v->library;
    if (depthwise)
        rate *= 0.6;
    else
        rate *= channels / (channels + v->few) * outs / whole;
    const double bytes = size * (elements_of(&in) * moves_of(l, node) + elements_of(&out));
    return longer(multiply_adds(l, node) / rate, bytes / v->bandwidth);
}

/* Walks back through what loops of our own read through: unfolds, whose taps never lie in
 * memory, and what computes an element from one element of each operand. Returns the node
 * reached; *dims gets the channel dims of the operand that are there. */
static int read_through(const kas_lower *l, int node, int *dims)
{
    const bool own = kas_fc_has_own_windows(&l->fc[node]);
    int at = own ? node : l->fc[node].in;
    int channels = l->fc[node].dims;
    for (bool first = own;; first = false) {
        const kas_node *n = &l->kernel->node[at];
        const kas_type type = kas_type_of(n->op);
        if (first || n->op == KAS_OP_UNFOLD)
            channels -= n->axes == (KAS_AXIS_H | KAS_AXIS_W) ? 2 : 1;
        else if (n->op == KAS_OP_GROUP_ALL && n->dim == channels - 2)
            channels--; /* a last dim of size 1 */
        else if (type != KAS_TYPE_SHIFT && type != KAS_TYPE_SHUFFLE && type != KAS_TYPE_SCALE &&
                 type != KAS_TYPE_ELEMENTWISE && type != KAS_TYPE_BROADCAST &&
                 type != KAS_TYPE_SLICE && type != KAS_TYPE_CONCAT)
            break;
        at = n->in[type == KAS_TYPE_BROADCAST];
    }
    *dims = channels;
    return at;
}

/* Returns how many elements lie side by side where lanes of our own loops walk through the
 * operand. */
static double lanes_of(const kas_lower *l, int node)
{
    int dims;
    double lanes = 1;
    const kas_ir_tensor *t = &l->ir->tensor[l->tensor[l->fc[node].in]];
    int order[KAS_IR_RANK];
    read_through(l, node, &dims);
    kas_ir_memory_order(t, order);
    for (int i = t->rank - 1; i >= KAS_DIM_C; i--) {
        const int d = order[i] - KAS_DIM_C;
        if (d >= dims) /* it is read through */
            continue;
        if (!is_kept_dim(l, node, d) && !is_group_dim(l, node, d))
            break;
        lanes *= (double)t->size[order[i]];
    }
    return lanes;
}

/* Predicts the time of loops of our own, which read through what computes their operand. */
static double direct_seconds(const kas_lower *l, int node, const speed *v)
{
    int dims;
    const kas_ir_tensor *base = &l->ir->tensor[l->tensor[read_through(l, node, &dims)]];
    const kas_fc_side out = kas_fc_output_side(l, node);
    const double size = (double)kas_dtype_size(l->ir->dtype), lanes = lanes_of(l, node);
    const double bytes = size * ((double)base->elements + elements_of(&out));
    const double full = lanes < v->vector ? lanes / v->vector : 1;
    return longer(multiply_adds(l, node) / (v->direct * full), bytes / v->bandwidth);
}

/* Decides by predicted time. Where the contracted channels are those that lie side by side, or
 * there are many of them, sums of our own are slow, and only the smallest groups are left to
 * them. */
static bool is_direct(const kas_lower *l, int node, double library)
{
    enum { MOST_TERMS = 64 };
    const kas_lowered_fc *fc = &l->fc[node];
    const uint32_t channels = fc->in_channels;
    const bool cpu = l->linear_policy == KAS_LINEAR_CPU;
    if (l->linear_policy >= KAS_LINEAR_DIRECT)
        return l->linear_policy == KAS_LINEAR_DIRECT;
    if (fc->sizes.fan_in == 1)
        return true;
    if (lanes_of(l, node) > 1 && fc->sizes.fan_in <= MOST_TERMS &&
        direct_seconds(l, node, speed_of(l)) < library)
        return true;
    return channels <= DIRECT_CHANNELS && fc->sizes.fan_out <= DIRECT_CHANNELS &&
           channels * fc->sizes.fan_out <= DIRECT_MACS && (!cpu || channels == fc->sizes.fan_in);
}

/* Makes the windows, [channels of the input..., taps], a tensor of their own, which a library
 * convolution never reads. */
static void make_windows(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const kas_ir_tensor in = l->ir->tensor[l->tensor[n->in[0]]];
    const int windows = KAS_WITHIN + node;
    int rank = in.rank;
    int64_t size[KAS_IR_RANK];
    kas_ix idx[KAS_IR_RANK];
    for (int d = 0; d < rank; d++)
        size[d] = in.size[d];
    for (int axis = KAS_AXIS_H; axis <= KAS_AXIS_W; axis++)
        if (n->axes & axis)
            size[rank++] = kas_lower_taps(l, node, axis);
    for (int d = KAS_DIM_C; d < rank; d++)
        l->size[windows][d - KAS_DIM_C] = size[d];
    const int tensor = kas_lower_tensor(l, size, rank);
    kas_lower_lay_windows(l, l->tensor[n->in[0]], tensor);
    l->tensor[windows] = tensor;
    kas_lower_vars(l, windows, idx);
    const kas_ex e = kas_lower_windows(l, node, idx);
    l->ir->tensor[tensor].def = e;
    l->fc[node].in = windows;
    l->fc[node].dims = rank - KAS_DIM_C;
}

/* ---- windows --------------------------------------------------------------------------------- */

static double taps_of(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    double taps = 1;
    for (int i = 0; i < fc->taps; i++)
        taps *= (double)l->size[fc->in][fc->tap[i]];
    return taps;
}

/* Returns the groups of the library's convolution, instances included. */
static double groups_of(const kas_fc_side *in)
{
    double groups = 1;
    for (int d = KAS_DIM_Q; d < in->last; d++)
        groups *= (double)in->size[d];
    return groups;
}

/* Returns the share of a GPU's multiprocessors for which there are tiles of the result; libraries
 * cut long sums. */
static double filled(double pixels, double outs, double groups, double sum)
{
    enum { TILE = 64, LEAST_SUM = 512, CORES = 132 };
    const double parts = fmax(1, floor(sum / LEAST_SUM));
    return fmin(1, ceil(pixels / TILE) * ceil(outs / TILE) * groups * parts / CORES);
}

/* Predicts the time of a GPU's library, and of what our own launches add for it, where windows
 * reach it as fc->windows says. */
static double windows_seconds(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side in = kas_fc_input_side(l, node), out = kas_fc_output_side(l, node);
    const speed *v = &gpu_speed;
    const double size = (double)kas_dtype_size(l->ir->dtype), taps = taps_of(l, node);
    const double results = elements_of(&out) * taps, groups = groups_of(&in);
    const bool shifted = fc->windows == KAS_FC_SHIFTED, merged = fc->windows == KAS_FC_MERGED;
    const double together = merged ? groups : 1;
    const double channels = fc->in_channels * together,
                 outs = fc->sizes.fan_out * (shifted ? taps : together);
    double rate = l->ir->dtype == KAS_F32 && !l->tf32 ? plain_rate : tensor_rate;
    rate *= channels / (channels + v->few) * outs / (ceil(outs / v->vector) * v->vector);
    rate *= filled(elements_of(&in) / (groups * fc->in_channels), outs, groups / together,
                   channels * (shifted ? 1 : taps));
    if (groups > together && taps > 1 && !shifted)
        rate *= grouped_windows;
    const double read = size * elements_of(&in) / v->bandwidth,
                 written = size * (shifted ? results : elements_of(&out)) / v->bandwidth;
    double seconds = longer(multiply_adds(l, node) * together / rate, read + written);
    if (moves_of(l, node) > 1) /* what is read is written before */
        seconds += read;
    if (shifted)
        seconds += longer(results / v->direct, written);
    return seconds + (fc->windows == KAS_FC_CONVOLVED ? 0 : launch);
}

static bool is_grouped(const kas_lower *l, int node)
{
    const kas_fc_side in = kas_fc_input_side(l, node);
    return groups_of(&in) > 1;
}

/* Returns how windows reach a GPU's library: as its convolution's unless the prediction is clearly
 * for another way. */
static kas_fc_windows cheapest_windows(kas_lower *l, int node)
{
    static const double worth = 0.7;
    kas_lowered_fc *fc = &l->fc[node];
    double least = worth * windows_seconds(l, node);
    kas_fc_windows best = KAS_FC_CONVOLVED;
    for (fc->windows = KAS_FC_UNFOLDED; fc->windows <= KAS_FC_MERGED; fc->windows++) {
        sort_dims(l, node, true);
        if (fc->windows == KAS_FC_MERGED && !is_grouped(l, node))
            continue;
        const double seconds = windows_seconds(l, node);
        if (seconds >= least)
            continue;
        least = seconds;
        best = fc->windows;
    }
    return best;
}

static kas_fc_windows choose_windows(kas_lower *l, int node)
{
    kas_lowered_fc *fc = &l->fc[node];
    sort_dims(l, node, true);
    const bool depthwise = fc->in_channels == 1 && fc->sizes.fan_out == 1;
    const bool room = kas_fc_output_side(l, node).rank + 2 <= KAS_IR_RANK;
    if (fc->taps == 0 || !room)
        return KAS_FC_CONVOLVED;
    if (l->linear_policy == KAS_LINEAR_GPU && !depthwise)
        return cheapest_windows(l, node);
    return l->linear_policy == KAS_LINEAR_UNFOLDED                        ? KAS_FC_UNFOLDED
           : l->linear_policy == KAS_LINEAR_SHIFTED                       ? KAS_FC_SHIFTED
           : l->linear_policy == KAS_LINEAR_MERGED && is_grouped(l, node) ? KAS_FC_MERGED
                                                                          : KAS_FC_CONVOLVED;
}

kas_status kas_fc_plan(kas_lower *l, int node)
{
    kas_lowered_fc *fc = &l->fc[node];
    const kas_node *n = &l->kernel->node[node];
    KAS_TRY(kas_weight_sizes_at(l->kernel, node, l->binding, &fc->sizes));
    fc->weight = kas_lower_new_weight(l, &fc->sizes);
    fc->in = n->in[0];
    fc->dims = input_shape(l, node)->channels;
    if (n->op == KAS_OP_CONV || n->op == KAS_OP_CONV_DEPTHWISE)
        make_windows(l, node);
    KAS_TRY(l->ir->status);
    sort_dims(l, node, true);
    const double library = library_seconds(l, node, speed_of(l));
    sort_dims(l, node, false); /* loops of our own take over any window */
    fc->library = !is_direct(l, node, library);
    if (fc->library) {
        fc->windows = choose_windows(l, node);
        sort_dims(l, node, true);
    }
    /* One weight stride must serve for the instance, hence parts_in 1. */
    const int64_t q = kas_lower_q(l, fc->base);
    fc->share = fc->library && q == 1 && l->target->parts_in == 1 && l->target->parts_out > 1;
    return KAS_OK;
}
