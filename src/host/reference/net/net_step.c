/* Memory of a pass, and the passes of a whole network. */
#include "host/reference/net/net_pass.h"

#include <stdlib.h>
#include <string.h>

static void pass_free(kas_ref_pass *p)
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
    free(p->piece[0]);
    free(p->piece[1]);
}

static bool pass_allocate(kas_ref_pass *p)
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
        size_t size = kas_ref_layer_size(p, i);
        int c = p->net->net->layer[i].c;
        p->act[i] = malloc(size * sizeof(double));
        p->grad[i] = calloc(size, sizeof(double));
        p->mean[i] = calloc(c, sizeof(double));
        p->rstd[i] = calloc(c, sizeof(double));
        if (!p->act[i] || !p->grad[i] || !p->mean[i] || !p->rstd[i])
            return false;
        largest = size > largest ? size : largest;
    }
    p->piece[0] = malloc(largest * sizeof(double));
    p->piece[1] = malloc(largest * sizeof(double));
    return p->piece[0] && p->piece[1];
}

static kas_status forward(kas_ref_pass *p, const double *images)
{
    memcpy(p->act[0], images, kas_ref_layer_size(p, 0) * sizeof *images);
    for (int i = 1; i < p->net->net->layers; i++)
        KAS_TRY(kas_ref_layer_forward(p, i));
    return KAS_OK;
}

kas_status kas_ref_net_step(kas_ref_net *net, int n, const double *images, const uint16_t *labels,
                            double smoothing, double *loss, double *logits)
{
    kas_ref_pass p = {.net = net, .n = n, .training = true, .keep = true};
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
        memcpy(logits, p.act[last], kas_ref_layer_size(&p, last) * sizeof *logits);
    for (int i = last; i > 0; i--)
        KAS_TRY_GOTO(kas_ref_layer_backward(&p, i), out);
out:
    pass_free(&p);
    return status;
}

/* A forward pass alone; `logits` may be NULL. */
static kas_status forward_only(kas_ref_pass p, const double *images, double *logits)
{
    kas_status status = KAS_OK;
    int last = p.net->net->layers - 1;
    if (!pass_allocate(&p)) {
        status = kas_fail(KAS_NO_MEMORY, "reference network: no memory for %d images", p.n);
        goto out;
    }
    KAS_TRY_GOTO(forward(&p, images), out);
    if (logits)
        memcpy(logits, p.act[last], kas_ref_layer_size(&p, last) * sizeof *logits);
out:
    pass_free(&p);
    return status;
}

kas_status kas_ref_net_eval(kas_ref_net *net, int n, const double *images, double *logits)
{
    return forward_only((kas_ref_pass){.net = net, .n = n}, images, logits);
}

kas_status kas_ref_net_calibrate(kas_ref_net *net, int n, const double *images)
{
    return forward_only((kas_ref_pass){.net = net, .n = n, .training = true, .calibrate = true},
                        images, NULL);
}
