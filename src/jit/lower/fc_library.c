/* Linear operators as library convolutions. */
#include "jit/lower/lower_fc.h"

static int64_t product(const int64_t *size, int from, int to)
{
    int64_t p = 1;
    for (int d = from; d < to; d++)
        p *= size[d];
    return p;
}

/* Returns the convolution's kernel size along an axis: the size of the tap dim that it takes
 * over. */
static int taps_along(const kas_lower *l, int node, int axis)
{
    const kas_lowered_fc *fc = &l->fc[node];
    if (!(fc->axes & axis))
        return 1;
    const bool second = fc->taps == 2 && (axis == KAS_AXIS_W) != fc->w_first;
    return (int)l->size[fc->in][fc->tap[second]];
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

static void library_weight(kas_lower *l, int node, const kas_conv_desc *d)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int64_t size[4] = {d->c_out, d->kernel_h, d->kernel_w, d->c_in / d->groups};
    const size_t map = (size_t)(size[1] * size[2] * size[3]), fan_out = fc->sizes.fan_out;
    const size_t q = fc->share ? l->target->parts_out : 1;
    kas_weight *w = &l->weight[fc->weight];
    l->weight_tensor[fc->weight] = kas_ir_add_tensor(l->ir, KAS_TENSOR_EXTERN, 4, size, 0);
    w->stride[0] = fc->share ? fan_out * map : fc->sizes.groups * fan_out * map;
    w->stride[1] = q * fan_out * map;
    w->stride[2] = map;
    w->stride_channel = 1;
    /* Memory is KRSC whatever the order of the unfolds: [kh][kw]. */
    const int kh = fc->w_first ? 1 : 0, kw = 1 - kh;
    w->taps[kh] = (uint32_t)size[1];
    w->taps[kw] = (uint32_t)size[2];
    w->stride_tap[kh] = (size_t)(size[2] * size[3]);
    w->stride_tap[kw] = (size_t)size[3];
}

/* Returns a tensor times the gain, in memory of its own. */
static int times_gain(kas_lower *l, int tensor, kas_dtype dtype)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor from = ir->tensor[tensor];
    const int scaled = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, from.rank, from.size, 0);
    kas_ix idx[KAS_IR_RANK];
    for (int d = 0; d < from.rank; d++)
        idx[d] = kas_ix_var(ir, ir->tensor[scaled].var[d]);
    const kas_ex value = kas_lower_times_gain(l, kas_ex_read(ir, tensor, idx));
    ir->tensor[scaled].def = value;
    ir->tensor[scaled].dtype = dtype;
    return scaled;
}

static int conv_tensor(kas_lower *l, const kas_fc_side *s, int pitch, kas_conv_pass pass,
                       const kas_conv_desc *d, int a, int b)
{
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
    const kas_fc_side in = kas_fc_input_side(l, node), out = kas_fc_output_side(l, node);
    const kas_conv_desc d = conv_desc(l, node);
    kas_ix at[KAS_IR_RANK], idx[KAS_IR_RANK];
    library_weight(l, node, &d);
    fc->input = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, in.rank, in.size, d.x_pitch);
    for (int i = 0; i < in.rank; i++)
        at[i] = kas_ix_var(ir, ir->tensor[fc->input].var[i]);
    kas_fc_base_index(l, node, at, idx);
    ir->tensor[fc->input].def = kas_lower_read(l, fc->base, idx);
    ir->tensor[fc->input].operand = true;
    fc->scaled = l->gained && node == kas_lower_last_map(l);
    fc->filter = fc->scaled ? times_gain(l, l->weight_tensor[fc->weight], ir->dtype)
                            : l->weight_tensor[fc->weight];
    fc->output = conv_tensor(l, &out, d.y_pitch, KAS_CONV_FORWARD, &d, fc->input, fc->filter);
}

void kas_fc_library_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side in = kas_fc_input_side(l, node), out = kas_fc_output_side(l, node);
    const kas_conv_desc d = conv_desc(l, node);
    const int base = fc->base;
    kas_ix at[KAS_IR_RANK], idx[KAS_IR_RANK];
    const int dy = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, out.rank, out.size, d.y_pitch);
    for (int i = 0; i < out.rank; i++)
        at[i] = kas_ix_var(ir, ir->tensor[dy].var[i]);
    kas_fc_node_index(l, node, at, idx);
    ir->tensor[dy].def = kas_lower_read_gradient(l, node, idx);
    ir->tensor[dy].operand = true;
    const kas_ir_tensor w = ir->tensor[fc->filter];
    const kas_fc_side ws = {.rank = w.rank, .size = {w.size[0], w.size[1], w.size[2], w.size[3]}};
    const int dw = conv_tensor(l, &ws, 0, KAS_CONV_BACKWARD_WEIGHTS, &d, fc->input, dy);
    l->dweight[fc->weight] = fc->scaled ? times_gain(l, dw, KAS_F32) : dw;
    const int dx = conv_tensor(l, &in, d.x_pitch, KAS_CONV_BACKWARD_DATA, &d, dy, fc->filter);
    kas_lower_vars(l, base, idx);
    int q = ir->tensor[l->tensor[base]].var[KAS_DIM_Q];
    const bool widened = in.size[KAS_DIM_Q] != ir->tensor[l->tensor[base]].size[KAS_DIM_Q];
    if (widened)
        q = kas_ir_var(ir, in.size[KAS_DIM_Q]);
    idx[KAS_DIM_Q] = kas_ix_var(ir, q);
    kas_fc_side_index(l, node, idx, at);
    kas_ex e = kas_ex_read(ir, dx, at);
    if (widened)
        e = kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, q, e);
    kas_lower_contribute(l, base, e);
}
