/* A forward and a backward pass of a whole network: every layer's tensor is kept, nothing is fused
 * or reused.  The gradient of a tensor that several layers read is the sum of what each adds. */
#ifndef KAS_REFERENCE_NET_NET_PASS_H
#define KAS_REFERENCE_NET_NET_PASS_H

#include "host/reference/net/net_replaced.h"

typedef struct kas_ref_pass {
    kas_ref_net *net;
    int n;
    bool training;         /* batch norms use, and move the running statistics by, the batch's own;
                              dropout drops */
    bool calibrate;        /* moves them all the way, whatever a layer's momentum is */
    bool keep;             /* what kernels need for the backward pass */
    double **act, **grad;  /* [layers] tensors [n][c][h][w] and their gradients */
    double **mean, **rstd; /* [layers] statistics of batch norms */
    kas_ref_replaced *replaced; /* [layers] */
    double *piece[2];           /* gradients of inputs of one layer, added to grad */
} kas_ref_pass;

/* Elements of a layer's output. */
size_t kas_ref_layer_size(const kas_ref_pass *pass, int layer);
/* act[layer] from those of its inputs. */
kas_status kas_ref_layer_forward(kas_ref_pass *pass, int layer);
/* Adds to the grad of its inputs, and fills its parameters' gradients, from grad[layer]. */
kas_status kas_ref_layer_backward(kas_ref_pass *pass, int layer);

#endif
