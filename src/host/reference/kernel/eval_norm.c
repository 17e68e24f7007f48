/* norm: y = (x - mean)/sqrt(variance + 1e-5) along the dims [dim, dim_end), variance
 * over their number. */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

static const double epsilon = 1e-5;

static double mean_of(const kas_ref_view *s, const double *x, size_t o, size_t i)
{
    double sum = 0;
    for (size_t l = 0; l < s->length; l++)
        sum += x[kas_ref_at(s, o, l, i)];
    return sum / (double)s->length;
}

static double inverse_deviation(const kas_ref_view *s, const double *x, double mean, size_t o,
                                size_t i)
{
    double sum = 0;
    for (size_t l = 0; l < s->length; l++) {
        double centred = x[kas_ref_at(s, o, l, i)] - mean;
        sum += centred * centred;
    }
    return 1 / sqrt(sum / (double)s->length + epsilon);
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t i = 0; i < s.inner; i++) {
            double mean = kas_ref_inner(v, mean_of(&s, v->in[0], o, i));
            double inverse = inverse_deviation(&s, v->in[0], mean, o, i);
            for (size_t l = 0; l < s.length; l++) {
                size_t e = kas_ref_at(&s, o, l, i);
                v->y[e] = (v->in[0][e] - mean) * inverse;
            }
        }
}

/* dx = (dy - mean(dy) - y mean(dy y)) / deviation */
static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t i = 0; i < s.inner; i++) {
            double mean = kas_ref_inner(v, mean_of(&s, v->in[0], o, i)), dot = 0;
            double inverse = inverse_deviation(&s, v->in[0], mean, o, i);
            for (size_t l = 0; l < s.length; l++) {
                size_t e = kas_ref_at(&s, o, l, i);
                dot += g->dy[e] * v->y[e] / (double)s.length;
            }
            double mean_dy = kas_ref_inner(v, mean_of(&s, g->dy, o, i));
            dot = kas_ref_inner(v, dot);
            for (size_t l = 0; l < s.length; l++) {
                size_t e = kas_ref_at(&s, o, l, i);
                g->din[0][e] += (g->dy[e] - mean_dy - v->y[e] * dot) * inverse;
            }
        }
}

const kas_ref_op kas_eval_norm = {.forward = forward, .backward = backward};
