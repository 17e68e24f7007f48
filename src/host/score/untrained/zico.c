/* zico: how steady the gradients of weights are from one minibatch to another (Li et al., "ZiCo:
 * Zero-shot NAS via inverse coefficient of variation on gradients", ICLR 2023, equation 10;
 * SLDGroup/ZiCo, compute_zico.py):
 *
 *     sum over weight tensors of log( sum over weights of mean |g| / standard deviation of g )
 *
 * over two minibatches, the deviation divided by their number; weights whose gradients agree to the
 * last bit are left out. Weights are those of saliency.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/score/untrained/scoring.h"

static double of_weight(const kas_interpret_weight *w, const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = w->at; i < w->at + w->size; i++) {
        const double deviation = fabs((double)a[i] - (double)b[i]) / 2;
        if (deviation > 0)
            sum += (fabs((double)a[i]) + fabs((double)b[i])) / 2 / deviation;
    }
    return w->bias || sum == 0 ? 0 : log(sum);
}

kas_status kas_score_zico(kas_scoring *s, double *value)
{
    bool first_finite, finite;
    KAS_TRY(kas_scoring_gradient(s, false, KAS_GRADIENT_LOSS, &first_finite));
    const kas_interpreter *p = s->data;
    float *first = malloc(sizeof *first * (p->values ? p->values : 1));
    if (!first)
        return kas_fail(KAS_NO_MEMORY, "no memory for the gradients of %zu weights", p->values);
    memcpy(first, p->slope, sizeof *first * p->values);
    kas_status status = kas_scoring_gradient(s, true, KAS_GRADIENT_LOSS, &finite);
    for (int i = 0; i < p->weights && status == KAS_OK; i++)
        *value += finite && first_finite ? of_weight(&p->weight[i], first, p->slope) : NAN;
    free(first);
    return status;
}
