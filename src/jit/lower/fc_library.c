/* Linear operators as library convolutions. */
#include "jit/lower/lower_fc.h"

static int64_t product(const int64_t *size, int from, int to)
{
    int64_t p = 1;
    for (int d = from; d < to; d++)
        p *= size[d];
    return p;
}

/* Returns the tap dim along an axis; -1 without one. */
static int tap_dim(const kas_lower *l, int node, int axis)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const bool second = fc->taps == 2 && (axis == KAS_AXIS_W) != fc->w_first;
    return fc->axes & axis ? fc->tap[second] : -1;
}

/* Returns the convolution's kernel size along an axis: the size of the tap dim that it takes
 * over. */
static int taps_along(const kas_lower *l, int node, int axis)
{
    const int tap = tap_dim(l, node, axis);
    return tap < 0 ? 1 : (int)l->size[l->fc[node].in][tap];
}

static kas_conv_desc conv_desc(const kas_lower *l, int node)
{
    const kas_fc_side in = kas_fc_input_side(l, node), out = kas_fc_output_side(l, node);
    kas_conv_desc d = {.n = (int)in.size[KAS_DIM_N],
                       .h = (int)in.size[KAS_DIM_H],
                       .w = (int)in.size[KAS_DIM_W],
                       .c_in = (int)product(in.size, KAS_DIM_Q, in.rank),
                       .c_out = (int)product(out.size, KAS_DIM_Q, out.rank),
                       .groups = (int)product(in.size, KAS_DIM_Q, in.last),
                       .kernel_h = taps_along(l, node, KAS_AXIS_H),
                       .kernel_w = taps_along(l, node, KAS_AXIS_W),
                       .stride = 1,
                       .dilation = l->fc[node].dilation};
    d.pad_h = kas_conv_dilation(&d) * (d.kernel_h / 2);
    d.pad_w = kas_conv_dilation(&d) * (d.kernel_w / 2);
    d.dtype = l->ir->dtype;
    d.tf32 = l->tf32;
    d.x_pitch = kas_lower_pitch(l, d.c_in);
    d.y_pitch = kas_lower_pitch(l, d.c_out);
    return d;
}

static void library_weight(kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_conv_desc d = conv_desc(l, node);
    const int64_t size[4] = {d.c_out, d.kernel_h, d.kernel_w, d.c_in / d.groups};
    const size_t map = (size_t)(size[1] * size[2] * size[3]), fan_out = fc->sizes.fan_out;
    const size_t q = fc->share ? l->target->parts_out : 1;
    kas_weight *w = &l->weight[fc->weight];
    l->weight_tensor[fc->weight] = kas_ir_add_tensor(l->ir, KAS_TENSOR_EXTERN, 4, size, 0);
    w->stride[0] = fc->share ? fan_out * map : fc->sizes.groups * fan_out * map;
    w->stride[1] = q * fan_out * map;
    w->stride[2] = map;
    /* Memory is KRSC whatever the order of the unfolds: [kh][kw], then the input side's channels. */
    size_t stride[KAS_FC_DIMS], next = 1;
    for (int i = fc->channels; i-- > 0; next *= (size_t)l->size[fc->in][fc->channel[i]])
        stride[fc->channel[i]] = next;
    const int kh = tap_dim(l, node, KAS_AXIS_H), kw = tap_dim(l, node, KAS_AXIS_W);
    if (kw >= 0)
        stride[kw] = (size_t)size[3];
    if (kh >= 0)
        stride[kh] = (size_t)(size[2] * size[3]);
    kas_fc_put_digits(l, node, stride);
}

/* Returns the weights times the gain: in memory of their own where a library reads them, and else where
 * reading them costs much. Their gradient is multiplied where the pieces of the batch are added up
 * (program.c). */
static int times_gain(kas_lower *l, int weights)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor from = ir->tensor[weights];
    /* [out][tap][tap][in] lies like pixels of `in` channels */
    const int scaled = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, 4, from.size, (int)from.size[3]);
    kas_ix idx[KAS_IR_RANK];
    kas_ir_own_index(ir, scaled, idx);
    const kas_ex value = kas_lower_times_gain(l, kas_ex_read(ir, weights, idx));
    ir->tensor[scaled].def = value;
    return scaled;
}

/* ---- groups that are merged ------------------------------------------------------------------ */

/* Returns the weights of all groups as those of one: 0 from an input of one group to an output of
 * another. So a value that is not finite reaches the results of all groups. */
