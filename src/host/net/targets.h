/* Finds the convolutions that a search replaces (docs/design.md, "Replacement rules").
 *
 * A convolution is a target when its kernel size is 1, 3, 5 or 7, its padding is "same", it has one
 * group, and it is not the stem.  `filter` (--targets) narrows that to kernel sizes: "3x3,1x1";
 * NULL = all. */
#ifndef KAS_NET_TARGETS_H
#define KAS_NET_TARGETS_H

#include "host/net/net.h"

/* Lists the targets of a network in *out, which the caller frees with free(). Fails with KAS_USAGE
 * for a malformed filter and with KAS_BAD_INPUT when nothing matches. */
kas_status kas_net_targets(const kas_net *net, const char *filter, kas_target **out, int *count);

/* Returns the targets' share of the network's FLOPs, 0..1. */
double kas_targets_flops_share(const kas_net *net, const kas_target *targets, int count);

#endif
