/* bmm by a library: as 1x1 convolutions in groups, which devices compute as strided batches. LHS is
 * the pixels [m][batch...][k], RHS times the product's scale the weights [batch...][n][k], the result
 * [m][batch...][n]; each gradient is the convolution's. The scale stands in the weights, which are a
 * copy in any case, because a sum without it may be more than 16 bits hold. */
#include "jit/lower/lower_bmm.h"

static kas_conv_desc conv_desc(const kas_lower *l, const kas_lowered_bmm *b)
{
    return (kas_conv_desc){.n = 1,
                           .h = 1,
                           .w = (int)b->m,
                           .c_in = (int)(b->batch_elements * b->k),
                           .c_out = (int)(b->batch_elements * b->n),
                           .groups = (int)b->batch_elements,
                           .kernel_h = 1,
                           .kernel_w = 1,
                           .stride = 1,
                           .x_pitch = kas_lower_pitch(l, b->batch_elements * b->k),
                           .y_pitch = kas_lower_pitch(l, b->batch_elements * b->n),
                           .dtype = l->ir->dtype,
                           .tf32 = l->tf32};
}

/* Adds a tensor [1][1][m][batch...][last] of pixels. */
static int pixels(kas_lower *l, const kas_lowered_bmm *b, kas_tensor_kind kind, int64_t last)
{
    int64_t size[KAS_IR_RANK] = {1, 1, b->m};
    int rank = 3;
    for (int i = 0; i < b->batches; i++)
        size[rank++] = b->batch_size[i];
    size[rank++] = last;
    const int pitch = kas_lower_pitch(l, b->batch_elements * last);
    return kas_ir_add_tensor(l->ir, kind, rank, size, pitch);
}

/* Adds a tensor [batch...][n][k] of weights: dense, and always in memory. The gradient of weights,
 * which a convolution computes, is float32. */
static int weights(kas_lower *l, const kas_lowered_bmm *b, kas_tensor_kind kind)
{
    int64_t size[KAS_IR_RANK];
    int rank = 0;
    for (int i = 0; i < b->batches; i++)
        size[rank++] = b->batch_size[i];
    size[rank++] = b->n;
    size[rank++] = b->k;
    const int tensor = kas_ir_add_tensor(l->ir, kind, rank, size, 0);
    if (kind != KAS_TENSOR_CONV)
        l->ir->tensor[tensor].dtype = l->ir->dtype;
    return tensor;
}

static kas_ix var_of(kas_lower *l, int tensor, int dim)
{
    return kas_ix_var(l->ir, l->ir->tensor[tensor].var[dim]);
}

/* Returns the batch in a tensor's own variables, which start at dim `from`. */
static kas_batch_index batch_vars(kas_lower *l, const kas_lowered_bmm *b, int tensor, int from)
{
    kas_batch_index batch;
    for (int i = 0; i < b->batches; i++)
        batch.at[i] = var_of(l, tensor, from + i);
    return batch;
}

/* Writes the index of pixels from batch, m and the last dim. */
static void pixel_index(const kas_lowered_bmm *b, const kas_batch_index *batch, kas_ix m,
                        kas_ix last, kas_ix *at)
{
    at[0] = at[1] = 0;
    at[2] = m;
    for (int i = 0; i < b->batches; i++)
        at[3 + i] = batch->at[i];
    at[3 + b->batches] = last;
}

static void weight_index(const kas_lowered_bmm *b, const kas_batch_index *batch, kas_ix n, kas_ix k,
                         kas_ix *at)
{
    for (int i = 0; i < b->batches; i++)
        at[i] = batch->at[i];
    at[b->batches] = n;
    at[b->batches + 1] = k;
}

static void set_conv(kas_lower *l, const kas_lowered_bmm *b, int tensor, kas_conv_pass pass,
                     int first, int second)
{
    kas_ir_tensor *t = &l->ir->tensor[tensor];
    t->pass = pass;
    t->conv = conv_desc(l, b);
    t->conv_in[0] = first;
    t->conv_in[1] = second;
}

