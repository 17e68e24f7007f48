/* Makes a kernel node by node: what it has already is used again. Internal to src/host/space. */
#ifndef KAS_SPACE_APPEND_H
#define KAS_SPACE_APPEND_H

#include "host/space/kernel.h"

/* Returns which of the first `before` nodes has the same values as this one: the same operation, with
 * the same attributes, on the same operands. -1: none; two nodes with weights never have. */
int kas_find_node(const kas_kernel *kernel, int before, const kas_node *node);

/* Return the number of a node, split or group symbol that is as wanted, appended (and a node
 * inferred) when there is none; -1 with a message when it has no room or is not legal. */
int kas_append_node(kas_kernel *kernel, const kas_node *node);
int kas_append_split(kas_kernel *kernel, const kas_split *split);
int kas_append_group(kas_kernel *kernel, uint32_t value);

#endif
