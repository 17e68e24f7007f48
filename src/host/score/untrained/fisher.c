#include "host/score/untrained/fisher.h"

#include <math.h>

#include "host/score/untrained/scoring.h"

double kas_fisher_layer(int n, int c, size_t pixels, const float *a, const float *g)
{
    double sum = 0;
    for (size_t k = 0; k < (size_t)n * (size_t)c; k++, a += pixels, g += pixels) {
        double product = 0;
#pragma omp simd reduction(+ : product)
        for (size_t i = 0; i < pixels; i++)
            product += (double)a[i] * (double)g[i];
        sum += product * product;
    }
    return sum / (2.0 * n);
}

static double layer(const kas_interpreter *p, int i)
{
    const kas_layer *l = &p->options.net->layer[i];
    return kas_fisher_layer(p->options.batch, l->c, (size_t)l->h * (size_t)l->w, p->act[i],
                            p->grad[i]);
}

kas_status kas_score_fisher(kas_scoring *s, double *value)
{
    bool finite;
    KAS_TRY(kas_scoring_gradient(s, false, KAS_GRADIENT_LOSS, &finite));
    for (int t = 0; finite && t < s->setup->targets; t++)
        *value += layer(s->data, s->setup->target[t].layer);
    if (!finite)
        *value = NAN;
    return KAS_OK;
}

kas_status kas_score_fisher_all(kas_scoring *s, double *value)
{
    bool finite;
    KAS_TRY(kas_scoring_gradient(s, false, KAS_GRADIENT_LOSS, &finite));
    for (int i = 0; finite && i < s->setup->net->layers; i++)
        if (kas_layer_is_linear(&s->setup->net->layer[i]))
            *value += layer(s->data, i);
    if (!finite)
        *value = NAN;
    return KAS_OK;
}
