/* fold_avg and fold_max: average and maximum over one dimension. The number of the largest element,
 * which the gradient needs, comes in two stages where a long dimension has few results: for each
 * chunk its maximum and that one's number, then the chunk of the largest maximum. */
#include <string.h>

#include "jit/lower/lower.h"

/* operand_index adds `at` along the dimension that the result has lost, result_index drops it: a
 * channel dim closes up, H and W stay with size 1. `in`: the node that is reduced. */
static void operand_index(kas_lower *l, int node, int in, const kas_ix *idx, kas_ix at,
                          kas_ix *in_idx)
{
    const int d = kas_lower_dim(l, in, l->kernel->node[node].dim);
    const int rank = l->ir->tensor[l->tensor[in]].rank;
    if (d < KAS_DIM_C) {
        memcpy(in_idx, idx, sizeof *idx * (size_t)rank);
    } else {
        memcpy(in_idx, idx, sizeof *idx * (size_t)d);
        memcpy(in_idx + d + 1, idx + d, sizeof *idx * (size_t)(rank - d - 1));
    }
    in_idx[d] = at;
}

static void result_index(kas_lower *l, int node, const kas_ix *in_idx, kas_ix *idx)
{
    const kas_node *n = &l->kernel->node[node];
    const int in = n->in[0], d = kas_lower_dim(l, in, n->dim);
    const int rank = l->ir->tensor[l->tensor[in]].rank;
    memcpy(idx, in_idx, sizeof *idx * (size_t)rank);
    if (d < KAS_DIM_C)
        idx[d] = 0;
    else
        memmove(idx + d, in_idx + d + 1, sizeof *idx * (size_t)(rank - d - 1));
}

/* Reduces node `in` for the elements of a tensor. */
static kas_ex reduce_node(kas_lower *l, int node, int in, int tensor, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const int64_t extent = l->size[in][l->kernel->node[node].dim];
    const int var = kas_ir_loop_var(ir, extent);
    const kas_ir_tensor result = ir->tensor[tensor];
    kas_ix idx[KAS_IR_RANK], in_idx[KAS_IR_RANK];
    kas_ir_own_index(ir, tensor, idx);
    operand_index(l, node, in, idx, kas_ix_var(ir, var), in_idx);
    kas_ex x = kas_lower_read(l, in, in_idx);
    if (fn != KAS_FN_REDUCE_SUM)
        return kas_ex_reduce(ir, fn, var, x);
    kas_ex sum = kas_lower_sum(l, result.rank, result.var, 1, &var, x);
    return kas_ex_binary(ir, KAS_FN_MUL, sum, kas_ex_const(ir, 1.0 / (double)extent));
}

/* ---- in front of windows --------------------------------------------------------------------- */

/* Returns the unfold whose windows a fold reduces one by one, so that it may reduce what they read
 * once and have windows of that; -1. Taps outside the image are 0 in both orders. A GPU's kernels read
 * the windows: by the machine model the launch more costs what the reads would. */
static int windows_behind(const kas_lower *l, int node)
{
    const int in = l->kernel->node[node].in[0];
    const kas_node *windows = &l->kernel->node[in];
    return l->linear_policy == KAS_LINEAR_CPU && l->stride == 1 && windows->op == KAS_OP_UNFOLD &&
                   l->kernel->node[node].dim < l->kernel->node[windows->in[0]].shape.channels
               ? in
               : -1;
}

static kas_ex reduce_operand(kas_lower *l, int node, int tensor, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const int windows = windows_behind(l, node);
    if (windows < 0)
        return reduce_node(l, node, l->kernel->node[node].in[0], tensor, fn);
    const int source = l->kernel->node[windows].in[0];
    const kas_ir_tensor from = ir->tensor[l->tensor[source]];
    const int d = kas_lower_dim(l, source, l->kernel->node[node].dim);
    int64_t size[KAS_IR_RANK];
    kas_ix idx[KAS_IR_RANK];
    memcpy(size, from.size, sizeof *size * (size_t)d);
    memcpy(size + d, from.size + d + 1, sizeof *size * (size_t)(from.rank - d - 1));
    const int folded = kas_lower_tensor(l, size, from.rank - 1);
    if (fn == KAS_FN_REDUCE_ARGMAX)
        ir->tensor[folded].dtype = KAS_F32;
    const kas_ex e = reduce_node(l, node, source, folded, fn);
    ir->tensor[folded].def = e;
    kas_lower_vars(l, node, idx);
    return kas_lower_windows_in(l, windows, folded, idx);
}

/* ---- a maximum in stages --------------------------------------------------------------------- */

static int64_t chunk_of(const kas_lower *l, int node, int64_t q)
{
    const kas_node *n = &l->kernel->node[node];
    const kas_ir_tensor *in = &l->ir->tensor[l->tensor[n->in[0]]];
    const int64_t extent = l->size[n->in[0]][n->dim];
    int64_t results = q;
    for (int d = 0; d < in->rank; d++)
        results *= d == KAS_DIM_Q ? 1 : in->size[d];
    return in->rank < KAS_IR_RANK ? kas_lower_chunk(l, results / extent, extent) : 0;
}

