/* A kernel in the place of a convolution: an average pool for the stride, then the kernel's
 * instances (docs/design.md, "Replacement rules"). Internal to reference/net. */
#ifndef KAS_REFERENCE_NET_NET_REPLACED_H
#define KAS_REFERENCE_NET_NET_REPLACED_H

#include "host/reference/kernel/reference.h"
#include "host/reference/net/layers.h"

/* Returns the number of the target that layer `layer` is; -1 = not replaced. */
int kas_ref_replaced_target(const kas_ref_net *net, int layer);
/* Computes the shape of the weight of node `node` at a target: instances, groups, fan_out,
 * fan_in. */
kas_status kas_ref_replaced_weight_shape(const kas_ref_net *net, int target, int node,
                                         uint64_t shape[4]);

/* What one replaced layer keeps between forward and backward. */
typedef struct kas_ref_replaced {
    kas_reference *ref;
    double *pooled, *dpooled; /* [n][c_in][h][w] of the output's size; stride > 1 only */
} kas_ref_replaced;

/* Runs a replaced layer forward. x: [n][c_in] of the input's size; y: [n][c_out] of the output's
 * size. `kept` is zeroed before the first call. */
kas_status kas_ref_replaced_forward(const kas_ref_net *net, int layer, int n, const double *x,
                                    double *y, kas_ref_replaced *kept);
/* Fills dx and the gradients of the layer's parameters. */
kas_status kas_ref_replaced_backward(const kas_ref_net *net, int layer, int n, const double *dy,
                                     double *dx, kas_ref_replaced *kept);
void kas_ref_replaced_free(kas_ref_replaced *kept);

#endif
