/* group, group_all, shift, unfold, shuffle: every element of the result is one of the
 * input, or zero. */
#include "host/reference/kernel/evaluate.h"

/* How many groups a shuffle makes. */
static kas_status sizes(const kas_kernel *kernel, int i, kas_ref_node *out)
{
    const kas_node *node = &kernel->node[i];
    if (node->op != KAS_OP_SHUFFLE)
        return KAS_OK;
    if (out->shuffled == 0 || out->out.size[node->dim] % out->shuffled != 0)
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %u channels in %zu groups", i,
                        out->out.size[node->dim], out->shuffled);
    return KAS_OK;
}

static void to_coordinates(const kas_ref_shape *shape, size_t flat, long c[KAS_MAX_DIMS])
{
    for (int i = shape->rank - 1; i >= 0; i--) {
        c[i] = (long)(flat % shape->size[i]);
        flat /= shape->size[i];
    }
}

static size_t to_flat(const kas_ref_shape *shape, const long c[KAS_MAX_DIMS])
{
    size_t flat = 0;
    for (int i = 0; i < shape->rank; i++)
        flat = flat * shape->size[i] + (size_t)c[i];
    return flat;
}

/* y[i] = x[(i + offset) mod size] along the axis. */
static long shift_source(const kas_ref_node *n, size_t flat)
{
    long c[KAS_MAX_DIMS];
    bool is_h = n->node->axes == KAS_AXIS_H;
    int d = n->in[0].channels + (!is_h && n->in[0].has_h ? 1 : 0);
    long size = n->in[0].size[d];
    to_coordinates(&n->out, flat, c);
    c[d] = ((c[d] + n->node->offset) % size + size) % size;
    return (long)to_flat(&n->in[0], c);
}

/* y[.., kh, kw, h, w] = x[.., h + d (kh - K_H/2), w + d (kw - K_W/2)], zero outside: -1. */
static long unfold_source(const kas_ref_node *n, size_t flat)
{
    long from[KAS_MAX_DIMS], to[KAS_MAX_DIMS];
    const kas_ref_shape *in = &n->in[0];
    int next = in->channels; /* of the result: taps come after the channels, then H, W */
    long tap_h = 0, tap_w = 0;
    to_coordinates(&n->out, flat, from);
    for (int i = 0; i < in->channels; i++)
        to[i] = from[i];
    if (n->node->axes & KAS_AXIS_H)
        tap_h = (from[next++] - n->kernel_h / 2) * n->dilation;
    if (n->node->axes & KAS_AXIS_W)
        tap_w = (from[next++] - n->kernel_w / 2) * n->dilation;
    int d = in->channels;
    if (in->has_h) {
        to[d] = from[next++] + tap_h;
        if (to[d] < 0 || to[d] >= (long)in->size[d])
            return -1;
        d++;
    }
    if (in->has_w) {
        to[d] = from[next] + tap_w;
        if (to[d] < 0 || to[d] >= (long)in->size[d])
            return -1;
    }
    return (long)to_flat(in, to);
}

/* y[.., r * G + g, ..] = x[.., g * X/G + r, ..] */
static long shuffle_source(const kas_ref_node *n, size_t flat)
{
    long c[KAS_MAX_DIMS];
    const int d = n->node->dim;
    const long groups = (long)n->shuffled, each = (long)n->out.size[d] / groups;
    to_coordinates(&n->out, flat, c);
    c[d] = c[d] % groups * each + c[d] / groups;
    return (long)to_flat(&n->in[0], c);
}

static long source(const kas_ref_node *n, size_t flat)
{
    switch (n->node->op) {
    case KAS_OP_SHIFT:
        return shift_source(n, flat);
    case KAS_OP_UNFOLD:
        return unfold_source(n, flat);
    case KAS_OP_SHUFFLE:
        return shuffle_source(n, flat);
    default: /* group: X = G * X/G row-major, group_all: X = X * 1: the same order in memory */
        return (long)flat;
    }
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    for (size_t i = 0; i < n->out.elements; i++) {
        long s = source(n, i);
        v->y[i] = s < 0 ? 0 : v->in[0][s];
    }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    (void)v;
    for (size_t i = 0; i < n->out.elements; i++) {
        long s = source(n, i);
        if (s >= 0)
            g->din[0][s] += g->dy[i];
    }
}

const kas_ref_op kas_eval_rearrange = {forward, backward, sizes};
