/* scale: y[o, l, i] = weight[l] * x[o, l, i], l flattening the dims [dim, dim_end). */
#include "host/reference/kernel/evaluate.h"

static kas_status sizes(const kas_kernel *kernel, int i, kas_ref_node *out)
{
    const kas_node *node = &kernel->node[i];
    out->groups = kas_ref_view_of(&out->in[0], node->dim, node->dim_end).length;
    out->fan_in = out->fan_out = 1;
    return KAS_OK;
}

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

const kas_ref_op kas_eval_scale = {forward, backward, sizes};
