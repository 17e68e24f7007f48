/* The passes of a library's convolution as loops of our own, on the same tensors and weights.
 *
 * Windows are read from a copy of the operand with zeros around the image, so that no load has a
 * guard. The lanes lie along the channels of a group that the weights or the gradient have side by
 * side: outputs in the forward pass, whose weights are copied with outputs last, and inputs in both
 * gradients, which read and write the library's order of weights. Then every term of a sum is a run
 * of lanes times one number. */
#include <string.h>

#include "jit/lower/lower_fc.h"

/* What a pass reads pixels of: a copy with zeros around, [n][h][w][group][channel], or the tensor
 * itself, with `pad` zeros around. */
typedef struct source {
    int tensor;
    bool padded;
    int64_t channels; /* of a group */
    int pad[2];
} source;

/* A pixel, a group and a channel of it. */
typedef struct place {
    kas_ix pixel[KAS_DIM_Q], group, channel;
} place;

static int64_t result_of(const kas_conv_desc *d)
{
    return d->c_out / d->groups;
}

static kas_ex read_tensor(kas_lower *l, int tensor, int64_t channels, const place *at)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor t = ir->tensor[tensor];
    kas_ix idx[KAS_IR_RANK];
    memcpy(idx, at->pixel, sizeof at->pixel);
    const kas_ix flat = kas_ix_add(ir, kas_ix_scale(ir, at->group, channels), at->channel);
    kas_ix_unflatten(ir, flat, t.rank - KAS_DIM_Q, t.size + KAS_DIM_Q, idx + KAS_DIM_Q);
    return kas_ex_read(ir, tensor, idx);
}

/* Reads a tensor whose pixels lie `pad` pixels behind those of the place, as the first tap of a window
 * with so many pixels on each side does; 0 where there are none. */
static kas_ex read_inside(kas_lower *l, const kas_conv_desc *d, const source *s, place at)
{
    const kas_window w = {
        .taps = {2 * s->pad[0] + 1, 2 * s->pad[1] + 1}, .size = {d->h, d->w}, .step = 1};
    const kas_ix first[2] = {0, 0};
    kas_ix from[2];
    kas_lower_move(l->ir, &w, first, 1, at.pixel, from);
    return kas_lower_inside(l->ir, &w, from, read_tensor(l, s->tensor, s->channels, &at));
}

static kas_ex read_source(kas_lower *l, const kas_conv_desc *d, const source *s, const place *at)
{
    const kas_ix idx[] = {at->pixel[KAS_DIM_N], at->pixel[KAS_DIM_H], at->pixel[KAS_DIM_W],
                          at->group, at->channel};
    return s->padded ? kas_ex_read(l->ir, s->tensor, idx) : read_inside(l, d, s, *at);
}

/* Makes a tensor of pixels [n][h][w][group][channel], and the place of an element over its
 * variables. It has memory of its own where `pitch` is 0. */
static int make_pixels(kas_lower *l, const int64_t size[5], int pitch, place *at)
{
    const int tensor = kas_ir_add_tensor(l->ir, KAS_TENSOR_DEF, 5, size, pitch);
    const int *var = l->ir->tensor[tensor].var;
    for (int i = 0; i < KAS_DIM_Q; i++)
        at->pixel[i] = kas_ix_var(l->ir, var[i]);
    at->group = kas_ix_var(l->ir, var[3]);
    at->channel = kas_ix_var(l->ir, var[4]);
    return tensor;
}

/* Returns what a pass reads of a tensor, with so many zeros around the image on each side. */
static source source_of(kas_lower *l, const kas_conv_desc *d, int tensor, int64_t channels,
                        const int pad[2])
{
    kas_ir *ir = l->ir;
    const int64_t size[5] = {d->n, d->h + 2 * pad[0], d->w + 2 * pad[1], d->groups, channels};
    const source own = {tensor, false, channels, {pad[0], pad[1]}};
    place at;
    if (pad[0] + pad[1] == 0) {
        ir->tensor[tensor].operand = true;
        return own;
    }
    /* Of depthwise convolutions lanes lie along the groups, terms are products of two runs, and sums are
     * short: windows are read where they are, and weights with their taps first. */
    if (kas_conv_is_depthwise(d))
        return own;
    const source s = {make_pixels(l, size, 0, &at), true, channels, {0}};
    const kas_ex e = read_inside(l, d, &own, at);
    ir->tensor[s.tensor].def = e;
    return s;
}

/* Moves a place of a result to the pixel that a tap reads. */
static void move(kas_lower *l, const kas_conv_desc *d, const kas_ix tap[2], place *at)
{
    for (int i = 0; i < 2; i++)
        at->pixel[KAS_DIM_H + i] = kas_ix_add(l->ir, at->pixel[KAS_DIM_H + i],
                                              kas_ix_scale(l->ir, tap[i], kas_conv_dilation(d)));
}

