/* A forward and a backward pass of a whole network. Every layer's tensor is kept; nothing is fused
 * or reused. The gradient of a tensor that several layers read is the sum of what each adds.
 * Internal to reference/net. */
#ifndef KAS_REFERENCE_NET_NET_PASS_H
#define KAS_REFERENCE_NET_NET_PASS_H

#include "host/reference/net/net_replaced.h"

typedef struct kas_ref_pass {
    kas_ref_net *net;
    int n;
    /* Batch norms use the batch's statistics and move the running ones; dropout drops */
    bool training;
    /* Running statistics become those of the batch, whatever the momentum is */
    bool calibrate;
    bool keep;                  /* keep what kernels need for the backward pass */
    double **act, **grad;       /* [layers] tensors [n][c][h][w] and their gradients */
    double **mean, **rstd;      /* [layers] statistics of batch norms */
    kas_ref_replaced *replaced; /* [layers] */
    double *piece[2];           /* gradients of one layer's inputs, before they are added to grad */
} kas_ref_pass;

/* Returns the elements of a layer's output. */
size_t kas_ref_layer_size(const kas_ref_pass *pass, int layer);
/* Computes act[layer] from the tensors of its inputs. */
kas_status kas_ref_layer_forward(kas_ref_pass *pass, int layer);
/* Adds to the gradients of the layer's inputs and fills those of its parameters, from
 * grad[layer]. */
kas_status kas_ref_layer_backward(kas_ref_pass *pass, int layer);

#endif
