/* Residual networks (He et al. 2015) for small images, with torchvision's layer names. */
#ifndef KAS_NET_RESNET_H
#define KAS_NET_RESNET_H

#include "host/net/builder.h"

/* Three stages of three basic blocks, 16-32-64 channels, shortcuts of option A (no weights). */
void kas_build_resnet20(kas_builder *b, int classes);
/* Four stages of two basic blocks, 64-128-256-512 channels, 1x1 convolutions as shortcuts; stem of
 * the CIFAR variants: 3x3, stride 1, no max pool. */
void kas_build_resnet18(kas_builder *b, int classes);

#endif
