/* Fully-connected maps: a library convolution, or a direct loop when a group is as small as that of
 * a depthwise convolution.
 *
 * An unfold before the map is never made in memory for it: its tap dims become the kernel of the
 * convolution (1x1 without any).  Dims of the operand are sorted into
 *     group   kept apart, the convolution's groups
 *     channel contracted
 *     tap     contracted, made by an unfold that the convolution takes over
 * which fc_plan.c decides.
 *
 * Convolution operands are [n][h][w] [q][p][group...] [channel...], its result [n][h][w][q][p]
 * [group...][out]; when all q read one input they are outputs of one map: [p][group...][q][out]. */
#include <string.h>

#include "jit/lower_fc.h"

/* Dims of the convolution's side tensors, and where instance, group and the rest lie. */
typedef struct side {
    int rank, q, p, group, last; /* dim numbers; `last`: first channel dim, or out */
    int64_t size[KAS_IR_RANK];
} side;

static side input_side(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    const kas_tensor *t = &l->ir->tensor[l->tensor[in]];
    side s = {.q = KAS_DIM_Q, .p = KAS_DIM_P, .group = KAS_DIM_C, .rank = KAS_DIM_C};
    memcpy(s.size, t->size, sizeof *t->size * KAS_DIM_C);
    s.size[KAS_DIM_Q] = fc->share ? 1 : l->target->parts_out;
    for (int i = 0; i < fc->groups; i++)
        s.size[s.rank++] = l->size[in][fc->group[i]];
    s.last = s.rank;
    for (int i = 0; i < fc->channels; i++)
        s.size[s.rank++] = l->size[in][fc->channel[i]];
    return s;
}

static side output_side(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    const kas_tensor *t = &l->ir->tensor[l->tensor[in]];
    side s = {.rank = KAS_DIM_Q};
    memcpy(s.size, t->size, sizeof *t->size * KAS_DIM_Q);
    if (!fc->share) {
        s.q = s.rank;
        s.size[s.rank++] = l->target->parts_out;
    }
    s.p = s.rank;
    s.size[s.rank++] = l->target->parts_in;
    s.group = s.rank;
    for (int i = 0; i < fc->groups; i++)
        s.size[s.rank++] = l->size[in][fc->group[i]];
    if (fc->share) {
        s.q = s.rank;
        s.size[s.rank++] = l->target->parts_out;
    }
    s.last = s.rank;
    s.size[s.rank++] = fc->sizes.fan_out;
    return s;
}

/* ---- coordinates ------------------------------------------------------------------------------
 */

/* Index of the output side from an index of the node's tensor [n,h,w,q,p,out]. */
static void output_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const side s = output_side(l, node);
    const kas_ix out = idx[KAS_DIM_C];
    memcpy(at, idx, sizeof *idx * KAS_DIM_Q);
    at[s.q] = idx[KAS_DIM_Q];
    at[s.p] = idx[KAS_DIM_P];
    kas_ix_unflatten(l->ir, kas_ix_div(l->ir, out, fc->sizes.fan_out), fc->groups, s.size + s.group,
                     at + s.group);
    at[s.last] = kas_ix_mod(l->ir, out, fc->sizes.fan_out);
}

/* And back. */
static void node_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const side s = output_side(l, node);
    memcpy(idx, at, sizeof *idx * KAS_DIM_Q);
    idx[KAS_DIM_Q] = at[s.q];
    idx[KAS_DIM_P] = at[s.p];
    const kas_ix group = kas_ix_flatten(l->ir, fc->groups, s.size + s.group, at + s.group);
    idx[KAS_DIM_C] = kas_ix_add(l->ir, kas_ix_scale(l->ir, group, fc->sizes.fan_out), at[s.last]);
}

/* The dims of the operand without the taps, in the operand's order: together they are the channels
 * of the base node, flattened.  part[i] is the dim of the input side. */
