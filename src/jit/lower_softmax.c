/* softmax over consecutive dims: y = exp(x - max) * (1 / sum), with max and 1 / sum as tensors of
 * their own whose softmax dims have size 1: one division a row. */
#include <string.h>

#include "jit/lower.h"

typedef struct softmax_dims {
    int count, dim[KAS_MAX_DIMS], var[KAS_MAX_DIMS]; /* of the IR; new variables to reduce over */
    int64_t size[KAS_IR_RANK];                       /* of the reduced tensors */
    int rank;
} softmax_dims;

static softmax_dims dims_of(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const kas_tensor in = l->ir->tensor[l->tensor[n->in[0]]];
    softmax_dims dims = {.rank = in.rank};
    memcpy(dims.size, in.size, sizeof dims.size);
    for (int i = n->dim; i < n->dim_end; i++)
        dims.dim[dims.count++] = kas_lower_dim(l, node, i);
    /* Reduced outermost first: H and W lie outside the channels. */
    for (int i = 1; i < dims.count; i++)
        for (int j = i; j > 0 && dims.dim[j] < dims.dim[j - 1]; j--) {
            int d = dims.dim[j];
            dims.dim[j] = dims.dim[j - 1];
            dims.dim[j - 1] = d;
        }
    for (int i = 0; i < dims.count; i++) {
        dims.var[i] = in.size[dims.dim[i]] > 1 ? kas_ir_var(l->ir, in.size[dims.dim[i]]) : -1;
        dims.size[dims.dim[i]] = 1;
    }
    return dims;
}

static int reduced_tensor(kas_lower *l, const softmax_dims *dims, kas_ix *idx)
{
    const int tensor = kas_lower_tensor(l, dims->size, dims->rank);
    for (int d = 0; d < dims->rank; d++)
        idx[d] = kas_ix_var(l->ir, l->ir->tensor[tensor].var[d]);
    for (int i = 0; i < dims->count; i++)
        idx[dims->dim[i]] = kas_ix_var(l->ir, dims->var[i]);
    return tensor;
}

static int lower_max(kas_lower *l, int node)
{
    const softmax_dims dims = dims_of(l, node);
    kas_ix idx[KAS_IR_RANK];
    const int max = reduced_tensor(l, &dims, idx);
    const kas_ex x = kas_lower_read(l, l->kernel->node[node].in[0], idx);
    const kas_tensor t = l->ir->tensor[max];
    const kas_ex e = kas_lower_reduce(l, KAS_FN_REDUCE_MAX, t.rank, t.var, dims.count, dims.var, x);
    l->ir->tensor[max].def = e;
    return max;
}

static kas_ex shifted_exp(kas_lower *l, int node, int max, const kas_ix *idx)
{
    kas_ex x = kas_lower_read(l, l->kernel->node[node].in[0], idx);
    return kas_ex_unary(l->ir, KAS_FN_EXP,
                        kas_ex_binary(l->ir, KAS_FN_SUB, x, kas_ex_read(l->ir, max, idx)));
}

static int lower_inverse_sum(kas_lower *l, int node, int max)
{
    const softmax_dims dims = dims_of(l, node);
    kas_ix idx[KAS_IR_RANK];
    const int sum = reduced_tensor(l, &dims, idx);
    const kas_tensor t = l->ir->tensor[sum];
    const kas_ex e =
        kas_lower_sum(l, t.rank, t.var, dims.count, dims.var, shifted_exp(l, node, max, idx));
    l->ir->tensor[sum].def = kas_ex_binary(l->ir, KAS_FN_DIV, kas_ex_const(l->ir, 1), e);
    return sum;
}

void kas_lower_softmax(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const int in = l->kernel->node[node].in[0];
    const int max = lower_max(l, node), sum = lower_inverse_sum(l, node, max);
    const int tensor = kas_lower_result(l, node, ir->tensor[l->tensor[in]].size[KAS_DIM_Q]);
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    ir->tensor[tensor].def =
        kas_ex_binary(ir, KAS_FN_MUL, shifted_exp(l, node, max, idx), kas_ex_read(ir, sum, idx));
}

/* dx = y (dy - sum(dy y)) */
void kas_lower_softmax_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const int in = l->kernel->node[node].in[0];
    const softmax_dims dims = dims_of(l, node);
    kas_ix idx[KAS_IR_RANK];
    const int inner = reduced_tensor(l, &dims, idx);
    const kas_ex product = kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, idx),
                                         kas_lower_read(l, node, idx));
    const kas_tensor t = ir->tensor[inner];
    const kas_ex sum = kas_lower_sum(l, t.rank, t.var, dims.count, dims.var, product);
    ir->tensor[inner].def = sum;
    kas_lower_vars(l, in, idx);
    const kas_ex centred = kas_ex_binary(ir, KAS_FN_SUB, kas_lower_read_gradient(l, node, idx),
                                         kas_ex_read(ir, inner, idx));
    kas_lower_contribute(l, in,
                         kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read(l, node, idx), centred));
}
