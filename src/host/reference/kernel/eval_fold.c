/* fold_avg and fold_max: one dim in the middle of the list goes away. */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

static double average(const kas_ref_view *s, const double *x, size_t o, size_t i)
{
    double sum = 0;
    for (size_t l = 0; l < s->length; l++)
        sum += x[kas_ref_at(s, o, l, i)];
    return sum / (double)s->length;
}

/* Returns the index of the largest element. The first index wins a tie; the first NaN
 * wins over everything. */
static uint32_t largest(const kas_ref_view *s, const double *x, size_t o, size_t i)
{
    size_t best = 0;
    for (size_t l = 1; l < s->length && !isnan(x[kas_ref_at(s, o, best, i)]); l++) {
        const double value = x[kas_ref_at(s, o, l, i)];
        if (isnan(value) || value > x[kas_ref_at(s, o, best, i)])
            best = l;
    }
    return (uint32_t)best;
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim + 1);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t i = 0; i < s.inner; i++) {
            size_t e = o * s.inner + i;
            if (n->node->op == KAS_OP_FOLD_AVG) {
                v->y[e] = average(&s, v->in[0], o, i);
                continue;
            }
            if (!v->frozen)
                v->branch[e] = largest(&s, v->in[0], o, i);
            v->y[e] = v->in[0][kas_ref_at(&s, o, v->branch[e], i)];
        }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim + 1);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t i = 0; i < s.inner; i++) {
            size_t e = o * s.inner + i;
            if (n->node->op == KAS_OP_FOLD_MAX)
                g->din[0][kas_ref_at(&s, o, v->branch[e], i)] += g->dy[e];
            else
                for (size_t l = 0; l < s.length; l++)
                    g->din[0][kas_ref_at(&s, o, l, i)] += g->dy[e] / (double)s.length;
        }
}

const kas_ref_op kas_eval_fold = {.forward = forward, .backward = backward};
