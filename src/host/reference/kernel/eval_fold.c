/* fold_avg, fold_max and softmax: things done along dims in the middle of the list. */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

kas_ref_view kas_ref_view_of(const kas_ref_shape *shape, int begin, int end)
{
    kas_ref_view s = {1, 1, 1};
    for (int d = 0; d < shape->rank; d++)
        *(d < begin ? &s.outer : d < end ? &s.length : &s.inner) *= shape->size[d];
    return s;
}

static double average(const kas_ref_view *s, const double *x, size_t o, size_t i)
{
    double sum = 0;
    for (size_t l = 0; l < s->length; l++)
        sum += x[kas_ref_at(s, o, l, i)];
    return sum / (double)s->length;
}

/* The first index wins a tie; the first NaN wins over everything. */
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

static void fold_forward(const kas_ref_node *n, const kas_ref_values *v)
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

static void fold_backward(const kas_ref_node *n, const kas_ref_values *v,
                          const kas_ref_gradients *g)
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

static void softmax_forward(const kas_ref_node *n, const kas_ref_values *v)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t i = 0; i < s.inner; i++) {
            double max = v->in[0][kas_ref_at(&s, o, largest(&s, v->in[0], o, i), i)], sum = 0;
            for (size_t l = 0; l < s.length; l++)
                sum += exp(v->in[0][kas_ref_at(&s, o, l, i)] - max);
            for (size_t l = 0; l < s.length; l++)
                v->y[kas_ref_at(&s, o, l, i)] = exp(v->in[0][kas_ref_at(&s, o, l, i)] - max) / sum;
        }
}

static void softmax_backward(const kas_ref_node *n, const kas_ref_values *v,
                             const kas_ref_gradients *g)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t i = 0; i < s.inner; i++) {
            double dot = 0;
            for (size_t l = 0; l < s.length; l++)
                dot += g->dy[kas_ref_at(&s, o, l, i)] * v->y[kas_ref_at(&s, o, l, i)];
            for (size_t l = 0; l < s.length; l++) {
                size_t e = kas_ref_at(&s, o, l, i);
                g->din[0][e] += v->y[e] * (g->dy[e] - dot);
            }
        }
}

const kas_ref_op kas_ref_fold = {fold_forward, fold_backward};
const kas_ref_op kas_ref_softmax = {softmax_forward, softmax_backward};
