/* group, group_all, shift, unfold, shuffle: index maps, and their inverses. */
#include <string.h>

#include "jit/lower/lower.h"

/* Returns the sizes of the node's tensor: spatial dims and channels from the micro-DAG, q
 * from the operand. */
static void result_sizes(const kas_lower *l, int node, int64_t q, int64_t *size)
{
    size[KAS_DIM_N] = l->batch;
    size[KAS_DIM_H] = size[KAS_DIM_W] = 1;
    size[KAS_DIM_Q] = q;
    size[KAS_DIM_P] = l->target->parts_in;
    for (int i = 0; i < l->rank[node]; i++)
        size[kas_lower_dim(l, node, i)] = l->size[node][i];
}

/* ---- order in memory ------------------------------------------------------------------------- */

/* Returns the bits from `from` up to `end`. */
static uint32_t bits_between(int from, int end)
{
    return (UINT32_C(1) << end) - (UINT32_C(1) << from);
}

void kas_lower_lay_windows(kas_lower *l, int operand, int windows)
{
    const kas_ir_tensor *from = &l->ir->tensor[operand];
    if (l->linear_policy == KAS_LINEAR_CPU)
        kas_ir_put_ahead(l->ir, windows,
                         from->ahead | bits_between(from->rank, l->ir->tensor[windows].rank));
}

/* Returns bits without those from `from` up to `end`, which close up. */
static uint32_t without(uint32_t bits, int from, int end)
{
    const uint32_t before = bits_between(0, from);
    return (bits & before) | (bits >> (end - from) & ~before);
}

/* Makes the tensor of a node lie like its operand: what was ahead there is ahead here. */
static void lay_result(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const kas_type type = kas_type_of(n->op);
    const int operand = l->tensor[n->in[type == KAS_TYPE_BROADCAST]], d = KAS_DIM_C + n->dim;
    const kas_ir_tensor *from = &l->ir->tensor[operand];
    const uint32_t up_to = bits_between(0, d + 1);
    uint32_t ahead = from->ahead;
    if (type == KAS_TYPE_UNFOLD) {
        kas_lower_lay_windows(l, operand, l->tensor[node]);
        return;
    }
    if (type == KAS_TYPE_GROUP)
        ahead = (ahead & up_to) | (ahead << 1 & ~up_to);
    else if (type == KAS_TYPE_FOLD && d < from->rank) /* no channels are lost along H and W */
        ahead = without(ahead, d, d + 1);
    else if (type == KAS_TYPE_MIX)
        ahead = without(ahead, d + 1, KAS_DIM_C + n->dim_end) & ~(UINT32_C(1) << d);
    else if (type == KAS_TYPE_FC || type == KAS_TYPE_CONV || type == KAS_TYPE_BMM)
        ahead = 0;
    kas_ir_put_ahead(l->ir, l->tensor[node], ahead);
}

/* ---- results --------------------------------------------------------------------------------- */

int kas_lower_result(kas_lower *l, int node, int64_t q)
{
    int64_t size[KAS_IR_RANK];
    result_sizes(l, node, q, size);
    const int tensor = kas_lower_tensor(l, size, KAS_DIM_C + l->kernel->node[node].shape.channels);
    l->tensor[node] = tensor;
    lay_result(l, node);
    return tensor;
}

/* A node's windows have taps along those of its axes, in this order. */
static const int axis[2] = {KAS_AXIS_H, KAS_AXIS_W};

kas_ex kas_lower_windows_in(kas_lower *l, int node, int operand, kas_ix *idx)
{
    kas_ir *ir = l->ir;
    const kas_window w = kas_lower_window(l, node, kas_lower_window_input(l, node));
    const kas_ix *taps = idx + ir->tensor[operand].rank;
    kas_ix tap[2], from[2];
    for (int i = 0; i < 2; i++) {
        tap[i] = l->kernel->node[node].axes & axis[i] ? *taps++ : 0;
        idx[KAS_DIM_H + i] = kas_ix_scale(ir, idx[KAS_DIM_H + i], l->stride);
    }
    kas_lower_move(ir, &w, tap, 1, idx, from);
    return kas_lower_inside(ir, &w, from, kas_ex_read(ir, operand, idx));
}

kas_ex kas_lower_windows(kas_lower *l, int node, kas_ix *idx)
{
    return kas_lower_windows_in(l, node, l->tensor[kas_lower_window_input(l, node)], idx);
}

static kas_ix shift_index(kas_lower *l, int node, kas_ix at, int direction)
{
    const kas_node *n = &l->kernel->node[node];
    const int dim = n->axes & KAS_AXIS_H ? KAS_DIM_H : KAS_DIM_W;
    return kas_ix_mod(l->ir, kas_ix_add(l->ir, at, kas_ix_const(l->ir, direction * (int)n->offset)),
                      l->ir->tensor[l->tensor[n->in[0]]].size[dim]);
}

/* [.., g, r, ..] -> [.., g * R + r, ..] */
static void ungroup_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *in_idx)
{
    const int d = KAS_DIM_C + l->kernel->node[node].dim;
    const kas_ir_tensor *t = &l->ir->tensor[l->tensor[node]];
    memcpy(in_idx, idx, sizeof *idx * (size_t)d);
    in_idx[d] = kas_ix_flatten(l->ir, 2, t->size + d, idx + d);
    memcpy(in_idx + d + 1, idx + d + 2, sizeof *idx * (size_t)(t->rank - d - 2));
}

