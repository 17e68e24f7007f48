/* scale: y = weight * x, the weight [q][p][dims dim..dim_end-1]: every instance has its own. */
#include "jit/lower/lower.h"

static void scale_weight(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    kas_weight_sizes sizes;
    int64_t size[KAS_IR_RANK] = {l->target->parts_out, l->target->parts_in};
    int rank = 2;
    const kas_status status = kas_weight_sizes_at(l->kernel, node, l->binding, &sizes);
    if (status != KAS_OK)
        kas_ir_fail(l->ir, status);
    const int number = l->aux[node] = kas_lower_new_weight(l, &sizes);
    for (int d = n->dim; d < n->dim_end; d++)
        size[rank++] = l->size[n->in[0]][d];
    const int tensor = kas_ir_add_tensor(l->ir, KAS_TENSOR_EXTERN, rank, size, 0);
    l->weight_tensor[number] = tensor;
    l->ir->tensor[tensor].role = KAS_ROLE_WEIGHT;
    l->ir->tensor[tensor].role_index = number;
    l->weight[number].stride[0] = sizes.groups;
    l->weight[number].stride[1] = 1;
}

/* Returns the weight by which an element of the node's tensor is multiplied. */
static kas_ex factor(kas_lower *l, int node, const kas_ix *idx)
{
    const kas_node *n = &l->kernel->node[node];
    kas_ix at[KAS_IR_RANK] = {idx[KAS_DIM_Q], idx[KAS_DIM_P]};
    for (int d = n->dim; d < n->dim_end; d++)
        at[2 + d - n->dim] = idx[KAS_DIM_C + d];
    return kas_ex_read(l->ir, l->weight_tensor[l->aux[node]], at);
}

void kas_lower_scale(kas_lower *l, int node)
{
    kas_ix idx[KAS_IR_RANK];
    scale_weight(l, node);
    const int tensor = kas_lower_result(l, node, l->target->parts_out);
    kas_lower_vars(l, node, idx);
    const kas_ex x = kas_lower_read(l, l->kernel->node[node].in[0], idx);
    l->ir->tensor[tensor].def = kas_ex_binary(l->ir, KAS_FN_MUL, x, factor(l, node, idx));
}

static void data_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const int in = l->kernel->node[node].in[0];
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, in, idx);
    const int q = kas_lower_q_var(l, node, in);
    idx[KAS_DIM_Q] = kas_ix_var(ir, q);
    const kas_ex e =
        kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, idx), factor(l, node, idx));
    kas_lower_contribute(l, in, kas_lower_sum_q(l, node, in, q, e));
}

/* Sums over the images, the pixels and the other channel dims. */
static void weight_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int number = l->aux[node];
    const kas_ir_tensor w = ir->tensor[l->weight_tensor[number]], y = ir->tensor[l->tensor[node]];
    kas_ix idx[KAS_IR_RANK];
    int var[KAS_IR_RANK], count = 0;
    const int dw = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, w.rank, w.size, 0);
    const kas_ir_tensor t = ir->tensor[dw];
    for (int d = 0; d < y.rank; d++) {
        const int channel = d - KAS_DIM_C;
        if (d == KAS_DIM_Q || d == KAS_DIM_P) {
            idx[d] = kas_ix_var(ir, t.var[d - KAS_DIM_Q]);
        } else if (channel >= n->dim && channel < n->dim_end) {
            idx[d] = kas_ix_var(ir, t.var[2 + channel - n->dim]);
        } else {
            var[count] = kas_ir_loop_var(ir, y.size[d]);
            idx[d] = kas_ix_var(ir, var[count++]);
        }
    }
    const kas_ex product = kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, idx),
                                         kas_lower_read(l, n->in[0], idx));
    const kas_ex sum = kas_lower_sum(l, t.rank, t.var, count, var, product);
    ir->tensor[dw].def = sum;
    ir->tensor[dw].role = KAS_ROLE_DWEIGHT;
    ir->tensor[dw].role_index = number;
    l->dweight[number] = dw;
}

void kas_lower_scale_gradient(kas_lower *l, int node)
{
    data_gradient(l, node);
    weight_gradient(l, node);
}