/* Makes variables to sum over; those of size 1 are none. */
static void make_vars(kas_lower *l, int count, const int64_t *size, int *var, kas_ix *ix)
{
    for (int i = 0; i < count; i++) {
        var[i] = kas_ir_loop_var(l->ir, size[i]);
        ix[i] = kas_ix_var(l->ir, var[i]);
    }
}

static kas_ix output_of(kas_lower *l, const kas_conv_desc *d, kas_ix group, kas_ix out)
{
    return kas_ix_add(l->ir, kas_ix_scale(l->ir, group, result_of(d)), out);
}

/* Reads weights, whose elements lie as [out][tap][tap][in]. */
static kas_ex read_weights(kas_lower *l, const kas_conv_desc *d, int filter, const kas_ix at[4])
{
    const kas_ir_tensor w = l->ir->tensor[filter];
    const int64_t size[4] = {d->c_out, d->kernel_h, d->kernel_w, d->c_in / d->groups};
    kas_ix idx[KAS_IR_RANK];
    kas_ix_unflatten(l->ir, kas_ix_flatten(l->ir, 4, size, at), w.rank, w.size, idx);
    return kas_ex_read(l->ir, filter, idx);
}

/* Returns the weights with outputs last: [group][channel][tap][tap][out]. */
static int outputs_last(kas_lower *l, const kas_conv_desc *d, int filter)
{
    kas_ir *ir = l->ir;
    const int64_t size[5] = {d->groups, d->c_in / d->groups, d->kernel_h, d->kernel_w,
                             result_of(d)};
    const int last = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, 5, size, 0);
    kas_ix ix[5];
    kas_ir_own_index(ir, last, ix);
    const kas_ix at[4] = {output_of(l, d, ix[0], ix[4]), ix[2], ix[3], ix[1]};
    const kas_ex e = read_weights(l, d, filter, at);
    ir->tensor[last].def = e;
    return last;
}

/* Returns the weights of a depthwise convolution with taps first: [tap][tap][group]. */
static int taps_first(kas_lower *l, const kas_conv_desc *d, int filter)
{
    const int64_t size[3] = {d->kernel_h, d->kernel_w, d->groups};
    const int first = kas_ir_add_tensor(l->ir, KAS_TENSOR_DEF, 3, size, 0);
    const int *var = l->ir->tensor[first].var;
    const kas_ix at[4] = {kas_ix_var(l->ir, var[2]), kas_ix_var(l->ir, var[0]),
                          kas_ix_var(l->ir, var[1]), 0};
    const kas_ex e = read_weights(l, d, filter, at);
    l->ir->tensor[first].def = e;
    return first;
}

/* ---- the passes ------------------------------------------------------------------------------ */

/* Returns the tensor of pixels of y or, where `data`, of the gradient of x. */
static int sum_of_windows(kas_lower *l, const kas_conv_desc *d, bool data, int from, int filter)
{
    kas_ir *ir = l->ir;
    const int64_t in = d->c_in / d->groups, out = result_of(d);
    const int reach[2] = {(d->kernel_h - 1) * kas_conv_dilation(d),
                          (d->kernel_w - 1) * kas_conv_dilation(d)};
    const int pad[2] = {data ? reach[0] - d->pad_h : d->pad_h,
                        data ? reach[1] - d->pad_w : d->pad_w};
    const source s = source_of(l, d, from, data ? out : in, pad);
    const int64_t size[5] = {d->n, d->h, d->w, d->groups, data ? in : out};
    const int64_t terms[3] = {data ? out : in, d->kernel_h, d->kernel_w};
    place at;
    int var[3];
    kas_ix ix[3];
    const int result = make_pixels(l, size, kas_lower_pitch(l, d->groups * (data ? in : out)), &at);
    const kas_ix lane = at.channel;
    make_vars(l, 3, terms, var, ix);
    move(l, d, ix + 1, &at);
    at.channel = ix[0];
    const kas_ix back[2] = {
        kas_ix_add(ir, kas_ix_const(ir, d->kernel_h - 1), kas_ix_scale(ir, ix[1], -1)),
        kas_ix_add(ir, kas_ix_const(ir, d->kernel_w - 1), kas_ix_scale(ir, ix[2], -1))};
    const kas_ix forward[5] = {at.group, ix[0], ix[1], ix[2], lane};
    const kas_ix backward[4] = {output_of(l, d, at.group, ix[0]), back[0], back[1], lane};
    const kas_ix taps[3] = {data ? back[0] : ix[1], data ? back[1] : ix[2], at.group};
    const kas_ex weight = kas_conv_is_depthwise(d) ? kas_ex_read(ir, taps_first(l, d, filter), taps)
                          : data                   ? read_weights(l, d, filter, backward)
                                 : kas_ex_read(ir, outputs_last(l, d, filter), forward);
    const kas_ex e = kas_ex_binary(ir, KAS_FN_MUL, read_source(l, d, &s, &at), weight);
    const kas_ex total = kas_ex_reduce_all(ir, KAS_FN_REDUCE_SUM, 3, var, e);
    ir->tensor[result].def = total;
    ir->tensor[result].alone = ir->cpu && !kas_conv_is_depthwise(d);
    return result;
}

