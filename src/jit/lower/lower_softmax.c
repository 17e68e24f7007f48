/* softmax over consecutive dims: y = exp(x - max) * (1 / sum), with max and 1 / sum as tensors of
 * their own whose softmax dims have size 1: one division a row.
 *
 * Where no row or column holds the exponentials (rows.h), the sum and the result would both compute
 * them. A CPU then keeps them in a tensor, which costs it less; a GPU waits for memory anyway. */
#include "jit/lower/lower.h"

static int lower_max(kas_lower *l, const kas_span *span)
{
    const kas_along dims = kas_lower_along(l, span);
    kas_ix idx[KAS_IR_RANK];
    const int max = kas_lower_along_tensor(l, &dims, idx);
    const kas_ex x = kas_lower_read(l, span->operand, idx);
    const kas_ex e = kas_lower_along_reduce(l, KAS_FN_REDUCE_MAX, &dims, max, x);
    l->ir->tensor[max].def = e;
    return max;
}

static kas_ex shifted_exp(kas_lower *l, const kas_span *span, int max, const kas_ix *idx)
{
    kas_ex x = kas_lower_read(l, span->operand, idx);
    return kas_ex_unary(l->ir, KAS_FN_EXP,
                        kas_ex_binary(l->ir, KAS_FN_SUB, x, kas_ex_read(l->ir, max, idx)));
}

/* Adds the exponentials as a tensor of their own. */
static int keep_exponentials(kas_lower *l, const kas_span *span, int max)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor x = ir->tensor[l->tensor[span->operand]];
    const int kept =
        kas_lower_like(l, l->tensor[span->operand],
                       kas_lower_pitch(l, x.elements / (x.size[KAS_DIM_N] * x.size[KAS_DIM_H] *
                                                        x.size[KAS_DIM_W])));
    kas_ix idx[KAS_IR_RANK];
    kas_ir_own_index(ir, kept, idx);
    ir->tensor[kept].dtype = KAS_F32; /* as the sum, to which they are added */
    ir->tensor[kept].def = shifted_exp(l, span, max, idx);
    return kept;
}

/* Returns the exponential of an element: from the tensor `kept`, or computed if that is -1. */
static kas_ex exponential(kas_lower *l, const kas_span *span, int max, int kept, const kas_ix *idx)
{
    return kept < 0 ? shifted_exp(l, span, max, idx) : kas_ex_read(l->ir, kept, idx);
}

static int lower_inverse_sum(kas_lower *l, const kas_span *span, int max, int kept)
{
    const kas_along dims = kas_lower_along(l, span);
    kas_ix idx[KAS_IR_RANK];
    const int sum = kas_lower_along_tensor(l, &dims, idx);
    const kas_ex e = kas_lower_along_reduce(l, KAS_FN_REDUCE_SUM, &dims, sum,
                                            exponential(l, span, max, kept, idx));
    l->ir->tensor[sum].def = kas_ex_binary(l->ir, KAS_FN_DIV, kas_ex_const(l->ir, 1), e);
    return sum;
}

void kas_lower_softmax_of(kas_lower *l, const kas_span *span)
{
    kas_ir *ir = l->ir;
    const int max = lower_max(l, span);
    const int kept =
        l->ir->cpu && kas_lower_along_is_left(l) ? keep_exponentials(l, span, max) : -1;
    const int sum = lower_inverse_sum(l, span, max, kept);
    const int64_t q = kas_lower_q(l, span->operand);
    const int tensor = kas_lower_result(l, span->node, q);
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, span->node, idx);
    ir->tensor[tensor].def = kas_ex_binary(ir, KAS_FN_MUL, exponential(l, span, max, kept, idx),
                                           kas_ex_read(ir, sum, idx));
}

/* dx = y (dy - sum(dy y)) */
void kas_lower_softmax_gradient_of(kas_lower *l, const kas_span *span)
{
    kas_ir *ir = l->ir;
    const int node = span->node, in = span->operand;
    const kas_along dims = kas_lower_along(l, span);
    kas_ix idx[KAS_IR_RANK];
    const int inner = kas_lower_along_tensor(l, &dims, idx);
    const kas_ex product = kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, idx),
                                         kas_lower_read(l, node, idx));
    const kas_ex sum = kas_lower_along_reduce(l, KAS_FN_REDUCE_SUM, &dims, inner, product);
    ir->tensor[inner].def = sum;
    kas_lower_vars(l, in, idx);
    const kas_ex centred = kas_ex_binary(ir, KAS_FN_SUB, kas_lower_read_gradient(l, node, idx),
                                         kas_ex_read(ir, inner, idx));
    kas_lower_contribute(l, in,
                         kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read(l, node, idx), centred));
}

void kas_lower_softmax(kas_lower *l, int node)
{
    const kas_span span = kas_lower_span(l, node);
    kas_lower_softmax_of(l, &span);
}

void kas_lower_softmax_gradient(kas_lower *l, int node)
{
    const kas_span span = kas_lower_span(l, node);
    kas_lower_softmax_gradient_of(l, &span);
}
