/* Scores that add up something over all weights: of convolutions, linear layers and kernels (the
 * factors of `scale` too), not biases and not batch norms.
 *
 * snip: the sum of |theta * dL/dtheta| (Lee, Ajanthan and Torr, ICLR 2019, as a score of networks
 *     in Abdelfattah et al., "Zero-cost proxies for lightweight NAS", ICLR 2021).
 * grad_norm: the sum over weight tensors of the Euclidean norm of dL/dtheta (Abdelfattah et al.).
 * synflow: the sum of |theta * dR/dtheta|, where R is the sum of the logits for an image of ones in
 *     the network with the magnitudes of all weights (Tanaka et al., NeurIPS 2020). Batch norms are
 *     bypassed, as in Abdelfattah et al.; their statistics would undo the scale that the score is
 *     about. In float64: in ResNet-34 the logits are above 1e40, and their products with gradients
 *     leave float32. */
#include <math.h>

#include "host/score/untrained/scoring.h"

typedef double term(double weight, double slope);

static double snip(double weight, double slope)
{
    return fabs(weight * slope);
}

static double square(double weight, double slope)
{
    (void)weight;
    return slope * slope;
}

static double over_weight(const kas_interpreter *p, const kas_interpret_weight *w, term *of)
{
    double sum = 0;
    for (size_t i = w->at; !w->bias && i < w->at + w->size; i++)
        sum += of(kas_interpret_get(p, p->value, i), kas_interpret_get(p, p->slope, i));
    return sum;
}

kas_status kas_score_snip(kas_scoring *s, double *value)
{
    bool finite;
    KAS_TRY(kas_scoring_gradient(s, false, KAS_GRADIENT_LOSS, &finite));
    for (int i = 0; i < s->data->weights; i++)
        *value += finite ? over_weight(s->data, &s->data->weight[i], snip) : NAN;
    return KAS_OK;
}

kas_status kas_score_grad_norm(kas_scoring *s, double *value)
{
    bool finite;
    KAS_TRY(kas_scoring_gradient(s, false, KAS_GRADIENT_LOSS, &finite));
    for (int i = 0; i < s->data->weights; i++)
        *value += finite ? sqrt(over_weight(s->data, &s->data->weight[i], square)) : NAN;
    return KAS_OK;
}

kas_status kas_score_synflow(kas_scoring *s, double *value)
{
    const kas_net *net = s->setup->net;
    const kas_interpret_options options = {.net = net,
                                           .replacement = s->replacement,
                                           .batch = 1,
                                           .exact = true,
                                           .without_norms = true,
                                           .weight_gradients = true};
    kas_interpreter *p = NULL;
    kas_status status = kas_interpret_create(&options, &s->memory->block[1], &p);
    if (status == KAS_OK)
        status = kas_interpret_draw(p, s->seed, KAS_INTERPRET_POSITIVE, &s->memory->normals);
    if (status == KAS_OK) {
        kas_interpret_forward(p, NULL);
        kas_interpret_set_gradient(p, net->layers - 1, 1);
        kas_interpret_backward(p, net->layers - 1, 0, true);
        for (int i = 0; i < p->weights; i++)
            *value += over_weight(p, &p->weight[i], snip);
    }
    kas_interpret_free(p);
    return status;
}
