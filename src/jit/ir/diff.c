/* Symbolic derivative of a scalar expression with respect to one of its reads.
 *
 * The kinks follow docs/primitives.md: min and max halve the gradient on a tie; SELECT
 * differentiates the branch it takes, so each primitive chooses its value at the kink by the
 * comparison it is written with. */
#include <math.h>

#include "jit/ir/ir.h"

#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

/* Returns f'(a), where e = f(a). */
static kas_ex outer_derivative(kas_ir *ir, kas_ex e, const kas_ex_node *node)
{
    kas_ex a = node->a[0], one = kas_ex_const(ir, 1), zero = 0;
    switch ((kas_fn)node->fn) {
    case KAS_FN_NEG:
        return kas_ex_const(ir, -1);
    case KAS_FN_ABS:
        return kas_ex_select(ir, KAS_FN_LT, a, zero, kas_ex_const(ir, -1),
                             kas_ex_select(ir, KAS_FN_EQ, a, zero, kas_ex_const(ir, 0), one));
    case KAS_FN_EXP:
        return e;
    case KAS_FN_TANH:
        return kas_ex_sub(ir, one, kas_ex_mul(ir, e, e));
    case KAS_FN_ERF:
        return kas_ex_mul(
            ir, kas_ex_const(ir, 2 / sqrt(M_PI)),
            kas_ex_unary(ir, KAS_FN_EXP, kas_ex_unary(ir, KAS_FN_NEG, kas_ex_mul(ir, a, a))));
    case KAS_FN_SQRT:
        return kas_ex_binary(ir, KAS_FN_DIV, kas_ex_const(ir, 0.5), e);
    case KAS_FN_SIN:
        return kas_ex_unary(ir, KAS_FN_COS, a);
    case KAS_FN_COS:
        return kas_ex_unary(ir, KAS_FN_NEG, kas_ex_unary(ir, KAS_FN_SIN, a));
    case KAS_FN_SIGMOID:
        return kas_ex_mul(ir, e, kas_ex_sub(ir, one, e));
    default:
        kas_ir_fail(ir, kas_fail(KAS_FAILURE, "function %d has no derivative", node->fn));
        return 0;
    }
}

/* Returns the slope of min (max) for the first operand, or for the second: 0 where it took the
 * other one, 1/2 on a tie, else 1. Beside a NaN both operands get the gradient. */
static kas_ex winner(kas_ir *ir, kas_fn fn, kas_ex x, kas_ex y, bool first)
{
    const bool less_loses = (fn == KAS_FN_MAX) == first;
    const kas_ex half = kas_ex_const(ir, 0.5), one = kas_ex_const(ir, 1);
    return kas_ex_select(ir, KAS_FN_LT, less_loses ? x : y, less_loses ? y : x, kas_ex_const(ir, 0),
                         kas_ex_select(ir, KAS_FN_EQ, x, y, half, one));
}

kas_ex kas_ex_partial(kas_ir *ir, kas_fn fn, kas_ex a, kas_ex b, bool first)
{
    switch (fn) {
    case KAS_FN_ADD:
        return kas_ex_const(ir, 1);
    case KAS_FN_SUB:
        return kas_ex_const(ir, first ? 1 : -1);
    case KAS_FN_MUL:
        return first ? b : a;
    case KAS_FN_MIN:
    case KAS_FN_MAX:
        return winner(ir, fn, a, b, first);
    default: /* DIV is not used by any primitive's value that is differentiated here */
        kas_ir_fail(ir, kas_fail(KAS_FAILURE, "function %d has no derivative", fn));
        return 0;
    }
}

static kas_ex diff_binary(kas_ir *ir, const kas_ex_node *node, kas_ex leaf)
{
    const kas_ex a = node->a[0], b = node->a[1];
    const kas_ex da = kas_ex_diff(ir, a, leaf), db = kas_ex_diff(ir, b, leaf);
    const kas_ex first = kas_ex_mul(ir, kas_ex_partial(ir, (kas_fn)node->fn, a, b, true), da);
    return kas_ex_binary(ir, KAS_FN_ADD, first,
                         kas_ex_mul(ir, kas_ex_partial(ir, (kas_fn)node->fn, a, b, false), db));
}

kas_ex kas_ex_diff(kas_ir *ir, kas_ex e, kas_ex leaf)
{
    const kas_ex_node *node = kas_ex_get(ir, e);
    if (e == leaf)
        return kas_ex_const(ir, 1);
    switch ((kas_ex_kind)node->kind) {
    case KAS_EX_UNARY: {
        kas_ex inner = kas_ex_diff(ir, node->a[0], leaf);
        return inner == 0 ? 0 : kas_ex_mul(ir, outer_derivative(ir, e, node), inner);
    }
    case KAS_EX_BINARY:
        return diff_binary(ir, node, leaf);
    case KAS_EX_SELECT:
        return kas_ex_select(ir, (kas_fn)node->fn, node->a[0], node->a[1],
                             kas_ex_diff(ir, node->a[2], leaf), kas_ex_diff(ir, node->a[3], leaf));
    case KAS_EX_GUARD:
        return kas_ex_guard(ir, node->ix, node->low, node->high, kas_ex_diff(ir, node->a[0], leaf));
    case KAS_EX_REDUCE:
    case KAS_EX_ROW:
        kas_ir_fail(ir, kas_fail(KAS_FAILURE, "a reduction is not differentiated symbolically"));
        return 0;
    default:
        return 0; /* other reads, constants, indices */
    }
}
