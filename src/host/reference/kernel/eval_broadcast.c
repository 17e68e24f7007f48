/* add, sub, mul, min, max: LHS tiled over RHS (paper, section 5). */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

/* The branches of min and max. Where an operand is NaN the result is NaN too, and neither operand
 * has lost. */
enum { TAKE_LHS, TAKE_RHS, TIE, UNORDERED };

/* Strips the common suffix, then the common prefix of what is left, by symbolic equality. */
static kas_status sizes(const kas_kernel *kernel, int i, kas_ref_node *out)
{
    const kas_node *lhs = &kernel->node[kernel->node[i].in[0]],
                   *rhs = &kernel->node[kernel->node[i].in[1]];
    int l_begin = 0, l_end = out->in[0].rank, r_end = out->in[1].rank;
    out->suffix = out->lhs = out->rhs = 1;
    while (l_end > 0 && r_end > 0) {
        kas_dim l = kas_shape_dim(&lhs->shape, l_end - 1);
        kas_dim r = kas_shape_dim(&rhs->shape, r_end - 1);
        if (!kas_dim_equal(&l, &r))
            break;
        l_end--;
        out->suffix *= out->in[1].size[--r_end];
    }
    while (l_begin < l_end && l_begin < r_end) {
        kas_dim l = kas_shape_dim(&lhs->shape, l_begin);
        kas_dim r = kas_shape_dim(&rhs->shape, l_begin);
        if (!kas_dim_equal(&l, &r))
            break;
        l_begin++;
    }
    for (int d = l_begin; d < l_end; d++)
        out->lhs *= out->in[0].size[d];
    for (int d = l_begin; d < r_end; d++)
        out->rhs *= out->in[1].size[d];
    if (out->rhs % out->lhs != 0)
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %zu elements cannot tile %zu", i,
                        out->lhs, out->rhs);
    return KAS_OK;
}

/* Returns the position of LHS that belongs to RHS position e: same prefix and suffix, flat index
 * modulo size. */
static size_t lhs_of(const kas_ref_node *n, size_t e)
{
    size_t s = e % n->suffix, f = e / n->suffix % n->rhs, p = e / n->suffix / n->rhs;
    return (p * n->lhs + f % n->lhs) * n->suffix + s;
}

static uint32_t decide(kas_op op, double l, double r)
{
    if (isnan(l) || isnan(r))
        return UNORDERED;
    if (l == r)
        return TIE;
    return (op == KAS_OP_MIN) == (l < r) ? TAKE_LHS : TAKE_RHS;
}

static double broadcast(kas_op op, uint32_t branch, double l, double r)
{
    switch (op) {
    case KAS_OP_ADD:
        return l + r;
    case KAS_OP_SUB:
        return l - r;
    case KAS_OP_MUL:
        return l * r;
    case KAS_OP_MIN:
    case KAS_OP_MAX:
        return branch == TAKE_LHS ? l : branch == TAKE_RHS ? r : branch == TIE ? (l + r) / 2 : NAN;
    default:
        return NAN;
    }
}

/* Computes dy/dlhs and dy/drhs of one element. */
static void slopes(kas_op op, uint32_t branch, double l, double r, double *dl, double *dr)
{
    *dl = *dr = NAN;
    if (op == KAS_OP_ADD || op == KAS_OP_SUB) {
        *dl = 1;
        *dr = op == KAS_OP_ADD ? 1 : -1;
    } else if (op == KAS_OP_MUL) {
        *dl = r;
        *dr = l;
    } else if (op == KAS_OP_MIN || op == KAS_OP_MAX) {
        *dl = branch == TAKE_RHS ? 0 : branch == TIE ? 0.5 : 1;
        *dr = branch == TAKE_LHS ? 0 : branch == TIE ? 0.5 : 1;
    }
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    for (size_t e = 0; e < n->out.elements; e++) {
        double l = v->in[0][lhs_of(n, e)], r = v->in[1][e];
        if (!v->frozen)
            v->branch[e] = decide(n->node->op, l, r);
        v->y[e] = broadcast(n->node->op, v->branch[e], l, r);
    }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    for (size_t e = 0; e < n->out.elements; e++) {
        double dl, dr;
        slopes(n->node->op, v->branch[e], v->in[0][lhs_of(n, e)], v->in[1][e], &dl, &dr);
        g->din[0][lhs_of(n, e)] += g->dy[e] * dl;
        g->din[1][e] += g->dy[e] * dr;
    }
}

const kas_ref_op kas_eval_broadcast = {forward, backward, sizes};
