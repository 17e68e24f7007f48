/* Element-wise functions.  A branch is 0 where the function is cut off, 1 where it is not; abs has
 * 2 for the negative side.  NaN is on no side of any limit: nothing is cut off. */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

#define EXP_LIMIT 8.0
#define SQRT_OFFSET 0.01
#define SQUARE_LIMIT 100.0

static uint32_t decide(kas_op op, double x)
{
    switch (op) {
    case KAS_OP_RELU:
    case KAS_OP_SQRT:
        return isnan(x) || x > 0;
    case KAS_OP_EXP:
        return isnan(x) || x < EXP_LIMIT;
    case KAS_OP_SQUARE:
        return isnan(x) || fabs(x) < SQUARE_LIMIT;
    case KAS_OP_ABS:
        return isnan(x) || x > 0 ? 1 : x < 0 ? 2 : 0;
    default:
        return 1;
    }
}

static double function(kas_op op, uint32_t branch, double x)
{
    switch (op) {
    case KAS_OP_RELU:
        return branch ? x : 0;
    case KAS_OP_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case KAS_OP_SIGMOID:
        return 1 / (1 + exp(-x));
    case KAS_OP_TANH:
        return tanh(x);
    case KAS_OP_ABS:
        return branch == 1 ? x : branch == 2 ? -x : 0;
    case KAS_OP_EXP:
        return exp(branch ? x : EXP_LIMIT);
    case KAS_OP_NEG:
        return -x;
    case KAS_OP_SIN:
        return sin(x);
    case KAS_OP_SQRT:
        return sqrt((branch ? x : 0) + SQRT_OFFSET);
    case KAS_OP_SQUARE:
        return branch ? x * x : SQUARE_LIMIT * SQUARE_LIMIT;
    default:
        return NAN;
    }
}

static double derivative(kas_op op, uint32_t branch, double x)
{
    double y = function(op, branch, x);
    switch (op) {
    case KAS_OP_RELU:
        return branch ? 1 : 0;
    case KAS_OP_GELU:
        return (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    case KAS_OP_SIGMOID:
        return y * (1 - y);
    case KAS_OP_TANH:
        return 1 - y * y;
    case KAS_OP_ABS:
        return branch == 1 ? 1 : branch == 2 ? -1 : 0;
    case KAS_OP_EXP:
        return branch ? y : 0;
    case KAS_OP_NEG:
        return -1;
    case KAS_OP_SIN:
        return cos(x);
    case KAS_OP_SQRT:
        return branch ? 1 / (2 * y) : 0;
    case KAS_OP_SQUARE:
        return branch ? 2 * x : 0;
    default:
        return NAN;
    }
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    for (size_t i = 0; i < n->out.elements; i++) {
        if (!v->frozen)
            v->branch[i] = decide(n->node->op, v->in[0][i]);
        v->y[i] = function(n->node->op, v->branch[i], v->in[0][i]);
    }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    for (size_t i = 0; i < n->out.elements; i++)
        g->din[0][i] += g->dy[i] * derivative(n->node->op, v->branch[i], v->in[0][i]);
}

const kas_ref_op kas_eval_elementwise = {.forward = forward, .backward = backward};