/* Sums over all pixels for one weight, [out][tap][tap][in], of a tensor with these variables. */
static kas_ex sum_of_pixels(kas_lower *l, const kas_conv_desc *d, int x, int dy, const kas_ix at[4],
                            int rank, const int *own)
{
    kas_ir *ir = l->ir;
    const int64_t in = d->c_in / d->groups, out = result_of(d), terms[3] = {d->n, d->h, d->w};
    const int pad[2] = {d->pad_h, d->pad_w};
    const source s = source_of(l, d, x, in, pad), t = {dy, false, out, {0}};
    place read, of;
    int var[3];
    make_vars(l, 3, terms, var, of.pixel);
    of.group = kas_ix_div(ir, at[0], out);
    of.channel = kas_ix_mod(ir, at[0], out);
    read = of;
    read.channel = at[3];
    move(l, d, at + 1, &read);
    ir->tensor[dy].operand = true;
    const kas_ex e =
        kas_ex_binary(ir, KAS_FN_MUL, read_source(l, d, &t, &of), read_source(l, d, &s, &read));
    return ir->cpu && !kas_conv_is_depthwise(d)
               ? kas_ex_reduce_all(ir, KAS_FN_REDUCE_SUM, 3, var, e)
               : kas_lower_sum(l, rank, own, 3, var, e);
}

/* Returns the gradient of the weights, with the dims of `side`, in the library's order. */
static int weight_gradient(kas_lower *l, const kas_fc_side *side, const kas_conv_desc *d, int x,
                           int dy)
{
    kas_ir *ir = l->ir;
    const int64_t size[4] = {d->c_out, d->kernel_h, d->kernel_w, d->c_in / d->groups},
                  first_size[3] = {d->kernel_h, d->kernel_w, d->groups};
    const int dw = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, side->rank, side->size, 0);
    kas_ix own[KAS_IR_RANK], at[4];
    kas_ir_own_index(ir, dw, own);
    kas_ix_unflatten(ir, kas_ix_flatten(ir, side->rank, side->size, own), 4, size, at);
    kas_ex e;
    if (kas_conv_is_depthwise(d)) {
        const int first = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, 3, first_size, 0);
        const int *var = ir->tensor[first].var;
        const kas_ix of[4] = {kas_ix_var(ir, var[2]), kas_ix_var(ir, var[0]),
                              kas_ix_var(ir, var[1]), 0},
                     taps[3] = {at[1], at[2], at[0]};
        const int vars[3] = {var[0], var[1], var[2]}; /* the list of tensors may move */
        const kas_ex total = sum_of_pixels(l, d, x, dy, of, 3, vars);
        ir->tensor[first].def = total;
        e = kas_ex_read(ir, first, taps);
    } else {
        int vars[KAS_IR_RANK];
        memcpy(vars, ir->tensor[dw].var, sizeof vars);
        e = sum_of_pixels(l, d, x, dy, at, side->rank, vars);
    }
    ir->tensor[dw].def = e;
    return dw;
}

bool kas_fc_loops_fit(const kas_conv_desc *d)
{
    return d->stride == 1 && kas_conv_out_h(d) == d->h && kas_conv_out_w(d) == d->w;
}

int kas_fc_loops(kas_lower *l, const kas_fc_side *side, int pitch, kas_conv_pass pass,
                 const kas_conv_desc *d, int a, int b)
{
    kas_ir *ir = l->ir;
    const bool data = pass == KAS_CONV_BACKWARD_DATA;
    if (pass == KAS_CONV_BACKWARD_WEIGHTS)
        return weight_gradient(l, side, d, a, b);
    const int pixels = sum_of_windows(l, d, data, a, b);
    const int result = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, side->rank, side->size, pitch);
    const int64_t channels = (data ? d->c_in : d->c_out) / d->groups;
    kas_ix idx[KAS_IR_RANK];
    kas_ir_own_index(ir, result, idx);
    const kas_ix flat =
        kas_ix_flatten(ir, side->rank - KAS_DIM_Q, side->size + KAS_DIM_Q, idx + KAS_DIM_Q);
    const kas_ix at[5] = {idx[0], idx[1], idx[2], kas_ix_div(ir, flat, channels),
                          kas_ix_mod(ir, flat, channels)};
    const kas_ex e = kas_ex_read(ir, pixels, at);
    ir->tensor[result].def = e;
    return result;
}
