/* Pruning rules (paper 6.1): constructions that are redundant whatever the weights are.
 *
 * docs/sampling.md lists the rules. They narrow what is sampled and do not make a kernel illegal: a
 * kernel file may break them. Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_PRUNE_H
#define KAS_SPACE_CANVAS_PRUNE_H

#include "host/space/kernel.h"

/* Returns whether node i, whose shape is inferred, is redundant, given the nodes before it. */
bool kas_prune_node(const kas_kernel *kernel, int i);

/* Returns whether nodes a and b hold the same values, perhaps in another grouping. Then a broadcast
 * of them is redundant. */
bool kas_same_values(const kas_kernel *kernel, int a, int b);

/* Return whether LHS would be tiled over pixels as if they were channels. Returns false when LHS
 * has one value for each pixel that it is tiled over, as [H*W] over [C, H, W] has. */
bool kas_shapes_mix_pixels(const kas_shape *lhs, const kas_shape *rhs);
bool kas_parts_mix_pixels(const kas_broadcast *parts, const kas_shape *rhs);

/* Returns whether there is a group whose split nothing sees. `open` are the nodes of a growing
 * kernel that may still get readers, as bits. */
bool kas_prune_groups(const kas_kernel *kernel, uint64_t open);

/* Returns whether the last node is redundant as the output: the batch norm behind the kernel
 * absorbs the sign of a neg. */
bool kas_prune_output(const kas_kernel *kernel);

#endif
