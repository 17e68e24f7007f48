/* Scores that count: parameters, FLOPs and layers with weights of the whole network, and its
 * predicted latency (predict/predict.h). None looks at an image, and all are hard to beat (Ning et
 * al., "Evaluating efficient performance estimators of neural architectures", NeurIPS 2021). */
#include "host/score/untrained/scoring.h"

static const kas_kernel *kernel_at(const kas_scoring *s, int t)
{
    return s->replacement ? kas_replacement_kernel(s->replacement, t) : NULL;
}

/* Adds what each kernel has more than the convolution in whose place it is. */
static kas_status add_kernels(kas_scoring *s, bool flops, double *value)
{
    for (int t = 0; t < s->setup->targets; t++) {
        const kas_target *target = &s->setup->target[t];
        const kas_kernel *kernel = kernel_at(s, t);
        kas_cost cost;
        if (!kernel)
            continue;
        KAS_TRY(kas_layer_cost(kernel, target, &s->replacement->solution.binding[t], &cost));
        *value += flops ? cost.flops - kas_layer_flops(s->setup->net, target->layer)
                        : cost.params - kas_layer_params(s->setup->net, target->layer);
    }
    return KAS_OK;
}

kas_status kas_score_params(kas_scoring *s, double *value)
{
    *value = kas_net_params(s->setup->net);
    return add_kernels(s, false, value);
}

kas_status kas_score_flops(kas_scoring *s, double *value)
{
    *value = kas_net_flops(s->setup->net);
    return add_kernels(s, true, value);
}

/* Convolutions, linear layers, and primitives with a weight. */
kas_status kas_score_layers(kas_scoring *s, double *value)
{
    for (int i = 0; i < s->setup->net->layers; i++)
        *value += kas_layer_is_linear(&s->setup->net->layer[i]);
    for (int t = 0; t < s->setup->targets; t++)
        if (kernel_at(s, t))
            *value += kas_kernel_weights(kernel_at(s, t)) - 1;
    return KAS_OK;
}

kas_status kas_score_latency(kas_scoring *s, double *value)
{
    if (s->replacement)
        return kas_predict_candidate(s->setup->predictor, s->replacement, value);
    *value = kas_predictor_unmodified(s->setup->predictor);
    return KAS_OK;
}
