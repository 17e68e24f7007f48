/* Can the leaves of a growing kernel be merged into [C, H, W] by the primitives that are left, when
 * only merges are left?  Tries every way of merging their shapes. Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_MERGE_H
#define KAS_SPACE_CANVAS_MERGE_H

#include "host/space/canvas/growth.h"

/* Could LHS be broadcast to RHS, as far as their shapes and the values of LHS's variable tell? */
bool kas_could_broadcast(const kas_growth *g, uint32_t lhs, uint32_t rhs);

/* Likewise, and could the result be the output? */
bool kas_could_broadcast_last(const kas_growth *g, uint32_t lhs, uint32_t rhs);
/* Transposes of products of the two that could be the output, as bits. */
unsigned kas_last_products(const kas_growth *g, uint32_t lhs, uint32_t rhs);

/* Would every size still be an integer with this value of LHS's variable, and with the one that
 * then makes RHS, the result, [C, H, W]? */
bool kas_takes_last(const kas_growth *g, uint32_t lhs, uint32_t rhs, const kas_dim *value);

/* Could the shape be the output without another primitive? */
bool kas_could_be_output(const kas_growth *g, uint32_t number);

/* OUTPUT: the shapes alone stand against it; VARIABLES: the sizes of other nodes do. No legal way
 * is overlooked; that one was found does not promise that no other rule stands against it. */
kas_reject kas_leaves_could_merge(const kas_growth *g);

/* Likewise once the use has given a tensor of shape number `result`, from shapes alone; true where
 * more than merges would be left, or nothing. */
bool kas_leaves_could_merge_after(const kas_growth *g, const kas_candidate_op *use,
                                  uint32_t result);

/* Would a value for the variable of LHS give other leaves other shapes? */
bool kas_leaves_change(const kas_growth *g, const kas_candidate_op *use, const kas_pair *pair);

#endif
