/* scale: y[o, l, i] = weight[l] * x[o, l, i], l flattening the dims [dim, dim_end). */
#include "host/reference/kernel/evaluate.h"

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t l = 0; l < s.length; l++)
            for (size_t i = 0; i < s.inner; i++) {
                size_t e = kas_ref_at(&s, o, l, i);
                v->y[e] = v->weight[l] * v->in[0][e];
            }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t l = 0; l < s.length; l++)
            for (size_t i = 0; i < s.inner; i++) {
                size_t e = kas_ref_at(&s, o, l, i);
                g->din[0][e] += v->weight[l] * g->dy[e];
                g->dweight[l] += v->in[0][e] * g->dy[e];
            }
}

const kas_ref_op kas_ref_scale = {forward, backward};
