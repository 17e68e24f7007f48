/* Pruning rules (paper 6.1): constructions that are redundant whatever the weights are.
 *
 * Internal to the sampler; docs/sampling.md lists the rules.  They narrow what is sampled and do
 * not make a kernel illegal: a kernel file may break them. */
#ifndef KAS_SPACE_CANVAS_PRUNE_H
#define KAS_SPACE_CANVAS_PRUNE_H

#include "host/space/kernel.h"

/* Is node i redundant, given the nodes before it?  Its shape is inferred. */
bool kas_prune_node(const kas_kernel *kernel, int i);

/* Is the one the other, perhaps in another grouping?  Then a broadcast of them is redundant. */
bool kas_same_values(const kas_kernel *kernel, int a, int b);

/* Does LHS have to be tiled over pixels as if they were channels?  Not when it has one value for
 * each of the pixels that it is tiled over, as [H*W] over [C, H, W] has. */
bool kas_shapes_mix_pixels(const kas_shape *lhs, const kas_shape *rhs);
bool kas_parts_mix_pixels(const kas_broadcast *parts, const kas_shape *rhs);

/* Is there a group whose split nothing sees?  Of a kernel that still grows, `open` are the nodes
 * that may get readers, as bits. */
bool kas_prune_groups(const kas_kernel *kernel, uint64_t open);

/* Is the last node redundant as the output?  The batch norm behind a neg takes the sign. */
bool kas_prune_output(const kas_kernel *kernel);

#endif
