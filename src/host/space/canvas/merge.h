/* Decides whether the primitives that are left can merge the leaves of a growing kernel into
 * [C, H, W], when only merges are left, by trying every way of merging their shapes. Internal
 * to the samplers.
 *
 * LHS, RHS and results are given by the numbers of their shapes (pairs.h). */
#ifndef KAS_SPACE_CANVAS_MERGE_H
#define KAS_SPACE_CANVAS_MERGE_H

#include "host/space/canvas/growth.h"

/* Returns whether LHS could be broadcast to RHS, as far as their shapes and the values of LHS's
 * variable tell. */
bool kas_could_broadcast(const kas_growth *g, uint32_t lhs, uint32_t rhs);

/* Returns the same, and whether the result could be the output. */
bool kas_could_broadcast_last(const kas_growth *g, uint32_t lhs, uint32_t rhs);
/* Returns the transposes of products of the two that could be the output, as bits. */
unsigned kas_last_products(const kas_growth *g, uint32_t lhs, uint32_t rhs);

/* Returns whether every size would still be an integer with this value of LHS's variable, and with
 * the value that then makes RHS, the result, [C, H, W]. */
bool kas_takes_last(const kas_growth *g, uint32_t lhs, uint32_t rhs, const kas_dim *value);

/* Returns whether the shape could be the output without another primitive. */
bool kas_could_be_output(const kas_growth *g, uint32_t number);

/* Returns KAS_REJECT_NONE when the leaves could be merged; KAS_REJECT_OUTPUT when their shapes
 * alone forbid it; KAS_REJECT_VARIABLES when the sizes of other nodes do. It overlooks no legal
 * way, but KAS_REJECT_NONE does not promise that no other rule stands against the way found. */
kas_reject kas_leaves_could_merge(const kas_growth *g);

/* Returns, from shapes alone, whether the leaves could be merged once the candidate operation
 * has given a tensor of shape `result`. Returns true where more than merges would be left, or
 * nothing. */
bool kas_leaves_could_merge_after(const kas_growth *g, const kas_candidate_op *use,
                                  uint32_t result);

/* Returns whether a value for the variable of LHS would change the shapes of other leaves. */
bool kas_leaves_change(const kas_growth *g, const kas_candidate_op *use, const kas_pair *pair);

#endif
