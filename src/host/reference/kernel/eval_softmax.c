/* softmax: exp(x - max)/sum along the dims [dim, dim_end).  A NaN among them makes the sum NaN. */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t i = 0; i < s.inner; i++) {
            double max = v->in[0][kas_ref_at(&s, o, 0, i)], sum = 0;
            for (size_t l = 1; l < s.length; l++)
                if (v->in[0][kas_ref_at(&s, o, l, i)] > max)
                    max = v->in[0][kas_ref_at(&s, o, l, i)];
            for (size_t l = 0; l < s.length; l++)
                sum += exp(v->in[0][kas_ref_at(&s, o, l, i)] - max);
            for (size_t l = 0; l < s.length; l++)
                v->y[kas_ref_at(&s, o, l, i)] = exp(v->in[0][kas_ref_at(&s, o, l, i)] - max) / sum;
        }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
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

const kas_ref_op kas_eval_softmax = {.forward = forward, .backward = backward};
