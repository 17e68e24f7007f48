/* norm over consecutive dims: y = (x - mean) * inverse, with the mean and the inverse deviation as
 * tensors of their own whose dims have size 1: one division and one root a row. */
#include "jit/lower/lower.h"

static const double epsilon = 1e-5; /* docs/primitives.md */

/* Returns the mean of `body` over the dims. */
static kas_ex mean_of(kas_lower *l, const kas_along *dims, int tensor, kas_ex body)
{
    const kas_ex sum = kas_lower_along_reduce(l, KAS_FN_REDUCE_SUM, dims, tensor, body);
    return kas_ex_mul(l->ir, sum, kas_ex_const(l->ir, 1.0 / (double)dims->elements));
}

static int lower_mean(kas_lower *l, int node)
{
    const kas_span span = kas_lower_span(l, node);
    const kas_along dims = kas_lower_along(l, &span);
    kas_ix idx[KAS_IR_RANK];
    const int mean = kas_lower_along_tensor(l, &dims, idx);
    const kas_ex x = kas_lower_read(l, l->kernel->node[node].in[0], idx);
    const kas_ex e = mean_of(l, &dims, mean, x);
    l->ir->tensor[mean].def = e;
    return mean;
}

static kas_ex centred(kas_lower *l, int node, int mean, const kas_ix *idx)
{
    return kas_ex_sub(l->ir, kas_lower_read(l, l->kernel->node[node].in[0], idx),
                      kas_ex_read(l->ir, mean, idx));
}

static int lower_inverse(kas_lower *l, int node, int mean)
{
    kas_ir *ir = l->ir;
    const kas_span span = kas_lower_span(l, node);
    const kas_along dims = kas_lower_along(l, &span);
    kas_ix idx[KAS_IR_RANK];
    const int inverse = kas_lower_along_tensor(l, &dims, idx);
    const kas_ex c = centred(l, node, mean, idx);
    const kas_ex variance = mean_of(l, &dims, inverse, kas_ex_mul(ir, c, c));
    const kas_ex deviation = kas_ex_unary(
        ir, KAS_FN_SQRT, kas_ex_binary(ir, KAS_FN_ADD, variance, kas_ex_const(ir, epsilon)));
    ir->tensor[inverse].def = kas_ex_binary(ir, KAS_FN_DIV, kas_ex_const(ir, 1), deviation);
    return inverse;
}

void kas_lower_norm(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const int in = l->kernel->node[node].in[0];
    const int mean = lower_mean(l, node), inverse = lower_inverse(l, node, mean);
    const int tensor = kas_lower_result(l, node, kas_lower_q(l, in));
    kas_ix idx[KAS_IR_RANK];
    l->aux[node] = inverse;
    kas_lower_vars(l, node, idx);
    ir->tensor[tensor].def =
        kas_ex_mul(ir, centred(l, node, mean, idx), kas_ex_read(ir, inverse, idx));
}

/* Returns the mean over the dims of dy, or of dy * y. */
static int gradient_mean(kas_lower *l, int node, bool times_y)
{
    const kas_span span = kas_lower_span(l, node);
    const kas_along dims = kas_lower_along(l, &span);
    kas_ix idx[KAS_IR_RANK];
    const int mean = kas_lower_along_tensor(l, &dims, idx);
    kas_ex body = kas_lower_read_gradient(l, node, idx);
    if (times_y)
        body = kas_ex_mul(l->ir, body, kas_lower_read(l, node, idx));
    const kas_ex e = mean_of(l, &dims, mean, body);
    l->ir->tensor[mean].def = e;
    return mean;
}

/* dx = (dy - mean(dy) - y mean(dy y)) * inverse */
void kas_lower_norm_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const int in = l->kernel->node[node].in[0];
    const int mean = gradient_mean(l, node, false), dot = gradient_mean(l, node, true);
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, in, idx);
    kas_ex e = kas_ex_sub(ir, kas_lower_read_gradient(l, node, idx), kas_ex_read(ir, mean, idx));
    e = kas_ex_sub(ir, e, kas_ex_mul(ir, kas_lower_read(l, node, idx), kas_ex_read(ir, dot, idx)));
    kas_lower_contribute(l, in, kas_ex_mul(ir, e, kas_ex_read(ir, l->aux[node], idx)));
}