static int plain_dims(const kas_lower *l, int node, int64_t *size, int *part)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    const side s = input_side(l, node);
    int count = 0;
    for (int d = 0; d < l->kernel->node[in].shape.channels; d++) {
        int at = -1;
        for (int i = 0; i < fc->groups; i++)
            at = fc->group[i] == d ? s.group + i : at;
        for (int i = 0; i < fc->channels; i++)
            at = fc->channel[i] == d ? s.last + i : at;
        if (at < 0)
            continue;
        size[count] = s.size[at];
        part[count++] = at;
    }
    return count;
}

/* Index of the base node from one of the input side, and back. */
static void base_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx)
{
    int64_t size[KAS_IR_RANK];
    int part[KAS_IR_RANK];
    kas_ix digit[KAS_IR_RANK];
    const int count = plain_dims(l, node, size, part);
    for (int i = 0; i < count; i++)
        digit[i] = at[part[i]];
    const kas_ix flat = kas_ix_flatten(l->ir, count, size, digit);
    const kas_tensor *base = &l->ir->tensor[l->tensor[l->fc[node].base]];
    memcpy(idx, at, sizeof *idx * KAS_DIM_C);
    kas_ix_unflatten(l->ir, flat, base->rank - KAS_DIM_C, base->size + KAS_DIM_C, idx + KAS_DIM_C);
}

static void side_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at)
{
    int64_t size[KAS_IR_RANK];
    int part[KAS_IR_RANK];
    kas_ix digit[KAS_IR_RANK];
    const int count = plain_dims(l, node, size, part);
    const kas_tensor *base = &l->ir->tensor[l->tensor[l->fc[node].base]];
    const kas_ix flat =
        kas_ix_flatten(l->ir, base->rank - KAS_DIM_C, base->size + KAS_DIM_C, idx + KAS_DIM_C);
    memcpy(at, idx, sizeof *idx * KAS_DIM_C);
    kas_ix_unflatten(l->ir, flat, count, size, digit);
    for (int i = 0; i < count; i++)
        at[part[i]] = digit[i];
}

/* ---- library ----------------------------------------------------------------------------------
 */

static int64_t product(const int64_t *size, int from, int to)
{
    int64_t p = 1;
    for (int d = from; d < to; d++)
        p *= size[d];
    return p;
}

static kas_conv_desc conv_desc(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const side in = input_side(l, node), out = output_side(l, node);
    const bool kh = fc->axes & KAS_AXIS_H, kw = fc->axes & KAS_AXIS_W;
    kas_conv_desc d = {.n = (int)in.size[KAS_DIM_N],
                       .h = (int)in.size[KAS_DIM_H],
                       .w = (int)in.size[KAS_DIM_W],
                       .c_in = (int)product(in.size, KAS_DIM_Q, in.rank),
                       .c_out = (int)product(out.size, KAS_DIM_Q, out.rank),
                       .groups = (int)product(in.size, KAS_DIM_Q, in.last),
                       .kernel_h = kh ? (int)l->binding->value[KAS_SYM_KH] : 1,
                       .kernel_w = kw ? (int)l->binding->value[KAS_SYM_KW] : 1,
                       .stride = 1};
    d.pad_h = d.kernel_h / 2;
    d.pad_w = d.kernel_w / 2;
    d.x_pitch = kas_pitch(d.c_in);
    d.y_pitch = kas_pitch(d.c_out);
    return d;
}

static void library_weight(kas_lower *l, int node, const kas_conv_desc *d)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int64_t size[4] = {d->c_out, d->kernel_h, d->kernel_w, d->c_in / d->groups};
    const size_t map = (size_t)(size[1] * size[2] * size[3]), fan_out = fc->sizes.fan_out;
    const size_t q = fc->share ? l->target->parts_out : 1;
    kas_weight *w = &l->weight[fc->weight];
    l->weight_tensor[fc->weight] = kas_ir_tensor(l->ir, KAS_TENSOR_EXTERN, 4, size, 0);
    w->stride[0] = fc->share ? fan_out * map : fc->sizes.groups * fan_out * map;
    w->stride[1] = q * fan_out * map;
    w->stride[2] = map;
    w->stride_channel = 1;
    w->taps[0] = (uint32_t)size[1];
    w->taps[1] = (uint32_t)size[2];
    w->stride_tap[0] = (size_t)(size[2] * size[3]);
    w->stride_tap[1] = (size_t)size[3];
}

