/* softmax over consecutive dims: y = exp(x - max) * (1 / sum), with max and 1 / sum as tensors of
 * their own whose softmax dims have size 1: one division a row. */
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

static int lower_inverse_sum(kas_lower *l, const kas_span *span, int max)
{
    const kas_along dims = kas_lower_along(l, span);
    kas_ix idx[KAS_IR_RANK];
    const int sum = kas_lower_along_tensor(l, &dims, idx);
    const kas_ex e =
        kas_lower_along_reduce(l, KAS_FN_REDUCE_SUM, &dims, sum, shifted_exp(l, span, max, idx));
    l->ir->tensor[sum].def = kas_ex_binary(l->ir, KAS_FN_DIV, kas_ex_const(l->ir, 1), e);
    return sum;
}

void kas_lower_softmax_of(kas_lower *l, const kas_span *span)
{
    kas_ir *ir = l->ir;
    const int max = lower_max(l, span), sum = lower_inverse_sum(l, span, max);
    const int64_t q = kas_lower_q(l, span->operand);
    const int tensor = kas_lower_result(l, span->node, q);
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, span->node, idx);
    ir->tensor[tensor].def =
        kas_ex_binary(ir, KAS_FN_MUL, shifted_exp(l, span, max, idx), kas_ex_read(ir, sum, idx));
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
