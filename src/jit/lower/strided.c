/* Kernels that take the stride of the convolution: their windows read the layer's input at full
 * size, and everything else is computed at every stride-th pixel of it.
 *
 * A node that only rearranges the input can have two tensors: one at full size, for windows, and
 * one of the pixels that the stride visits, for all other readers. The first kind is held as node
 * KAS_WITHIN + the node's number, a place that no primitive of such a kernel uses for itself. To
 * lower it, the two places are exchanged, so that one text serves both. */
#include <string.h>

#include "jit/lower/lower.h"

void kas_lower_strided_nodes(kas_lower *l)
{
    const kas_kernel *k = l->kernel;
    l->stride = k->stride_inside ? (int)l->target->stride : 1;
    l->whole = 0;
    l->small = l->stride == 1 ? UINT64_MAX : (uint64_t)1 << (k->nodes - 1);
    for (int i = k->nodes - 1; i > 0 && l->stride > 1; i--)
        for (int j = 0; j < k->node[i].inputs; j++) {
            const uint64_t in = (uint64_t)1 << k->node[i].in[j];
            const bool window = k->node[i].op == KAS_OP_UNFOLD;
            if (l->small & (uint64_t)1 << i)
                *(window ? &l->whole : &l->small) |= in;
            if (l->whole & (uint64_t)1 << i)
                l->whole |= in;
        }
}

void kas_lower_whole_sizes(kas_lower *l, int node)
{
    const kas_target *t = l->target;
    const int64_t side[2] = {t->h, t->w};
    uint32_t whole[2];
    kas_target_read(t, true, &whole[0], &whole[1]);
    for (int d = 0; d < l->rank[node] && l->stride > 1; d++) {
        const int axis = d - l->kernel->node[node].shape.channels;
        const int64_t size = l->size[node][d];
        l->size[KAS_WITHIN + node][d] = axis < 0             ? size
                                        : size == side[axis] ? whole[axis]
                                                             : size * l->stride; /* a band */
    }
}

int kas_lower_window_input(const kas_lower *l, int node)
{
    return l->kernel->node[node].in[0] + (l->stride > 1 ? KAS_WITHIN : 0);
}

void kas_lower_strided_input(kas_lower *l)
{
    kas_ir *ir = l->ir;
    const kas_target *t = l->target;
    uint32_t h, w;
    kas_target_read(t, true, &h, &w);
    const int64_t whole[6] = {l->batch, h, w, 1, t->parts_in, t->c};
    const int64_t small[6] = {l->batch, t->h, t->w, 1, t->parts_in, t->c};
    kas_ix idx[KAS_IR_RANK];
    l->x = kas_ir_add_tensor(ir, KAS_TENSOR_EXTERN, 6, whole, l->x_pitch);
    ir->tensor[l->x].role = KAS_ROLE_X;
    l->tensor[KAS_WITHIN] = l->x;
    if (!(l->small & 1)) {
        l->tensor[0] = l->x; /* nobody reads it */
        return;
    }
    l->tensor[0] = kas_lower_tensor(l, small, 6);
    kas_lower_vars(l, 0, idx);
    idx[KAS_DIM_H] = kas_ix_scale(ir, idx[KAS_DIM_H], l->stride);
    idx[KAS_DIM_W] = kas_ix_scale(ir, idx[KAS_DIM_W], l->stride);
    const kas_ex e = kas_lower_read(l, KAS_WITHIN, idx);
    ir->tensor[l->tensor[0]].def = e;
}

/* Exchanges the two places of all nodes. */
static void exchange(kas_lower *l)
{
    for (int i = 0; i < KAS_WITHIN; i++) {
        const int a = i, b = KAS_WITHIN + i;
        int64_t size[KAS_FC_DIMS + 2];
        memcpy(size, l->size[a], sizeof size);
        memcpy(l->size[a], l->size[b], sizeof size);
        memcpy(l->size[b], size, sizeof size);
        const int tensor = l->tensor[a], contributions = l->contributions[a],
                  gradient_tensor = l->gradient_tensor[a];
        const kas_ex gradient = l->gradient[a];
        l->tensor[a] = l->tensor[b];
        l->contributions[a] = l->contributions[b];
        l->gradient_tensor[a] = l->gradient_tensor[b];
        l->gradient[a] = l->gradient[b];
        l->tensor[b] = tensor;
        l->contributions[b] = contributions;
        l->gradient_tensor[b] = gradient_tensor;
        l->gradient[b] = gradient;
    }
}

void kas_lower_whole(kas_lower *l, int node)
{
    exchange(l);
    if (l->kernel->node[node].op == KAS_OP_SLICE)
        kas_lower_slice(l, node);
    else
        kas_lower_rearrange(l, node);
    exchange(l);
    if (!(l->small & (uint64_t)1 << node))
        l->tensor[node] = l->tensor[KAS_WITHIN + node];
}

/* Adds the gradient of the pixels that the stride visits to that of X. */
static void contribute_small(kas_lower *l)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor *small = &ir->tensor[l->tensor[0]];
    static const int dim[2] = {KAS_DIM_H, KAS_DIM_W};
    kas_ix idx[KAS_IR_RANK], rest[2], row[2];
    kas_lower_vars(l, KAS_WITHIN, idx);
    for (int i = 0; i < 2; i++) {
        rest[i] = kas_ix_mod(ir, idx[dim[i]], l->stride);
        row[i] = kas_ix_div(ir, idx[dim[i]], l->stride);
        idx[dim[i]] = kas_ix_clamp(ir, row[i], 0, small->size[dim[i]] - 1);
    }
    kas_ex e = kas_lower_read_gradient(l, 0, idx);
    for (int i = 0; i < 2; i++) {
        e = kas_ex_guard(ir, rest[i], 0, 0, e);
        e = kas_ex_guard(ir, row[i], 0, small->size[dim[i]] - 1, e);
    }
    kas_lower_contribute(l, KAS_WITHIN, e);
}

void kas_lower_whole_gradient(kas_lower *l, int node)
{
    if (node == 0 && (l->small & 1))
        contribute_small(l);
    kas_lower_sum_gradient(l, KAS_WITHIN + node);
    if (node == 0)
        return;
    exchange(l);
    if (l->kernel->node[node].op == KAS_OP_SLICE)
        kas_lower_slice_gradient(l, node);
    else
        kas_lower_rearrange_gradient(l, node);
    exchange(l);
}