static int conv_tensor(kas_lower *l, const side *s, int pitch, kas_conv_pass pass,
                       const kas_conv_desc *d, int a, int b)
{
    const int tensor = kas_ir_tensor(l->ir, KAS_TENSOR_CONV, s->rank, s->size, pitch);
    kas_tensor *t = &l->ir->tensor[tensor];
    t->pass = pass;
    t->conv = *d;
    t->conv_in[0] = a;
    t->conv_in[1] = b;
    return tensor;
}

static void library(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    kas_lowered_fc *fc = &l->fc[node];
    const side in = input_side(l, node), out = output_side(l, node);
    const kas_conv_desc d = conv_desc(l, node);
    kas_ix at[KAS_IR_RANK], idx[KAS_IR_RANK];
    library_weight(l, node, &d);
    fc->input = kas_ir_tensor(ir, KAS_TENSOR_DEF, in.rank, in.size, d.x_pitch);
    for (int i = 0; i < in.rank; i++)
        at[i] = kas_ix_var(ir, ir->tensor[fc->input].var[i]);
    base_index(l, node, at, idx);
    ir->tensor[fc->input].def = kas_lower_read(l, fc->base, idx);
    ir->tensor[fc->input].operand = true;
    fc->output = conv_tensor(l, &out, d.y_pitch, KAS_CONV_FORWARD, &d, fc->input,
                             l->weight_tensor[fc->weight]);
}

static void library_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_lowered_fc *fc = &l->fc[node];
    const side in = input_side(l, node), out = output_side(l, node);
    const kas_conv_desc d = conv_desc(l, node);
    const int base = fc->base, weight = l->weight_tensor[fc->weight];
    kas_ix at[KAS_IR_RANK], idx[KAS_IR_RANK];
    const int dy = kas_ir_tensor(ir, KAS_TENSOR_DEF, out.rank, out.size, d.y_pitch);
    for (int i = 0; i < out.rank; i++)
        at[i] = kas_ix_var(ir, ir->tensor[dy].var[i]);
    node_index(l, node, at, idx);
    ir->tensor[dy].def = kas_lower_read_gradient(l, node, idx);
    ir->tensor[dy].operand = true;
    const kas_tensor w = ir->tensor[weight];
    const side ws = {.rank = w.rank, .size = {w.size[0], w.size[1], w.size[2], w.size[3]}};
    l->dweight[fc->weight] = conv_tensor(l, &ws, 0, KAS_CONV_BACKWARD_WEIGHTS, &d, fc->input, dy);
    const int dx = conv_tensor(l, &in, d.x_pitch, KAS_CONV_BACKWARD_DATA, &d, dy, weight);
    kas_lower_vars(l, base, idx);
    int q = ir->tensor[l->tensor[base]].var[KAS_DIM_Q];
    const bool widened = in.size[KAS_DIM_Q] != ir->tensor[l->tensor[base]].size[KAS_DIM_Q];
    if (widened)
        q = kas_ir_var(ir, in.size[KAS_DIM_Q]);
    idx[KAS_DIM_Q] = kas_ix_var(ir, q);
    side_index(l, node, idx, at);
    kas_ex e = kas_ex_read(ir, dx, at);
    if (widened)
        e = kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, q, e);
    kas_lower_contribute(l, base, e);
}

/* ---- direct ------------------------------------------------------------------------------------
 */

