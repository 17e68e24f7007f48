/* A network interpreted in float64 or float32 beside the same one in the float64 reference: same weights, same
 * images. */
#ifndef KAS_TESTS_UNIT_INTERPRET_JUDGED_H
#define KAS_TESTS_UNIT_INTERPRET_JUDGED_H

#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/interpret/interpret.h"
#include "host/reference/net/net_pass.h"

/* The reference's passes, with every tensor kept. */
typedef struct judge {
    kas_ref_net *net;
    kas_ref_pass pass;
    double *images;
} judge;

static inline judge judge_make(const kas_net *net, const kas_replacement *replacement, int n)
{
    judge j = {0};
    const size_t layers = (size_t)net->layers;
    size_t largest = 0;
    OK(kas_ref_net_create_replaced(net, replacement, &j.net));
    j.pass = (kas_ref_pass){.net = j.net, .n = n, .training = true, .keep = true};
    j.pass.act = calloc(layers, sizeof *j.pass.act);
    j.pass.grad = calloc(layers, sizeof *j.pass.grad);
    j.pass.mean = calloc(layers, sizeof *j.pass.mean);
    j.pass.rstd = calloc(layers, sizeof *j.pass.rstd);
    j.pass.replaced = calloc(layers, sizeof *j.pass.replaced);
    for (int i = 0; i < net->layers; i++) {
        const size_t size = kas_ref_layer_size(&j.pass, i);
        j.pass.act[i] = calloc(size, sizeof(double));
        j.pass.grad[i] = calloc(size, sizeof(double));
        j.pass.mean[i] = calloc((size_t)net->layer[i].c, sizeof(double));
        j.pass.rstd[i] = calloc((size_t)net->layer[i].c, sizeof(double));
        largest = size > largest ? size : largest;
    }
    j.pass.piece[0] = calloc(largest, sizeof(double));
    j.pass.piece[1] = calloc(largest, sizeof(double));
    return j;
}

static inline void judge_free(judge *j)
{
    for (int i = 0; i < j->net->net->layers; i++) {
        free(j->pass.act[i]);
        free(j->pass.grad[i]);
        free(j->pass.mean[i]);
        free(j->pass.rstd[i]);
        kas_ref_replaced_free(&j->pass.replaced[i]);
    }
    free(j->pass.act);
    free(j->pass.grad);
    free(j->pass.mean);
    free(j->pass.rstd);
    free(j->pass.replaced);
    free(j->pass.piece[0]);
    free(j->pass.piece[1]);
    free(j->images);
    kas_ref_net_free(j->net);
}

/* Gives the reference the weights of the interpreter. */
static inline void judge_weights(judge *j, const kas_interpreter *p)
{
    for (int i = 0; i < p->weights; i++) {
        const kas_interpret_weight *w = &p->weight[i];
        kas_ref_param *param = kas_ref_net_param(j->net, w->layer, w->slot);
        assert_non_null(param);
        assert_int_equal(param->size, w->size);
        for (size_t k = 0; k < w->size; k++)
            param->value[k] = kas_interpret_get(p, p->value, w->at + k);
    }
}

static inline void judge_forward(judge *j, const float *images)
{
    const kas_net *net = j->net->net;
    for (size_t k = 0; k < kas_ref_layer_size(&j->pass, 0); k++)
        j->pass.act[0][k] = images ? (double)images[k] : 1;
    for (int i = 1; i < net->layers; i++)
        OK(kas_ref_layer_forward(&j->pass, i));
}

/* From the gradient of layer `from`, which is there, to that of layer `to`. */
static inline void judge_backward(judge *j, int from, int to)
{
    for (int i = 0; i < from; i++)
        memset(j->pass.grad[i], 0, sizeof(double) * kas_ref_layer_size(&j->pass, i));
    for (int i = from; i > to; i--)
        OK(kas_ref_layer_backward(&j->pass, i));
}

static inline double judge_loss(judge *j, const uint16_t *labels)
{
    const kas_net *net = j->net->net;
    const int last = net->layers - 1;
    return kas_ref_cross_entropy(j->pass.n, net->classes, 0, j->pass.act[last], labels,
                                 j->pass.grad[last]);
}

static inline float *test_images(size_t n, uint64_t seed)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 0);
    float *x = malloc(sizeof *x * n);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)kas_rng_normal(&rng);
    return x;
}

#endif
