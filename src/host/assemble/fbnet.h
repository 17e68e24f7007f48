/* FBNet: a differentiable choice for each layer (Wu et al., "FBNet: Hardware-aware efficient
 * ConvNet design via differentiable neural architecture search", CVPR 2019).
 *
 * Target l has a logit theta[l][i] for each option i.  In a step of the supernet (supernet.h)
 * option i has the weight of a Gumbel softmax,
 *
 *     m[l][i] = softmax over i of (theta[l][i] + g[l][i]) / tau
 *     g[l][i] = -log(-log(u)), u uniform in (0, 1)
 *
 * drawn anew for each batch.  The loss is
 *
 *     CE * alpha * log(LAT)^beta,    LAT = sum over l, i of m[l][i] * latency of the option
 *
 * with the paper's alpha = 0.2 and beta = 0.6, and LAT in microseconds, layers outside all targets
 * included.  In each epoch the weights of the layers learn by the recipe from 80% of the images,
 * from CE alone: the other factor, which is the same for all of them, would only scale the rate.
 * Then theta learns from the other 20% by Adam at rate 0.01 with weight decay 5e-4, except in the
 * first tenth of the epochs.  tau falls from 5 by the same factor after each epoch to
 * 5 exp(-0.045 * 90) at the end, whatever the number of epochs; the paper has 90, and exp(-0.045).
 *
 * What is done is saved after each epoch; a run that goes on gives the same numbers. */
#ifndef KAS_ASSEMBLE_FBNET_H
#define KAS_ASSEMBLE_FBNET_H

#include "host/assemble/choices.h"
#include "host/train/train.h"

#define KAS_FBNET_ALPHA 0.2
#define KAS_FBNET_BETA 0.6
#define KAS_FBNET_TAU 5.0

typedef struct kas_fbnet_options {
    const kas_choices *choices;
    const kas_option *option; /* [targets][options] with costs in seconds */
    double unmodified;        /* seconds of the unmodified network */
    /* Data set, seed, recipe, the images of training, and weights_in for the layers that are not
     * replaced. `checkpoint` is where the run is saved; NULL: nowhere. on_progress gets the loss.
     * Everything else is not used. */
    kas_train_options train;
} kas_fbnet_options;

/* Writes theta [targets][options]; NaN where there is no option. KAS_INTERRUPTED when on_progress
 * asks for an end, KAS_NOTHING_VALID when the supernet diverged. */
kas_status kas_fbnet(kas_device *device, const kas_fbnet_options *options, double *theta);

/* Weights of the options of one target: the softmax of (theta + noise) / tau over those with a
 * finite theta; `noise` NULL = none. */
void kas_fbnet_softmax(const double *theta, const double *noise, int options, double tau,
                       double *weight);
/* The gradient of the loss over theta of one target, from that over the weights. */
void kas_fbnet_through_softmax(const double *weight, const double *slope, int options, double tau,
                               double *gradient);

#endif
