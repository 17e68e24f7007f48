/* Finds the layers whose place a search gives to kernels (docs/design.md, "Replacement rules").
 *
 * Such a layer is a convolution with a window of 1, 3, 5 or 7 rows and columns and "same" padding
 * that is not the stem, or a linear layer that does not give the logits. `filter` (--targets) says
 * which of them: a list with commas between of
 *
 *     1x1, 3x3, 1x7, ...    convolutions in one group with this window (rows x columns)
 *     square, non-square    those with as many rows as columns, and the others
 *     grouped, depthwise    convolutions in several groups; those with one channel in each
 *     linear                linear layers
 *     all                   all of these
 *
 * NULL is "square". */
#ifndef KAS_NET_TARGETS_H
#define KAS_NET_TARGETS_H

#include "host/net/net.h"

/* Lists the targets of a network in *out, which the caller frees with free(). Fails with KAS_USAGE
 * for a malformed filter and with KAS_BAD_INPUT when nothing matches. */
kas_status kas_net_targets(const kas_net *net, const char *filter, kas_target **out, int *count);

/* Returns the targets' share of the network's FLOPs, 0..1. */
double kas_targets_flops_share(const kas_net *net, const kas_target *targets, int count);

#endif
