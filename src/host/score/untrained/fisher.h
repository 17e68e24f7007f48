/* Fisher potential (Turner, Crowley and O'Boyle, "Neural Architecture Search as Program
 * Transformation Exploration", ASPLOS 2021, section 5.2).
 *
 * A channel c of a layer's output has activations A[n][i][j] and gradients g[n][i][j] of the loss
 * of a minibatch of N images. Equations 4 and 5:
 *
 *     Delta_c = 1 / (2 N) * sum over n of (- sum over i, j of A[n][i][j] g[n][i][j])^2
 *     Delta_l = sum over c of Delta_c
 *
 * `fisher` sums Delta_l over all targets, replaced or not: the outputs of kernels and convolutions,
 * in front of their batch norms. A network whose potential is below that of the original is
 * rejected there.
 *
 * Published variants. Zero-cost proxies (Abdelfattah et al., ICLR 2021; SamsungLabs/zero-cost-nas,
 * fisher.py) sum the same over all convolutions and linear layers: `fisher_all`, with the stem and
 * the classifier. BlockSwap (Turner et al., ICLR 2020; BayesWatch/pytorch-blockswap,
 * models/blocks.py) takes one activation for each residual block, the output of its last
 * convolution in front of the sum, and the magnitude of the sum; where only last convolutions of
 * blocks are targets, that is `fisher`. */
#ifndef KAS_SCORE_UNTRAINED_FISHER_H
#define KAS_SCORE_UNTRAINED_FISHER_H

#include <stddef.h>

/* Delta_l of activations and gradients [n][c][pixels]. */
double kas_fisher_layer(int n, int c, size_t pixels, const float *activation,
                        const float *gradient);

#endif