/* Weights [tap...][channel...][out][q][p][group...]: lanes run over instances and groups. */
static void direct_weight(kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    int64_t size[KAS_IR_RANK];
    int rank = 0;
    kas_weight *w = &l->weight[fc->weight];
    for (int i = 0; i < fc->taps; i++)
        size[rank++] = w->taps[i] = (uint32_t)l->size[in][fc->tap[i]];
    for (int i = 0; i < fc->channels; i++)
        size[rank++] = l->size[in][fc->channel[i]];
    size[rank++] = fc->sizes.fan_out;
    size[rank++] = l->target->parts_out;
    size[rank++] = l->target->parts_in;
    for (int i = 0; i < fc->groups; i++)
        size[rank++] = l->size[in][fc->group[i]];
    l->weight_tensor[fc->weight] = kas_ir_tensor(l->ir, KAS_TENSOR_EXTERN, rank, size, 0);
    const size_t lanes = (size_t)w->instances * w->groups;
    w->stride[0] = w->groups;
    w->stride[1] = 1;
    w->stride[2] = lanes;
    w->stride_channel = lanes * w->fan_out;
    w->stride_tap[1] = w->stride_channel * w->in_channels;
    w->stride_tap[0] = w->stride_tap[1] * w->taps[1];
}

/* Variables of one multiply-add: indices of the weight, the operand and the output side share them.
 */
typedef struct mac {
    kas_ix operand[KAS_IR_RANK], weight[KAS_IR_RANK];
} mac;

/* `at`: index of the output side; `digit`: of each channel dim of the operand that is contracted.
 */
static mac mac_at(const kas_lower *l, int node, const kas_ix *at, const kas_ix *digit)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const side s = output_side(l, node);
    mac m = {.operand = {0}};
    int w = 0;
    memcpy(m.operand, at, sizeof *at * KAS_DIM_Q);
    m.operand[KAS_DIM_Q] = at[s.q];
    m.operand[KAS_DIM_P] = at[s.p];
    for (int i = 0; i < fc->taps; i++)
        m.weight[w++] = m.operand[KAS_DIM_C + fc->tap[i]] = digit[fc->tap[i]];
    for (int i = 0; i < fc->channels; i++)
        m.weight[w++] = m.operand[KAS_DIM_C + fc->channel[i]] = digit[fc->channel[i]];
    m.weight[w++] = at[s.last];
    m.weight[w++] = at[s.q];
    m.weight[w++] = at[s.p];
    for (int i = 0; i < fc->groups; i++)
        m.weight[w++] = m.operand[KAS_DIM_C + fc->group[i]] = at[s.group + i];
    return m;
}

/* New variables for the contracted dims of the operand; returns how many. */
static int contracted_vars(kas_lower *l, int node, kas_ix *digit, int *var)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    int count = 0;
    for (int i = 0; i < fc->channels + fc->taps; i++) {
        const int d = i < fc->channels ? fc->channel[i] : fc->tap[i - fc->channels];
        var[count] = l->size[in][d] > 1 ? kas_ir_var(l->ir, l->size[in][d]) : -1;
        digit[d] = kas_ix_var(l->ir, var[count++]);
    }
    return count;
}

static void direct(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    kas_lowered_fc *fc = &l->fc[node];
    const side out = output_side(l, node);
    kas_ix at[KAS_IR_RANK], digit[KAS_MAX_CHANNEL_DIMS] = {0};
    int var[KAS_MAX_CHANNEL_DIMS];
    direct_weight(l, node);
    fc->output = kas_lower_tensor(l, out.size, out.rank);
    for (int i = 0; i < out.rank; i++)
        at[i] = kas_ix_var(ir, ir->tensor[fc->output].var[i]);
    const int count = contracted_vars(l, node, digit, var);
    const mac m = mac_at(l, node, at, digit);
    kas_ex e =
        kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read(l, l->kernel->node[node].in[0], m.operand),
                      kas_ex_read(ir, l->weight_tensor[fc->weight], m.weight));
    for (int i = count - 1; i >= 0; i--)
        e = kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, var[i], e);
    ir->tensor[fc->output].def = e;
}

