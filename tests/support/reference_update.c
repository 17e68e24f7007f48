#include "support/reference_update.h"

#include <float.h>
#include <math.h>

void kas_ref_sgd(size_t count, double lr, double momentum, bool nesterov, double decay,
                 const double *grad, double *velocity, double *param)
{
    for (size_t i = 0; i < count; i++) {
        double g = grad[i] + decay * param[i];
        velocity[i] = momentum * velocity[i] + g;
        param[i] -= lr * (nesterov ? g + momentum * velocity[i] : velocity[i]);
    }
}

void kas_ref_adamw_step(const kas_ref_adamw *o, size_t count, const double *grad, double *m,
                        double *v, double *param)
{
    double correction1 = 1 - pow(o->beta1, o->t), correction2 = 1 - pow(o->beta2, o->t);
    for (size_t i = 0; i < count; i++) {
        param[i] -= o->lr * o->decay * param[i];
        m[i] = o->beta1 * m[i] + (1 - o->beta1) * grad[i];
        v[i] = o->beta2 * v[i] + (1 - o->beta2) * grad[i] * grad[i];
        param[i] -= o->lr * (m[i] / correction1) / (sqrt(v[i] / correction2) + o->epsilon);
    }
}

double kas_ref_clip(size_t count, const double *grad, double limit)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += grad[i] * grad[i];
    const double scale = limit / (sqrt(squares) + 1e-6);
    return scale > 1 ? 1 : scale; /* NaN stays NaN, as PyTorch's does */
}

size_t kas_ref_not_finite(size_t count, const double *value)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += !(fabs(value[i]) <= FLT_MAX); /* false for NaN */
    return found;
}

/* Weights of convolutions and linear layers and of kernels; not norms and biases. */
static bool is_decayed(const kas_ref_net *net, const kas_ref_param *p, bool weights_only)
{
    kas_layer_op op = net->net->layer[p->layer].op;
    if (!weights_only)
        return true;
    return op != KAS_LAYER_BATCH_NORM && op != KAS_LAYER_LAYER_NORM && p->rank > 1;
}

void kas_ref_net_sgd(kas_ref_net *net, double *const *velocity, double lr, double momentum,
                     double weight_decay, bool weights_only)
{
    for (int i = 0; i < net->params; i++) {
        kas_ref_param *p = &net->param[i];
        if (!p->grad)
            continue;
        double decay = is_decayed(net, p, weights_only) ? weight_decay : 0;
        kas_ref_sgd(p->size, lr, momentum, true, decay, p->grad, velocity[i], p->value);
    }
}
