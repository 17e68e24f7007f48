/* A forward and a backward pass of a whole network: every layer's tensor is kept, nothing is fused
 * or reused.  The gradient of a tensor that several layers read is the sum of what each adds. */
#include "host/reference/net_replaced.h"

#include <stdlib.h>
#include <string.h>

typedef struct pass {
    kas_ref_net *net;
    int n;
    bool training;        /* batch norms use, and move the running statistics by, the batch's own */
    bool calibrate;       /* moves them all the way, whatever a layer's momentum is */
    bool keep;            /* what kernels need for the backward pass */
    double **act, **grad; /* [layers] tensors [n][c][h][w] and their gradients */
    double **mean, **rstd;      /* [layers] statistics of batch norms */
    kas_ref_replaced *replaced; /* [layers] */
    double *piece;              /* gradient of one input of one layer, added to grad */
} pass;

static size_t layer_size(const pass *p, int i)
{
    const kas_layer *l = &p->net->net->layer[i];
    return (size_t)p->n * l->c * l->h * l->w;
}

static void pass_free(pass *p)
{
    double **groups[] = {p->act, p->grad, p->mean, p->rstd};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (int i = 0; groups[g] && i < p->net->net->layers; i++)
            free(groups[g][i]);
        free(groups[g]);
    }
    for (int i = 0; p->replaced && i < p->net->net->layers; i++)
        kas_ref_replaced_free(&p->replaced[i]);
    free(p->replaced);
    free(p->piece);
}

static bool pass_allocate(pass *p)
{
    int layers = p->net->net->layers;
    size_t largest = 0;
    p->act = calloc(layers, sizeof *p->act);
    p->grad = calloc(layers, sizeof *p->grad);
    p->mean = calloc(layers, sizeof *p->mean);
    p->rstd = calloc(layers, sizeof *p->rstd);
    p->replaced = calloc(layers, sizeof *p->replaced);
    if (!p->act || !p->grad || !p->mean || !p->rstd || !p->replaced)
        return false;
    for (int i = 0; i < layers; i++) {
        size_t size = layer_size(p, i);
        int c = p->net->net->layer[i].c;
        p->act[i] = malloc(size * sizeof(double));
        p->grad[i] = calloc(size, sizeof(double));
        p->mean[i] = calloc(c, sizeof(double));
        p->rstd[i] = calloc(c, sizeof(double));
        if (!p->act[i] || !p->grad[i] || !p->mean[i] || !p->rstd[i])
            return false;
        largest = size > largest ? size : largest;
    }
    p->piece = malloc(largest * sizeof(double));
    return p->piece != NULL;
}

static double *value(const pass *p, int layer, int which)
{
    return kas_ref_net_param(p->net, layer, which)->value;
}

static double *gradient(const pass *p, int layer, int which)
{
    return kas_ref_net_param(p->net, layer, which)->grad;
}

static void batch_norm_forward(pass *p, int i, const double *x, double *y)
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

/* Without a backward pass nothing is kept: a kernel's intermediates are much larger than its
 * output. */
static kas_status replaced_forward(pass *p, int i, const double *x, double *y)
{
    kas_status status = kas_ref_replaced_forward(p->net, i, p->n, x, y, &p->replaced[i]);
    if (!p->keep)
        kas_ref_replaced_free(&p->replaced[i]);
    return status;
}

static kas_status forward_layer(pass *p, int i)
{
    const kas_layer *l = &p->net->net->layer[i];
    const kas_layer *in = &p->net->net->layer[l->in[0]];
    const double *x = p->act[l->in[0]];
    double *y = p->act[i];
    if (kas_ref_replaced_target(p->net, i) >= 0)
        return replaced_forward(p, i, x, y);
    switch (l->op) {
    case KAS_LAYER_CONV:
        kas_ref_conv_forward(p->n, in->c, in->h, in->w, l->c, l->kernel_h, l->kernel_w, l->stride,
                             l->pad_h, l->pad_w, l->groups, x, value(p, i, 0), y);
        break;
    case KAS_LAYER_BATCH_NORM:
        batch_norm_forward(p, i, x, y);
        break;
    case KAS_LAYER_RELU:
        for (size_t k = 0; k < layer_size(p, i); k++)
            y[k] = x[k] > 0 ? x[k] : 0;
        break;
    case KAS_LAYER_ADD:
        for (size_t k = 0; k < layer_size(p, i); k++)
            y[k] = x[k] + p->act[l->in[1]][k];
        break;
    case KAS_LAYER_AVG_POOL:
        kas_ref_avg_pool_forward(p->n, in->c, in->h, in->w, l->stride, x, y);
        break;
    case KAS_LAYER_GLOBAL_AVG_POOL:
        kas_ref_global_avg_pool_forward(p->n, in->c, in->h, in->w, x, y);
        break;
    case KAS_LAYER_SHORTCUT_A:
        kas_ref_shortcut_a_forward(p->n, in->c, in->h, in->w, l->c, l->stride, x, y);
        break;
    case KAS_LAYER_LINEAR:
        kas_ref_linear_forward(p->n, in->c * in->h * in->w, l->c, x, value(p, i, 0), value(p, i, 1),
                               y);
        break;
    default:
        break;
    }
    return KAS_OK;
}