static void direct_data_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    const side out = output_side(l, node);
    kas_ix idx[KAS_IR_RANK], at[KAS_IR_RANK], out_idx[KAS_IR_RANK];
    kas_lower_vars(l, in, idx);
    const int q = kas_lower_q_var(l, node, in);
    const int o = fc->sizes.fan_out > 1 ? kas_ir_var(ir, fc->sizes.fan_out) : -1;
    memcpy(at, idx, sizeof *idx * KAS_DIM_Q);
    at[out.q] = kas_ix_var(ir, q);
    at[out.p] = idx[KAS_DIM_P];
    for (int i = 0; i < fc->groups; i++)
        at[out.group + i] = idx[KAS_DIM_C + fc->group[i]];
    at[out.last] = kas_ix_var(ir, o);
    const mac m = mac_at(l, node, at, idx + KAS_DIM_C);
    node_index(l, node, at, out_idx);
    kas_ex e = kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, out_idx),
                             kas_ex_read(ir, l->weight_tensor[fc->weight], m.weight));
    e = kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, o, e);
    kas_lower_contribute(l, in, kas_lower_sum_q(l, node, in, q, e));
}

static void direct_weight_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_lowered_fc *fc = &l->fc[node];
    const side out = output_side(l, node);
    const int dw = kas_ir_tensor(ir, KAS_TENSOR_DEF, ir->tensor[l->weight_tensor[fc->weight]].rank,
                                 ir->tensor[l->weight_tensor[fc->weight]].size, 0);
    const kas_tensor t = ir->tensor[dw];
    kas_ix at[KAS_IR_RANK], digit[KAS_MAX_CHANNEL_DIMS] = {0}, out_idx[KAS_IR_RANK];
    int var[KAS_DIM_Q], d = 0;
    for (int i = 0; i < KAS_DIM_Q; i++) {
        var[i] = out.size[i] > 1 ? kas_ir_var(ir, out.size[i]) : -1;
        at[i] = kas_ix_var(ir, var[i]);
    }
    for (int i = 0; i < fc->taps; i++)
        digit[fc->tap[i]] = kas_ix_var(ir, t.var[d++]);
    for (int i = 0; i < fc->channels; i++)
        digit[fc->channel[i]] = kas_ix_var(ir, t.var[d++]);
    at[out.last] = kas_ix_var(ir, t.var[d++]);
    at[out.q] = kas_ix_var(ir, t.var[d++]);
    at[out.p] = kas_ix_var(ir, t.var[d++]);
    for (int i = 0; i < fc->groups; i++)
        at[out.group + i] = kas_ix_var(ir, t.var[d++]);
    const mac m = mac_at(l, node, at, digit);
    node_index(l, node, at, out_idx);
    const kas_ex e = kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, out_idx),
                                   kas_lower_read(l, l->kernel->node[node].in[0], m.operand));
    const kas_ex sum = kas_lower_sum(l, t.rank, t.var, KAS_DIM_Q, var, e);
    /* The partial sums must come before their total in the list of tensors. */
    const int total = kas_ir_tensor(ir, KAS_TENSOR_DEF, t.rank, t.size, 0);
    memcpy(ir->tensor[total].var, t.var, sizeof t.var);
    ir->tensor[total].def = sum;
    l->dweight[fc->weight] = total;
}

/* ---- both ---------------------------------------------------------------------------------------
 */

void kas_lower_fc(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    kas_lowered_fc *fc = &l->fc[node];
    const kas_status status = kas_fc_plan(l, node);
    if (status != KAS_OK) {
        kas_ir_fail(ir, status);
        return;
    }
    if (fc->library)
        library(l, node);
    else
        direct(l, node);
    kas_tensor *w = &ir->tensor[l->weight_tensor[fc->weight]];
    w->role = KAS_ROLE_WEIGHT;
    w->role_index = fc->weight;
    const int tensor = kas_lower_result(l, node, l->target->parts_out);
    kas_ix idx[KAS_IR_RANK], at[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    output_index(l, node, idx, at);
    ir->tensor[tensor].def = kas_ex_read(ir, fc->output, at);
}

void kas_lower_fc_gradient(kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    if (fc->library) {
        library_gradient(l, node);
    } else {
        direct_data_gradient(l, node);
        direct_weight_gradient(l, node);
    }
    kas_tensor *dw = &l->ir->tensor[l->dweight[fc->weight]];
    dw->role = KAS_ROLE_DWEIGHT;
    dw->role_index = fc->weight;
}
