/* Which convolutions are replaced, and by what (docs/design.md, "Replacement rules").
 *
 * A convolution is a target when its kernel is 1, 3, 5 or 7, padding is "same", groups are 1 and it
 * is not the stem.  `filter` (--targets) narrows that to kernel sizes: "3x3,1x1"; NULL = all. */
#ifndef KAS_NET_TARGETS_H
#define KAS_NET_TARGETS_H

#include "host/net/net.h"

/* *out is freed with free(). KAS_USAGE for a malformed filter, KAS_BAD_INPUT when nothing
 * matches. */
kas_status kas_net_targets(const kas_net *net, const char *filter, kas_target **out, int *count);

/* Share of the network's FLOPs that the targets hold, 0..1. */
double kas_targets_flops_share(const kas_net *net, const kas_target *targets, int count);

#endif
