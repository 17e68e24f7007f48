/* One layer of a pass, by its operation. */
#include <string.h>

#include "host/reference/net/net_pass.h"

size_t kas_ref_layer_size(const kas_ref_pass *p, int i)
{
    const kas_layer *l = &p->net->net->layer[i];
    return (size_t)p->n * l->c * l->h * l->w;
}

/* The layer and its first input. */
typedef struct place {
    const kas_layer *l, *in;
    const double *x;
} place;

static place place_of(const kas_ref_pass *p, int i)
{
    const kas_layer *l = &p->net->net->layer[i];
    return (place){l, &p->net->net->layer[l->in[0]], p->act[l->in[0]]};
}

static double *value(const kas_ref_pass *p, int layer, int which)
{
    return kas_ref_net_param(p->net, layer, which)->value;
}

static double *gradient(const kas_ref_pass *p, int layer, int which)
{
    return kas_ref_net_param(p->net, layer, which)->grad;
}

static kas_ref_pool pool_of(const kas_layer *l)
{
    return (kas_ref_pool){l->kernel_h, l->kernel_w, l->stride,
                          l->pad_h,    l->pad_w,    l->count_include_pad};
}

/* Returns the first channel of input `k` in a concatenation. */
static int first_channel(const kas_ref_pass *p, const kas_layer *l, int k)
{
    int c = 0;
    for (int i = 0; i < k; i++)
        c += p->net->net->layer[l->in[i]].c;
    return c;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void conv_forward(kas_ref_pass *p, int i, double *y)
{
    const place a = place_of(p, i);
    kas_ref_conv_forward(p->n, a.in->c, a.in->h, a.in->w, a.l->c, a.l->kernel_h, a.l->kernel_w,
                         a.l->stride, a.l->pad_h, a.l->pad_w, a.l->groups, a.x, value(p, i, 0), y);
    if (a.l->bias)
        kas_ref_bias_forward(p->n, a.l->c, a.l->h, a.l->w, value(p, i, 1), y);
}

static void batch_norm_forward(kas_ref_pass *p, int i, const double *x, double *y)
{
    const kas_layer *l = &p->net->net->layer[i];
    double momentum = p->calibrate ? 1 : l->momentum;
    if (p->training)
        kas_ref_batch_norm_forward(p->n, l->c, l->h, l->w, l->eps, momentum, x, value(p, i, 0),
                                   value(p, i, 1), value(p, i, 2), value(p, i, 3), p->mean[i],
                                   p->rstd[i], y);
    else
        kas_ref_batch_norm_eval(p->n, l->c, l->h, l->w, l->eps, x, value(p, i, 0), value(p, i, 1),
                                value(p, i, 2), value(p, i, 3), y);
}

static void concat_forward(kas_ref_pass *p, int i, double *y)
{
    const kas_layer *l = &p->net->net->layer[i];
    size_t pixels = (size_t)l->h * l->w;
    for (int k = 0; k < l->inputs; k++) {
        size_t size = p->net->net->layer[l->in[k]].c * pixels;
        for (int b = 0; b < p->n; b++)
            memcpy(y + ((size_t)b * l->c + first_channel(p, l, k)) * pixels,
                   p->act[l->in[k]] + b * size, size * sizeof *y);
    }
}

static void dropout(kas_ref_pass *p, int i, const double *x, double *y)
{
    const kas_layer *l = &p->net->net->layer[i];
    if (p->training)
        kas_ref_dropout(p->n, l->c, l->h, l->w, l->probability, p->net->dropout_seed, (uint32_t)i,
                        p->net->dropout_step, x, y);
    else
        memcpy(y, x, kas_ref_layer_size(p, i) * sizeof *y);
}

/* Frees what a kernel keeps when no backward pass follows: its intermediates are much larger than
 * its output. */
static kas_status replaced_forward(kas_ref_pass *p, int i, const double *x, double *y)
{
    kas_status status = kas_ref_replaced_forward(p->net, i, p->n, x, y, &p->replaced[i]);
    if (!p->keep)
        kas_ref_replaced_free(&p->replaced[i]);
    return status;
}

static void pool_forward(const kas_ref_pass *p, int i, double *y)
{
    const place a = place_of(p, i);
    const kas_ref_pool pool = pool_of(a.l);
    if (a.l->op == KAS_LAYER_GLOBAL_AVG_POOL)
        kas_ref_global_avg_pool_forward(p->n, a.l->c, a.in->h, a.in->w, a.x, y);
    else if (a.l->op == KAS_LAYER_ADAPTIVE_AVG_POOL)
        kas_ref_adaptive_pool_forward(p->n, a.l->c, a.in->h, a.in->w, a.l->h, a.l->w, a.x, y);
    else if (a.l->op == KAS_LAYER_MAX_POOL)
        kas_ref_max_pool_forward(&pool, p->n, a.l->c, a.in->h, a.in->w, a.l->h, a.l->w, a.x, y);
    else
        kas_ref_avg_pool_forward(&pool, p->n, a.l->c, a.in->h, a.in->w, a.l->h, a.l->w, a.x, y);
}

kas_status kas_ref_layer_forward(kas_ref_pass *p, int i)
{
    const place a = place_of(p, i);
    size_t size = kas_ref_layer_size(p, i);
    double *y = p->act[i];
    if (kas_ref_replaced_target(p->net, i) >= 0)
        return replaced_forward(p, i, a.x, y);
    switch (a.l->op) {
    case KAS_LAYER_CONV:
        conv_forward(p, i, y);
        break;
    case KAS_LAYER_BATCH_NORM:
        batch_norm_forward(p, i, a.x, y);
        break;
    case KAS_LAYER_LAYER_NORM:
        kas_ref_layer_norm_forward(p->n, a.l->c, a.l->h, a.l->w, a.l->eps, a.x, value(p, i, 0),
                                   value(p, i, 1), y);
        break;
    case KAS_LAYER_ADD:
        for (size_t k = 0; k < size; k++)
            y[k] = a.x[k] + p->act[a.l->in[1]][k];
        break;
    case KAS_LAYER_MULTIPLY: {
        const kas_layer *other = &p->net->net->layer[a.l->in[1]];
        kas_ref_multiply_forward(p->n, a.l->c, a.l->h, a.l->w, other->h, other->w, a.x,
                                 p->act[a.l->in[1]], y);
        break;
    }
    case KAS_LAYER_CONCAT:
        concat_forward(p, i, y);
        break;
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
        pool_forward(p, i, y);
        break;
    case KAS_LAYER_SHORTCUT_A:
        kas_ref_shortcut_a_forward(p->n, a.in->c, a.in->h, a.in->w, a.l->c, a.l->stride, a.x, y);
        break;
    case KAS_LAYER_LINEAR:
        kas_ref_linear_forward(p->n, a.in->c, a.l->c, a.x, value(p, i, 0),
                               a.l->bias ? value(p, i, 1) : NULL, y);
        break;
    case KAS_LAYER_DROPOUT:
        dropout(p, i, a.x, y);
        break;
    case KAS_LAYER_FLATTEN: /* [c][h][w] is the order already */
        memcpy(y, a.x, size * sizeof *y);
        break;
    default:
        for (size_t k = 0; k < size; k++)
            y[k] = kas_ref_activation(a.l->op, a.x[k]);
    }
    return KAS_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

static void add_to(const kas_ref_pass *p, int layer, const double *piece)
{
    for (size_t k = 0; k < kas_ref_layer_size(p, layer); k++)
        p->grad[layer][k] += piece[k];
}

static void conv_backward(kas_ref_pass *p, int i, const double *dy, double *dx)
{
    const place a = place_of(p, i);
    kas_ref_conv_backward(p->n, a.in->c, a.in->h, a.in->w, a.l->c, a.l->kernel_h, a.l->kernel_w,
                          a.l->stride, a.l->pad_h, a.l->pad_w, a.l->groups, a.x, value(p, i, 0), dy,
                          dx, gradient(p, i, 0));
    if (a.l->bias)
        kas_ref_bias_backward(p->n, a.l->c, a.l->h, a.l->w, dy, gradient(p, i, 1));
}

static void concat_backward(kas_ref_pass *p, int i, const double *dy)
{
    const kas_layer *l = &p->net->net->layer[i];
    size_t pixels = (size_t)l->h * l->w;
    for (int k = 0; k < l->inputs; k++) {
        size_t size = p->net->net->layer[l->in[k]].c * pixels;
        for (int b = 0; b < p->n; b++)
            memcpy(p->piece[0] + b * size,
                   dy + ((size_t)b * l->c + first_channel(p, l, k)) * pixels, size * sizeof *dy);
        add_to(p, l->in[k], p->piece[0]);
    }
}

static void multiply_backward(kas_ref_pass *p, int i, const double *dy)
{
    const place a = place_of(p, i);
    const kas_layer *other = &p->net->net->layer[a.l->in[1]];
    kas_ref_multiply_backward(p->n, a.l->c, a.l->h, a.l->w, other->h, other->w, a.x,
                              p->act[a.l->in[1]], dy, p->piece[0], p->piece[1]);
    add_to(p, a.l->in[0], p->piece[0]);
    add_to(p, a.l->in[1], p->piece[1]);
}

static void pool_backward(const kas_ref_pass *p, int i, const double *dy, double *dx)
{
    const place a = place_of(p, i);
    const kas_ref_pool pool = pool_of(a.l);
    if (a.l->op == KAS_LAYER_GLOBAL_AVG_POOL)
        kas_ref_global_avg_pool_backward(p->n, a.l->c, a.in->h, a.in->w, dy, dx);
    else if (a.l->op == KAS_LAYER_ADAPTIVE_AVG_POOL)
        kas_ref_adaptive_pool_backward(p->n, a.l->c, a.in->h, a.in->w, a.l->h, a.l->w, dy, dx);
    else if (a.l->op == KAS_LAYER_MAX_POOL)
        kas_ref_max_pool_backward(&pool, p->n, a.l->c, a.in->h, a.in->w, a.l->h, a.l->w, a.x, dy,
                                  dx);
    else
        kas_ref_avg_pool_backward(&pool, p->n, a.l->c, a.in->h, a.in->w, a.l->h, a.l->w, dy, dx);
}

/* Computes dx for layers with one input. */
static kas_status single_backward(kas_ref_pass *p, int i, const double *dy, double *dx)
{
    const place a = place_of(p, i);
    size_t size = kas_ref_layer_size(p, i);
    switch (a.l->op) {
    case KAS_LAYER_CONV:
        conv_backward(p, i, dy, dx);
        break;
    case KAS_LAYER_BATCH_NORM:
        kas_ref_batch_norm_backward(p->n, a.l->c, a.l->h, a.l->w, a.x, value(p, i, 0), p->mean[i],
                                    p->rstd[i], dy, dx, gradient(p, i, 0), gradient(p, i, 1));
        break;
    case KAS_LAYER_LAYER_NORM:
        kas_ref_layer_norm_backward(p->n, a.l->c, a.l->h, a.l->w, a.l->eps, a.x, value(p, i, 0), dy,
                                    dx, gradient(p, i, 0), gradient(p, i, 1));
        break;
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
        pool_backward(p, i, dy, dx);
        break;
    case KAS_LAYER_SHORTCUT_A:
        kas_ref_shortcut_a_backward(p->n, a.in->c, a.in->h, a.in->w, a.l->c, a.l->stride, dy, dx);
        break;
    case KAS_LAYER_LINEAR:
        kas_ref_linear_backward(p->n, a.in->c, a.l->c, a.x, value(p, i, 0), dy, dx,
                                gradient(p, i, 0), a.l->bias ? gradient(p, i, 1) : NULL);
        break;
    case KAS_LAYER_DROPOUT:
        dropout(p, i, dy, dx);
        break;
    case KAS_LAYER_FLATTEN:
        memcpy(dx, dy, size * sizeof *dx);
        break;
    default:
        for (size_t k = 0; k < size; k++)
            dx[k] = kas_ref_activation_slope(a.l->op, a.x[k]) * dy[k];
    }
    return KAS_OK;
}

kas_status kas_ref_layer_backward(kas_ref_pass *p, int i)
{
    const kas_layer *l = &p->net->net->layer[i];
    const double *dy = p->grad[i];
    double *dx = p->piece[0];
    switch (l->op) {
    case KAS_LAYER_ADD:
        add_to(p, l->in[0], dy);
        add_to(p, l->in[1], dy);
        return KAS_OK;
    case KAS_LAYER_MULTIPLY:
        multiply_backward(p, i, dy);
        return KAS_OK;
    case KAS_LAYER_CONCAT:
        concat_backward(p, i, dy);
        return KAS_OK;
    default:
        break;
    }
    if (kas_ref_replaced_target(p->net, i) >= 0)
        KAS_TRY(kas_ref_replaced_backward(p->net, i, p->n, dy, dx, &p->replaced[i]));
    else
        KAS_TRY(single_backward(p, i, dy, dx));
    add_to(p, l->in[0], dx);
    return KAS_OK;
}
