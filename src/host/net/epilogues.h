/* Finds layers that are computed as one: a batch norm, the sum and the activation behind it, and
 * the layer in front of it. */
#ifndef KAS_NET_EPILOGUES_H
#define KAS_NET_EPILOGUES_H

#include "host/net/net.h"

/* Returns the activation that a layer of this kind computes; KAS_ACTIVATION_NONE for
 * other kinds. */
kas_activation kas_layer_activation(kas_layer_op op);

/* A group: a batch norm [+ sum] [+ ReLU], or a batch norm + another activation. Each layer is the
 * only reader of the layer before it and reads it as its first input. */
typedef struct kas_norm_group {
    int norm, sum, last; /* layer numbers; sum -1: none; last: the norm itself when it is alone */
    kas_epilogue epilogue;
} kas_norm_group;
/* Returns the group that begins with the batch norm `norm`. */
kas_norm_group kas_net_norm_group(const kas_net *net, int norm);

/* Returns the group whose norm is the only reader of `layer`; its norm is -1 when there is none. */
kas_norm_group kas_net_group_behind(const kas_net *net, int layer);

#endif
