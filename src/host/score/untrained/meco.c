/* meco: how independent the channels of each layer are (Jiang, Wang and Bie, "MeCo: Zero-shot NAS
 * with one data and single forward pass via minimum eigenvalue of correlation", NeurIPS 2023,
 * equation 5; HamsterMimi/MeCo, get_score). For one image of standard normal values, the sum over
 * layers of the smallest eigenvalue of the correlation matrix of their channels; correlations with
 * a constant channel count as 0. Layers are those whose output is an image of several pixels and
 * that compute something. A layer with as many channels as pixels, or more, adds nothing: its matrix
 * is singular. The published code (correlation/NAS_Bench_201.py) takes one image of CIFAR, and hooks
 * all modules, so that a module with others inside adds the value of its last one once more. */
#include <math.h>
#include <stdlib.h>

#include "host/score/untrained/eigen.h"
#include "host/score/untrained/scoring.h"

static kas_status smallest(const kas_interpreter *p, int i, double *out)
{
    const kas_layer *l = &p->options.net->layer[i];
    double *matrix = kas_correlation(l->c, (size_t)l->h * (size_t)l->w, p->act[i]);
    if (!matrix)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d channels", l->c);
    for (size_t k = 0; k < (size_t)l->c * (size_t)l->c; k++)
        if (!isfinite(matrix[k]))
            matrix[k] = 0;
    const kas_status status = kas_eigenvalues(l->c, matrix, 1, out);
    free(matrix);
    return status;
}

static kas_status sum_of_layers(const kas_interpreter *p, double *value)
{
    const kas_net *net = p->options.net;
    bool any = false;
    for (int i = 1; i < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        double least;
        if (l->c >= l->h * l->w || l->op == KAS_LAYER_DROPOUT || l->op == KAS_LAYER_CONCAT)
            continue;
        KAS_TRY(smallest(p, i, &least));
        *value += least;
        any = true;
    }
    if (!any)
        return kas_fail(KAS_UNSUPPORTED, "no layer has more pixels than channels");
    return KAS_OK;
}

kas_status kas_score_meco(kas_scoring *s, double *value)
{
    const kas_interpret_options options = {
        .net = s->setup->net, .replacement = s->replacement, .batch = 1};
    kas_interpreter *p = NULL;
    float *image = NULL;
    kas_status status = kas_interpret_create(&options, &s->memory->block[2], &p);
    if (status == KAS_OK)
        status = kas_interpret_draw(p, s->seed, KAS_INTERPRET_TRAINING, &s->memory->normals);
    if (status == KAS_OK)
        status = kas_normal_images(kas_interpret_elements(p, 0), s->setup->seed, 3, &image);
    if (status == KAS_OK) {
        kas_interpret_forward(p, image);
        if (kas_interpret_not_finite(p) >= 0)
            *value = NAN;
        else
            status = sum_of_layers(p, value);
    }
    free(image);
    kas_interpret_free(p);
    return status;
}
