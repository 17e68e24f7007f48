/* fold_avg and fold_max: average and maximum over one dimension. */
#include <string.h>

#include "jit/lower/lower.h"

/* operand_index adds `at` along the dimension that the result has lost, result_index drops it: a
 * channel dim closes up, H and W stay with size 1. */
static void operand_index(kas_lower *l, int node, const kas_ix *idx, kas_ix at, kas_ix *in_idx)
{
    const kas_node *n = &l->kernel->node[node];
    const int in = n->in[0], d = kas_lower_dim(l, in, n->dim);
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

static kas_ex reduce_operand(kas_lower *l, int node, int tensor, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int64_t extent = l->size[n->in[0]][n->dim];
    const int var = extent > 1 ? kas_ir_var(ir, extent) : -1;
    kas_ix idx[KAS_IR_RANK], in_idx[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    operand_index(l, node, idx, kas_ix_var(ir, var), in_idx);
    kas_ex x = kas_lower_read(l, n->in[0], in_idx);
    if (fn != KAS_FN_REDUCE_SUM)
        return kas_ex_reduce(ir, fn, var, x);
    const kas_ir_tensor result = ir->tensor[tensor];
    kas_ex sum = kas_lower_sum(l, result.rank, result.var, 1, &var, x);
    return kas_ex_binary(ir, KAS_FN_MUL, sum, kas_ex_const(ir, 1.0 / (double)extent));
}

void kas_lower_fold(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int64_t q = ir->tensor[l->tensor[n->in[0]]].size[KAS_DIM_Q];
    if (n->op == KAS_OP_FOLD_MAX && l->training) {
        /* The element that won is kept for the gradient; for a moment its tensor is the node's. */
        const int arg = kas_lower_result(l, node, q);
        ir->tensor[arg].def = reduce_operand(l, node, arg, KAS_FN_REDUCE_ARGMAX);
        ir->tensor[arg].dtype = KAS_F32; /* an index: 16 bits hold few of them */
        l->aux[node] = arg;
    }
    const int tensor = kas_lower_result(l, node, q);
    const kas_ex e = reduce_operand(
        l, node, tensor, n->op == KAS_OP_FOLD_AVG ? KAS_FN_REDUCE_SUM : KAS_FN_REDUCE_MAX);
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