/* Makes a reduction of each chunk: [chunk][result...]. */
static int reduce_chunks(kas_lower *l, int node, int64_t chunk, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor result = ir->tensor[l->tensor[node]];
    const kas_node *n = &l->kernel->node[node];
    int64_t size[KAS_IR_RANK] = {l->size[n->in[0]][n->dim] / chunk};
    kas_ix idx[KAS_IR_RANK], in_idx[KAS_IR_RANK];
    memcpy(size + 1, result.size, sizeof *size * (size_t)result.rank);
    const int tensor = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, result.rank + 1, size, 0);
    const int var = kas_ir_var(ir, chunk);
    kas_ir_own_index(ir, tensor, idx);
    operand_index(l, node, n->in[0], idx + 1,
                  kas_ix_add(ir, kas_ix_scale(ir, idx[0], chunk), kas_ix_var(ir, var)), in_idx);
    const kas_ex e = kas_ex_reduce(ir, fn, var, kas_lower_read(l, n->in[0], in_idx));
    ir->tensor[tensor].def = e;
    return tensor;
}

/* Returns the element of a chunk that belongs to a result. */
static kas_ex read_chunk(kas_lower *l, int node, int chunks, int var)
{
    kas_ix idx[KAS_IR_RANK] = {kas_ix_var(l->ir, var)};
    kas_lower_vars(l, node, idx + 1);
    return kas_ex_read(l->ir, chunks, idx);
}

static int chunk_var(kas_lower *l, int chunks)
{
    return kas_ir_loop_var(l->ir, l->ir->tensor[chunks].size[0]);
}

/* Returns the number of the largest element. */
static kas_ex winner_of_chunks(kas_lower *l, int node, int64_t chunk, int maxima)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor result = ir->tensor[l->tensor[node]];
    const int numbers = reduce_chunks(l, node, chunk, KAS_FN_REDUCE_ARGMAX);
    const int best = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, result.rank, result.size, 0);
    kas_ix idx[KAS_IR_RANK];
    memcpy(ir->tensor[best].var, result.var, sizeof result.var);
    int var = chunk_var(l, maxima);
    const kas_ex winner =
        kas_ex_reduce(ir, KAS_FN_REDUCE_ARGMAX, var, read_chunk(l, node, maxima, var));
    ir->tensor[best].def = winner;
    kas_lower_vars(l, node, idx);
    var = chunk_var(l, numbers);
    const kas_ix at = kas_ix_var(ir, var);
    const kas_ex number = kas_ex_binary(ir, KAS_FN_ADD, read_chunk(l, node, numbers, var),
                                        kas_ex_index(ir, kas_ix_scale(ir, at, chunk)));
    const kas_ex e = kas_ex_select(ir, KAS_FN_EQ, kas_ex_read(ir, best, idx), kas_ex_index(ir, at),
                                   number, kas_ex_const(ir, 0));
    return kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, var, e);
}

static kas_ex maximum_of_chunks(kas_lower *l, int node, int maxima)
{
    const kas_ir_tensor result = l->ir->tensor[l->tensor[node]];
    const int var = chunk_var(l, maxima);
    return kas_lower_reduce(l, KAS_FN_REDUCE_MAX, false, result.rank, result.var, 1, &var,
                            read_chunk(l, node, maxima, var));
}

/* ---- value and gradient ---------------------------------------------------------------------- */

void kas_lower_fold(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int64_t q = kas_lower_q(l, n->in[0]);
    const bool max = n->op == KAS_OP_FOLD_MAX;
    const int64_t chunk = max ? chunk_of(l, node, q) : 0;
    int tensor = kas_lower_result(l, node, q);
    const int maxima = chunk ? reduce_chunks(l, node, chunk, KAS_FN_REDUCE_MAX) : -1;
    if (max && l->training) {
        /* The element that won is kept for the gradient; for a moment its tensor is the node's. */
        const kas_ex winner = chunk ? winner_of_chunks(l, node, chunk, maxima)
                                    : reduce_operand(l, node, tensor, KAS_FN_REDUCE_ARGMAX);
        ir->tensor[tensor].def = winner;
        ir->tensor[tensor].dtype = KAS_F32; /* an index: 16 bits hold few of them */
        l->aux[node] = tensor;
        tensor = kas_lower_result(l, node, q);
    }
    const kas_ex e =
        chunk ? maximum_of_chunks(l, node, maxima)
              : reduce_operand(l, node, tensor, max ? KAS_FN_REDUCE_MAX : KAS_FN_REDUCE_SUM);
    ir->tensor[tensor].def = e;
}

void kas_lower_fold_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int in = n->in[0], d = kas_lower_dim(l, in, n->dim);
    kas_ix in_idx[KAS_IR_RANK], idx[KAS_IR_RANK];
    kas_lower_vars(l, in, in_idx);
    result_index(l, node, in_idx, idx);
    kas_ex dy = kas_lower_read_gradient(l, node, idx);
    if (n->op == KAS_OP_FOLD_AVG) {
        const double extent = (double)l->size[in][n->dim];
        dy = kas_ex_binary(ir, KAS_FN_MUL, dy, kas_ex_const(ir, 1 / extent));
    } else {
        dy = kas_ex_select(ir, KAS_FN_EQ, kas_ex_read(ir, l->aux[node], idx),
                           kas_ex_index(ir, in_idx[d]), dy, kas_ex_const(ir, 0));
    }
    kas_lower_contribute(l, in, dy);
}