static int merged_filter(kas_lower *l, int node, int filter)
{
    kas_ir *ir = l->ir;
    const kas_conv_desc d = conv_desc(l, node);
    const int64_t size[4] = {d.c_out, d.kernel_h, d.kernel_w, d.c_in};
    const int merged = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, 4, size, 0);
    kas_ix at[4];
    kas_ir_own_index(ir, merged, at);
    const int64_t in = d.c_in / d.groups, out = d.c_out / d.groups;
    const kas_ix apart =
        kas_ix_add(ir, kas_ix_div(ir, at[0], out), kas_ix_scale(ir, kas_ix_div(ir, at[3], in), -1));
    at[3] = kas_ix_mod(ir, at[3], in);
    const kas_ex value = kas_ex_guard(ir, apart, 0, 0, kas_ex_read(ir, filter, at));
    ir->tensor[merged].def = value;
    ir->tensor[merged].dtype = ir->dtype;
    return merged;
}

/* Returns the gradient of the weights from that of the merged ones. */
static int own_gradient(kas_lower *l, int node, int merged)
{
    kas_ir *ir = l->ir;
    const kas_conv_desc d = conv_desc(l, node);
    const int64_t in = d.c_in / d.groups, out = d.c_out / d.groups;
    const int64_t size[4] = {d.c_out, d.kernel_h, d.kernel_w, in};
    const int own = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, 4, size, 0);
    kas_ix at[4];
    kas_ir_own_index(ir, own, at);
    at[3] = kas_ix_add(ir, at[3], kas_ix_scale(ir, kas_ix_div(ir, at[0], out), in));
    const kas_ex value = kas_ex_read(ir, merged, at);
    ir->tensor[own].def = value;
    return own;
}

/* ---- windows that are shifted ---------------------------------------------------------------- */

/* Returns the map that computes a result for each tap, which lies innermost: KRSC weights are its
 * weights as they are. Otherwise returns the convolution itself, of one group where they are
 * merged. */
static kas_conv_desc map_desc(const kas_lower *l, int node)
{
    kas_conv_desc d = conv_desc(l, node);
    if (l->fc[node].windows == KAS_FC_MERGED)
        d.groups = 1;
    if (l->fc[node].windows != KAS_FC_SHIFTED)
        return d;
    d.c_out *= d.kernel_h * d.kernel_w;
    d.kernel_h = d.kernel_w = 1;
    d.pad_h = d.pad_w = d.dilation = 0;
    d.y_pitch = kas_lower_pitch(l, d.c_out);
    return d;
}

/* Returns the output side of the map. */
static kas_fc_side map_side(const kas_lower *l, int node)
{
    kas_fc_side s = kas_fc_output_side(l, node);
    if (l->fc[node].windows == KAS_FC_SHIFTED) {
        s.size[s.rank++] = taps_along(l, node, KAS_AXIS_H);
        s.size[s.rank++] = taps_along(l, node, KAS_AXIS_W);
    }
    return s;
}

static kas_window window_of(const kas_lower *l, int node)
{
    const kas_conv_desc d = conv_desc(l, node);
    return (kas_window){
        .taps = {d.kernel_h, d.kernel_w}, .size = {d.h, d.w}, .step = kas_conv_dilation(&d)};
}

/* Adds up what the map computed for the pixels of each window. */
static int sum_of_shifted(kas_lower *l, int node, int map)
{
    kas_ir *ir = l->ir;
    const kas_fc_side out = kas_fc_output_side(l, node);
    const kas_window w = window_of(l, node);
    const int sum = kas_lower_tensor(l, out.size, out.rank);
    kas_ix idx[KAS_IR_RANK], from[2], *tap = idx + out.rank;
    int var[2];
    kas_ir_own_index(ir, sum, idx);
    kas_lower_tap_vars(ir, &w, var, tap);
    kas_lower_move(ir, &w, tap, 1, idx, from);
    const kas_ex e = kas_lower_inside(ir, &w, from, kas_ex_read(ir, map, idx));
    ir->tensor[sum].def = kas_ex_reduce_all(ir, KAS_FN_REDUCE_SUM, 2, var, e);
    return sum;
}

/* ---- value and gradients --------------------------------------------------------------------- */

/* Returns the result of a pass of the convolution that reads tensors a and b: the library's, or that
 * of loops of our own. */