/* Channel r * G + g reads g * X/G + r; `groups` is G, or X/G for the inverse. */
static kas_ix shuffle_index(kas_ir *ir, kas_ix at, int64_t size, int64_t groups)
{
    return kas_ix_add(ir, kas_ix_scale(ir, kas_ix_mod(ir, at, groups), size / groups),
                      kas_ix_div(ir, at, groups));
}

void kas_lower_rearrange(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const int operand = n->op == KAS_OP_UNFOLD ? kas_lower_window_input(l, node) : n->in[0];
    const int tensor = kas_lower_result(l, node, kas_lower_q(l, operand));
    kas_ix idx[KAS_IR_RANK], in_idx[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    kas_ex e;
    if (n->op == KAS_OP_UNFOLD) {
        e = kas_lower_windows(l, node, idx);
    } else if (n->op == KAS_OP_SHIFT) {
        const int dim = n->axes & KAS_AXIS_H ? KAS_DIM_H : KAS_DIM_W;
        idx[dim] = shift_index(l, node, idx[dim], 1);
        e = kas_lower_read(l, n->in[0], idx);
    } else if (n->op == KAS_OP_SHUFFLE) {
        const int d = KAS_DIM_C + n->dim;
        idx[d] = shuffle_index(l->ir, idx[d], l->size[node][n->dim],
                               l->binding->value[KAS_SYM_G0 + n->symbol]);
        e = kas_lower_read(l, n->in[0], idx);
    } else {
        ungroup_index(l, node, idx, in_idx);
        e = kas_lower_read(l, n->in[0], in_idx);
    }
    l->ir->tensor[tensor].def = e;
}

/* Turns rows and columns of what is read, where `at` may lie outside, into those of the output. */
static void leave_stride(kas_lower *l, int windows, const kas_ix at[2], kas_ix *idx)
{
    const kas_ir_tensor *out = &l->ir->tensor[l->tensor[windows]];
    static const int dim[2] = {KAS_DIM_H, KAS_DIM_W};
    for (int i = 0; i < 2; i++) {
        const int64_t last = out->size[dim[i]] * l->stride - 1;
        idx[dim[i]] = kas_ix_div(l->ir, kas_ix_clamp(l->ir, at[i], 0, last), l->stride);
    }
}

/* Returns e where a pixel of the output reads `at`, else 0. */
static kas_ex guard_stride(kas_lower *l, int windows, const kas_ix at[2], kas_ex e)
{
    const kas_ir_tensor *out = &l->ir->tensor[l->tensor[windows]];
    static const int dim[2] = {KAS_DIM_H, KAS_DIM_W};
    for (int i = 0; i < 2; i++) {
        const int64_t last = out->size[dim[i]] * l->stride - 1;
        if (l->stride > 1)
            e = kas_ex_guard(l->ir, kas_ix_mod(l->ir, at[i], l->stride), 0, 0, e);
        e = kas_ex_guard(l->ir, at[i], 0, last, e);
    }
    return e;
}

void kas_lower_windows_gradient(kas_lower *l, int node, int windows)
{
    kas_ir *ir = l->ir;
    const int in = kas_lower_window_input(l, node);
    const kas_window w = kas_lower_window(l, node, in);
    int first = KAS_DIM_C + l->kernel->node[l->kernel->node[node].in[0]].shape.channels;
    kas_ix idx[KAS_IR_RANK], tap[2], at[2];
    int var[2];
    kas_lower_vars(l, in, idx);
    kas_lower_tap_vars(ir, &w, var, tap);
    for (int i = 0; i < 2; i++)
        if (l->kernel->node[node].axes & axis[i])
            idx[first++] = tap[i];
    kas_lower_move(ir, &w, tap, -1, idx, at);
    leave_stride(l, windows, at, idx);
    kas_ex e = guard_stride(l, windows, at, kas_lower_read_gradient(l, windows, idx));
    kas_lower_contribute(l, in, kas_ex_reduce_all(ir, KAS_FN_REDUCE_SUM, 2, var, e));
}

void kas_lower_rearrange_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int in = n->in[0];
    kas_ix idx[KAS_IR_RANK], out_idx[KAS_IR_RANK];
    if (n->op == KAS_OP_UNFOLD) {
        kas_lower_windows_gradient(l, node, node);
        return;
    }
    kas_lower_vars(l, in, idx);
    if (n->op == KAS_OP_SHIFT) {
        const int dim = n->axes & KAS_AXIS_H ? KAS_DIM_H : KAS_DIM_W;
        idx[dim] = shift_index(l, node, idx[dim], -1);
        kas_lower_contribute(l, in, kas_lower_read_gradient(l, node, idx));
        return;
    }
    if (n->op == KAS_OP_SHUFFLE) {
        const int64_t size = l->size[node][n->dim];
        const int64_t groups = l->binding->value[KAS_SYM_G0 + n->symbol];
        idx[KAS_DIM_C + n->dim] = shuffle_index(ir, idx[KAS_DIM_C + n->dim], size, size / groups);
        kas_lower_contribute(l, in, kas_lower_read_gradient(l, node, idx));
        return;
    }
    const int d = KAS_DIM_C + n->dim;
    const kas_ir_tensor *t = &ir->tensor[l->tensor[node]];
    memcpy(out_idx, idx, sizeof *idx * (size_t)d);
    kas_ix_unflatten(ir, idx[d], 2, t->size + d, out_idx + d);
    t = &ir->tensor[l->tensor[node]];
    memcpy(out_idx + d + 2, idx + d + 1, sizeof *idx * (size_t)(t->rank - d - 2));
    kas_lower_contribute(l, in, kas_lower_read_gradient(l, node, out_idx));
}