static void add_to(const pass *p, int layer, const double *piece)
{
    for (size_t k = 0; k < layer_size(p, layer); k++)
        p->grad[layer][k] += piece[k];
}

static kas_status backward_layer(pass *p, int i)
{
    const kas_layer *l = &p->net->net->layer[i];
    const kas_layer *in = &p->net->net->layer[l->in[0]];
    const double *x = p->act[l->in[0]], *dy = p->grad[i];
    double *dx = p->piece;
    if (kas_ref_replaced_target(p->net, i) >= 0) {
        KAS_TRY(kas_ref_replaced_backward(p->net, i, p->n, dy, dx, &p->replaced[i]));
        add_to(p, l->in[0], dx);
        return KAS_OK;
    }
    switch (l->op) {
    case KAS_LAYER_CONV:
        kas_ref_conv_backward(p->n, in->c, in->h, in->w, l->c, l->kernel_h, l->kernel_w, l->stride,
                              l->pad_h, l->pad_w, l->groups, x, value(p, i, 0), dy, dx,
                              gradient(p, i, 0));
        break;
    case KAS_LAYER_BATCH_NORM:
        kas_ref_batch_norm_backward(p->n, l->c, l->h, l->w, x, value(p, i, 0), p->mean[i],
                                    p->rstd[i], dy, dx, gradient(p, i, 0), gradient(p, i, 1));
        break;
    case KAS_LAYER_RELU:
        for (size_t k = 0; k < layer_size(p, i); k++)
            dx[k] = x[k] > 0 ? dy[k] : 0;
        break;
    case KAS_LAYER_ADD:
        memcpy(dx, dy, layer_size(p, i) * sizeof *dx);
        add_to(p, l->in[1], dx);
        break;
    case KAS_LAYER_AVG_POOL:
        kas_ref_avg_pool_backward(p->n, in->c, in->h, in->w, l->stride, dy, dx);
        break;
    case KAS_LAYER_GLOBAL_AVG_POOL:
        kas_ref_global_avg_pool_backward(p->n, in->c, in->h, in->w, dy, dx);
        break;
    case KAS_LAYER_SHORTCUT_A:
        kas_ref_shortcut_a_backward(p->n, in->c, in->h, in->w, l->c, l->stride, dy, dx);
        break;
    case KAS_LAYER_LINEAR:
        kas_ref_linear_backward(p->n, in->c * in->h * in->w, l->c, x, value(p, i, 0), dy, dx,
                                gradient(p, i, 0), gradient(p, i, 1));
        break;
    default:
        return KAS_OK;
    }
    add_to(p, l->in[0], dx);
    return KAS_OK;
}

static kas_status forward(pass *p, const double *images)
{
    memcpy(p->act[0], images, layer_size(p, 0) * sizeof *images);
    for (int i = 1; i < p->net->net->layers; i++)
        KAS_TRY(forward_layer(p, i));
    return KAS_OK;
}

kas_status kas_ref_net_step(kas_ref_net *net, int n, const double *images, const uint16_t *labels,
                            double smoothing, double *loss, double *logits)
{
    pass p = {.net = net, .n = n, .training = true, .keep = true};
    kas_status status = KAS_OK;
    int last = net->net->layers - 1;
    if (!pass_allocate(&p)) {
        status = kas_fail(KAS_NO_MEMORY, "reference network: no memory for a step of %d images", n);
        goto out;
    }
    KAS_TRY_GOTO(forward(&p, images), out);
    *loss =
        kas_ref_cross_entropy(n, net->net->classes, smoothing, p.act[last], labels, p.grad[last]);
    if (logits)
        memcpy(logits, p.act[last], layer_size(&p, last) * sizeof *logits);
    for (int i = last; i > 0; i--)
        KAS_TRY_GOTO(backward_layer(&p, i), out);
out:
    pass_free(&p);
    return status;
}

/* A forward pass alone; `logits` may be NULL. */
static kas_status forward_only(pass p, const double *images, double *logits)
{
    kas_status status = KAS_OK;
    int last = p.net->net->layers - 1;
    if (!pass_allocate(&p)) {
        status = kas_fail(KAS_NO_MEMORY, "reference network: no memory for %d images", p.n);
        goto out;
    }
    KAS_TRY_GOTO(forward(&p, images), out);
    if (logits)
        memcpy(logits, p.act[last], layer_size(&p, last) * sizeof *logits);
out:
    pass_free(&p);
    return status;
}

kas_status kas_ref_net_eval(kas_ref_net *net, int n, const double *images, double *logits)
{
    return forward_only((pass){.net = net, .n = n}, images, logits);
}

kas_status kas_ref_net_calibrate(kas_ref_net *net, int n, const double *images)
{
    return forward_only((pass){.net = net, .n = n, .training = true, .calibrate = true}, images,
                        NULL);
}
