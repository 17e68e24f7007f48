/* The optimisers in float64: PyTorch's formulas one number after the other. The device's optimisers
 * are compared with them. Also the reference's own count of values that are not finite. */
#ifndef KAS_SUPPORT_REFERENCE_UPDATE_H
#define KAS_SUPPORT_REFERENCE_UPDATE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/reference/net/layers.h"

/* SGD:  g += decay*p;  v = momentum*v + g;  p -= lr*v, with Nesterov lr*(g + momentum*v). */
void kas_ref_sgd(size_t count, double lr, double momentum, bool nesterov, double decay,
                 const double *grad, double *velocity, double *param);

/* AdamW (Loshchilov and Hutter 2019, algorithm 2, with PyTorch's lr*decay) at step t = 1, 2, ...:
 *     p -= lr*decay*p;  m = beta1*m + (1 - beta1)*g;  v = beta2*v + (1 - beta2)*g^2;
 *     p -= lr * m/(1 - beta1^t) / (sqrt(v/(1 - beta2^t)) + epsilon)                             */
typedef struct kas_ref_adamw {
    double lr, beta1, beta2, epsilon, decay;
    int t;
} kas_ref_adamw;
/* Makes one step of AdamW; m and v are the moments, zero at first. */
void kas_ref_adamw_step(const kas_ref_adamw *options, size_t count, const double *grad, double *m,
                        double *v, double *param);

/* Returns the factor of PyTorch's clip_grad_norm_: min(1, limit / (length of grad + 1e-6)). */
double kas_ref_clip(size_t count, const double *grad, double limit);

/* Returns how many of the values are not finite, or too large for the float32 that a device
 * keeps. */
size_t kas_ref_not_finite(size_t count, const double *value);

/* SGD with Nesterov momentum and weight decay as PyTorch's: g += wd*p; v = mu*v + g; p -= lr*(g +
 * mu*v). `velocity` [params] arrays, zero at first. Decay on every parameter or, if weights_only,
 * not on batch norm and biases. */
void kas_ref_net_sgd(kas_ref_net *net, double *const *velocity, double lr, double momentum,
                     double weight_decay, bool weights_only);

#endif
