/* Element-wise functions of one input. The comparisons are chosen so that the branch taken at each
 * kink has the derivative of docs/primitives.md, and that a NaN goes through. */
#include <math.h>

#include "jit/lower/lower.h"

static kas_ex limit(kas_ir *ir, kas_ex x, double low, double high)
{
    kas_ex lo = kas_ex_const(ir, low), hi = kas_ex_const(ir, high);
    kas_ex below = kas_ex_select(ir, KAS_FN_LE, hi, x, hi, x);
    return kas_ex_select(ir, KAS_FN_LE, x, lo, lo, below);
}

static kas_ex gelu(kas_ir *ir, kas_ex x)
{
    kas_ex scaled = kas_ex_binary(ir, KAS_FN_MUL, x, kas_ex_const(ir, sqrt(0.5)));
    kas_ex erf1 =
        kas_ex_binary(ir, KAS_FN_ADD, kas_ex_const(ir, 1), kas_ex_unary(ir, KAS_FN_ERF, scaled));
    return kas_ex_binary(ir, KAS_FN_MUL, kas_ex_binary(ir, KAS_FN_MUL, kas_ex_const(ir, 0.5), x),
                         erf1);
}

static kas_ex apply(kas_ir *ir, kas_op op, kas_ex x)
{
    kas_ex zero = kas_ex_const(ir, 0);
    switch (op) {
    case KAS_OP_RELU:
        return kas_ex_select(ir, KAS_FN_LE, x, zero, zero, x);
    case KAS_OP_GELU:
        return gelu(ir, x);
    case KAS_OP_SIGMOID:
        return kas_ex_unary(ir, KAS_FN_SIGMOID, x);
    case KAS_OP_TANH:
        return kas_ex_unary(ir, KAS_FN_TANH, x);
    case KAS_OP_ABS:
        return kas_ex_unary(ir, KAS_FN_ABS, x);
    case KAS_OP_EXP: {
        kas_ex top = kas_ex_const(ir, 8);
        return kas_ex_unary(ir, KAS_FN_EXP, kas_ex_select(ir, KAS_FN_LE, top, x, top, x));
    }
    case KAS_OP_NEG:
        return kas_ex_unary(ir, KAS_FN_NEG, x);
    case KAS_OP_SIN:
        return kas_ex_unary(ir, KAS_FN_SIN, x);
    case KAS_OP_SQRT: {
        kas_ex positive = kas_ex_select(ir, KAS_FN_LE, x, zero, zero, x);
        return kas_ex_unary(ir, KAS_FN_SQRT,
                            kas_ex_binary(ir, KAS_FN_ADD, positive, kas_ex_const(ir, 0.01)));
    }
    case KAS_OP_SQUARE: {
        kas_ex c = limit(ir, x, -100, 100);
        return kas_ex_binary(ir, KAS_FN_MUL, c, c);
    }
    default:
        kas_ir_fail(
            ir, kas_fail(KAS_UNSUPPORTED, "primitive %s cannot be lowered", kas_op_get(op)->name));
        return 0;
    }
}

void kas_lower_elementwise(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const int tensor = kas_lower_result(l, node, kas_lower_q(l, n->in[0]));
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    l->ir->tensor[tensor].def = apply(l->ir, (kas_op)n->op, kas_lower_read(l, n->in[0], idx));
}

void kas_lower_elementwise_gradient(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, n->in[0], idx);
    kas_ex x = kas_lower_read(l, n->in[0], idx);
    kas_ex slope = kas_ex_diff(l->ir, apply(l->ir, (kas_op)n->op, x), x);
    kas_lower_contribute(
        l, n->in[0],
        kas_ex_binary(l->ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, idx), slope));
}