static int conv_tensor(kas_lower *l, int node, const kas_fc_side *s, int pitch, kas_conv_pass pass,
                       const kas_conv_desc *d, int a, int b)
{
    bool loops = false;
    if (kas_fc_loops_fit(d)) {
        const kas_status status = l->choose(l->chooser, node, pass, d, &loops);
        if (status != KAS_OK)
            kas_ir_fail(l->ir, status);
    }
    if (loops)
        return kas_fc_loops(l, s, pitch, pass, d, a, b);
    const int reads[2] = {a, b};
    for (int i = 0; i < 2; i++)
        l->ir->tensor[reads[i]].operand |= l->ir->tensor[reads[i]].kind == KAS_TENSOR_DEF;
    const int tensor = kas_ir_add_tensor(l->ir, KAS_TENSOR_CONV, s->rank, s->size, pitch);
    kas_ir_tensor *t = &l->ir->tensor[tensor];
    t->pass = pass;
    t->conv = *d;
    t->conv_in[0] = a;
    t->conv_in[1] = b;
    return tensor;
}

void kas_fc_library(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side in = kas_fc_input_side(l, node), out = map_side(l, node);
    const kas_conv_desc d = map_desc(l, node);
    kas_ix at[KAS_IR_RANK], idx[KAS_IR_RANK];
    library_weight(l, node);
    fc->input = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, in.rank, in.size, d.x_pitch);
    kas_ir_own_index(ir, fc->input, at);
    kas_fc_base_index(l, node, at, idx);
    ir->tensor[fc->input].def = kas_lower_read(l, fc->base, idx);
    fc->filter = l->weight_tensor[fc->weight];
    if (l->gained && kas_lower_takes_gain(l, node)) {
        l->scaled_weights |= (uint64_t)1 << fc->weight;
        l->scaled = fc->filter = times_gain(l, fc->filter);
    }
    if (fc->windows == KAS_FC_MERGED)
        fc->filter = merged_filter(l, node, fc->filter);
    fc->output = conv_tensor(l, node, &out, d.y_pitch, KAS_CONV_FORWARD, &d, fc->input, fc->filter);
    if (fc->windows == KAS_FC_SHIFTED)
        fc->output = sum_of_shifted(l, node, fc->output);
}

/* Makes the gradient of the convolution's or the map's result a tensor of its own. */
static int output_gradient(kas_lower *l, int node, const kas_conv_desc *d)
{
    kas_ir *ir = l->ir;
    const bool shifted = l->fc[node].windows == KAS_FC_SHIFTED;
    const kas_window w = window_of(l, node);
    const kas_fc_side out = map_side(l, node);
    const int dy = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, out.rank, out.size, d->y_pitch);
    kas_ix at[KAS_IR_RANK], idx[KAS_IR_RANK], from[2];
    kas_ir_own_index(ir, dy, at);
    if (shifted)
        kas_lower_move(ir, &w, at + out.rank - 2, -1, at, from);
    kas_fc_node_index(l, node, at, idx);
    kas_ex e = kas_lower_read_gradient(l, node, idx);
    if (shifted)
        e = kas_lower_inside(ir, &w, from, e);
    ir->tensor[dy].def = e;
    return dy;
}

void kas_fc_library_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side in = kas_fc_input_side(l, node);
    const kas_conv_desc d = map_desc(l, node);
    const int base = fc->base, dy = output_gradient(l, node, &d);
    kas_ix at[KAS_IR_RANK], idx[KAS_IR_RANK];
    const kas_ir_tensor w = ir->tensor[fc->filter];
    const kas_fc_side ws = {.rank = w.rank, .size = {w.size[0], w.size[1], w.size[2], w.size[3]}};
    int dw = conv_tensor(l, node, &ws, 0, KAS_CONV_BACKWARD_WEIGHTS, &d, fc->input, dy);
    if (fc->windows == KAS_FC_MERGED)
        dw = own_gradient(l, node, dw);
    l->dweight[fc->weight] = dw;
    const int dx = conv_tensor(l, node, &in, d.x_pitch, KAS_CONV_BACKWARD_DATA, &d, dy, fc->filter);
    kas_lower_vars(l, base, idx);
    int q = ir->tensor[l->tensor[base]].var[KAS_DIM_Q];
    const bool widened = in.size[KAS_DIM_Q] != kas_lower_q(l, base);
    if (widened)
        q = kas_ir_var(ir, in.size[KAS_DIM_Q]);
    idx[KAS_DIM_Q] = kas_ix_var(ir, q);
    kas_fc_side_index(l, node, idx, at);
    kas_ex e = kas_ex_read(ir, dx, at);
    if (widened)
        e = kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, q, e);
    kas_lower_contribute(l, base, e);
}
