/* Layers that are computed as one: a batch norm with the sum and the activation behind it, and what
 * stands in front of it. */
#ifndef KAS_NET_EPILOGUES_H
#define KAS_NET_EPILOGUES_H

#include "host/net/net.h"

/* The activation that a layer of this kind is; NONE for others. */
kas_activation kas_layer_activation(kas_layer_op op);

/* A batch norm [+ sum] [+ ReLU], or batch norm + activation, where each is the only reader of the
 * one before it and reads it as its first input. */
typedef struct kas_norm_group {
    int norm, sum, last; /* layers; sum -1: none; last: norm itself when it is alone */
    kas_epilogue epilogue;
} kas_norm_group;
kas_norm_group kas_net_norm_group(const kas_net *net, int norm);

/* The group whose norm is the only reader of `layer`; its norm is -1 where there is none. */
kas_norm_group kas_net_group_behind(const kas_net *net, int layer);

#endif