static int pack_lhs(kas_lower *l, const kas_lowered_bmm *b)
{
    kas_ix idx[KAS_IR_RANK];
    const int x = pixels(l, b, KAS_TENSOR_DEF, b->k);
    const kas_batch_index batch = batch_vars(l, b, x, 3);
    kas_bmm_join(l, &b->lhs, &batch, var_of(l, x, 2), var_of(l, x, 3 + b->batches), idx);
    const kas_ex e = kas_lower_read(l, b->lhs.node, idx);
    l->ir->tensor[x].def = e;
    l->ir->tensor[x].operand = true;
    return x;
}

static int pack_rhs(kas_lower *l, const kas_lowered_bmm *b)
{
    kas_ix idx[KAS_IR_RANK];
    const int w = weights(l, b, KAS_TENSOR_DEF);
    const kas_batch_index batch = batch_vars(l, b, w, 0);
    const kas_ix n = var_of(l, w, b->batches), k = var_of(l, w, b->batches + 1);
    kas_bmm_join(l, &b->rhs, &batch, k, n, idx);
    const kas_ex e = kas_bmm_scaled(l, b, kas_lower_read(l, b->rhs.node, idx));
    l->ir->tensor[w].def = e;
    return w;
}

void kas_bmm_library(kas_lower *l, const kas_lowered_bmm *b, int node)
{
    kas_ix idx[KAS_IR_RANK], at[KAS_IR_RANK], m, n;
    kas_batch_index batch;
    const int x = l->packed[node][0] = pack_lhs(l, b), w = l->packed[node][1] = pack_rhs(l, b);
    const int y = pixels(l, b, KAS_TENSOR_CONV, b->n);
    set_conv(l, b, y, KAS_CONV_FORWARD, x, w);
    kas_lower_vars(l, b->value.node, idx);
    kas_bmm_split(l, &b->value, idx, &batch, &m, &n);
    pixel_index(b, &batch, m, n, at);
    const kas_ex e = kas_ex_read(l->ir, y, at);
    l->ir->tensor[l->tensor[b->value.node]].def = e;
}

static int pack_gradient(kas_lower *l, const kas_lowered_bmm *b)
{
    kas_ix idx[KAS_IR_RANK];
    const int dy = pixels(l, b, KAS_TENSOR_DEF, b->n);
    const kas_batch_index batch = batch_vars(l, b, dy, 3);
    kas_bmm_join(l, &b->value, &batch, var_of(l, dy, 2), var_of(l, dy, 3 + b->batches), idx);
    const kas_ex e = kas_lower_read_gradient(l, b->value.node, idx);
    l->ir->tensor[dy].def = e;
    l->ir->tensor[dy].operand = true;
    return dy;
}

/* Adds what the convolution gave for an operand to the gradient of its node; instances that share
 * the operand add up. That of RHS is float32 and lacks the scale. */
static void contribute(kas_lower *l, const kas_lowered_bmm *b, bool of_lhs, int gradient)
{
    const kas_matrix *to = of_lhs ? &b->lhs : &b->rhs;
    kas_ix idx[KAS_IR_RANK], at[KAS_IR_RANK], first, second;
    kas_batch_index batch;
    kas_lower_vars(l, to->node, idx);
    const int q = kas_lower_q_var(l, b->value.node, to->node);
    idx[KAS_DIM_Q] = kas_ix_var(l->ir, q);
    kas_bmm_split(l, to, idx, &batch, &first, &second);
    if (of_lhs)
        pixel_index(b, &batch, first, second, at);
    else
        weight_index(b, &batch, second, first, at);
    kas_ex e = kas_ex_read(l->ir, gradient, at);
    if (!of_lhs)
        e = kas_bmm_scaled(l, b, e);
    kas_lower_contribute(l, to->node, kas_lower_sum_q(l, b->value.node, to->node, q, e));
}

void kas_bmm_library_gradient(kas_lower *l, const kas_lowered_bmm *b, int node)
{
    const int x = l->packed[node][0], w = l->packed[node][1], dy = pack_gradient(l, b);
    const int dx = pixels(l, b, KAS_TENSOR_CONV, b->k), dw = weights(l, b, KAS_TENSOR_CONV);
    set_conv(l, b, dx, KAS_CONV_BACKWARD_DATA, dy, w);
    set_conv(l, b, dw, KAS_CONV_BACKWARD_WEIGHTS, x, dy);
    contribute(l, b, true, dx);
    contribute(l, b, false, dw);
}
