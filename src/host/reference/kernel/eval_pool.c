/* pool_avg and pool_max.  Tensors are [channels][h][w], h or w 1 where the tensor has lost it; the
 * window of a pixel is what lies inside the image of rows h - K_H/2 to h - K_H/2 + K_H - 1, and of
 * columns likewise. */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

typedef struct window {
    size_t h, w; /* of the image */
    size_t top, bottom, left, right,
        plane; /* of one pixel: rows, columns [.., ..), first element */
} window;

static void range(size_t at, size_t size, uint32_t kernel, size_t *begin, size_t *end)
{
    const size_t before = kernel / 2, after = kernel - before;
    *begin = at > before ? at - before : 0;
    *end = at + after < size ? at + after : size;
}

static window window_at(const kas_ref_node *n, size_t e)
{
    const kas_ref_shape *in = &n->in[0];
    window s = {.h = in->has_h ? in->size[in->channels] : 1,
                .w = in->has_w ? in->size[in->rank - 1] : 1};
    range(e / s.w % s.h, s.h, n->kernel_h, &s.top, &s.bottom);
    range(e % s.w, s.w, n->kernel_w, &s.left, &s.right);
    s.plane = e / (s.h * s.w) * (s.h * s.w);
    return s;
}

static double average(const window *s, const double *x)
{
    double sum = 0;
    for (size_t h = s->top; h < s->bottom; h++)
        for (size_t w = s->left; w < s->right; w++)
            sum += x[s->plane + h * s->w + w];
    return sum / (double)((s->bottom - s->top) * (s->right - s->left));
}

/* Returns the largest element. The first one in row-major order wins a tie; the first NaN
 * wins over everything. */
static size_t largest(const window *s, const double *x)
{
    size_t best = s->plane + s->top * s->w + s->left;
    for (size_t h = s->top; h < s->bottom; h++)
        for (size_t w = s->left; w < s->right; w++) {
            const size_t at = s->plane + h * s->w + w;
            if (isnan(x[best]))
                return best;
            if (isnan(x[at]) || x[at] > x[best])
                best = at;
        }
    return best;
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    for (size_t e = 0; e < n->out.elements; e++) {
        const window s = window_at(n, e);
        if (n->node->op == KAS_OP_POOL_AVG) {
            v->y[e] = average(&s, v->in[0]);
            continue;
        }
        if (!v->frozen)
            v->branch[e] = (uint32_t)largest(&s, v->in[0]);
        v->y[e] = v->in[0][v->branch[e]];
    }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    for (size_t e = 0; e < n->out.elements; e++) {
        if (n->node->op == KAS_OP_POOL_MAX) {
            g->din[0][v->branch[e]] += g->dy[e];
            continue;
        }
        const window s = window_at(n, e);
        const double count = (double)((s.bottom - s.top) * (s.right - s.left));
        for (size_t h = s.top; h < s.bottom; h++)
            for (size_t w = s.left; w < s.right; w++)
                g->din[0][s.plane + h * s.w + w] += g->dy[e] / count;
    }
}

const kas_ref_op kas_eval_pool = {.forward = forward, .backward = backward};
