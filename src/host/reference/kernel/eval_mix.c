/* mix: y[o, u, i] = sum over l of weight[u][l] * x[o, l, i], l flattening the dims [dim, dim_end),
 * o and i the dims in front of them and behind. */
#include "host/reference/kernel/evaluate.h"

static kas_status sizes(const kas_kernel *kernel, int i, kas_ref_node *out)
{
    const kas_node *node = &kernel->node[i];
    out->groups = 1;
    out->fan_in = kas_ref_view_of(&out->in[0], node->dim, node->dim_end).length;
    out->fan_out = out->out.size[node->dim];
    return KAS_OK;
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    kas_ref_view r = {s.outer, n->fan_out, s.inner};
    for (size_t o = 0; o < s.outer; o++)
        for (size_t u = 0; u < r.length; u++)
            for (size_t i = 0; i < s.inner; i++) {
                double sum = 0;
                for (size_t l = 0; l < s.length; l++)
                    sum += v->weight[u * s.length + l] * v->in[0][kas_ref_at(&s, o, l, i)];
                v->y[kas_ref_at(&r, o, u, i)] = sum;
            }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    kas_ref_view s = kas_ref_view_of(&n->in[0], n->node->dim, n->node->dim_end);
    kas_ref_view r = {s.outer, n->fan_out, s.inner};
    for (size_t o = 0; o < s.outer; o++)
        for (size_t u = 0; u < r.length; u++)
            for (size_t i = 0; i < s.inner; i++)
                for (size_t l = 0; l < s.length; l++) {
                    double dy = g->dy[kas_ref_at(&r, o, u, i)];
                    size_t x = kas_ref_at(&s, o, l, i);
                    g->din[0][x] += v->weight[u * s.length + l] * dy;
                    g->dweight[u * s.length + l] += v->in[0][x] * dy;
                }
}

const kas_ref_op kas_eval_mix = {forward, backward, sizes};
