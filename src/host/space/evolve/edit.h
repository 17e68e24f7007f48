/* The changes that turn the outline of a parent into that of a child, which is tidy then. Each
 * draws where and what it changes from d->rng, and returns false when what it drew changes nothing
 * or cannot be. Whether a true change gives a kernel is for kas_rebuild to find out.
 *
 * Internal to evolve/. */
#ifndef KAS_SPACE_EVOLVE_EDIT_H
#define KAS_SPACE_EVOLVE_EDIT_H

#include "host/space/evolve/outline.h"

/* Draws a node and one of its attributes, or the group number, or a split, and another value. */
bool kas_edit_attribute(kas_guided *d, kas_outline *outline);

/* Draws a node, and another primitive with as many operands: first a type, then one of its
 * primitives, then attributes. */
bool kas_edit_replace(kas_guided *d, kas_outline *outline);

/* Draws an edge, the one behind the output among them, and a primitive to stand on it, as above. A
 * primitive with two operands gets any earlier node as the other one. With fewer primitives than a
 * kernel must have, goes on until there are enough. */
bool kas_edit_insert(kas_guided *d, kas_outline *outline);

/* Draws a node and one of its operands, which its readers read in its place. With more primitives
 * than a kernel may have, goes on until there are few enough. */
bool kas_edit_delete(kas_guided *d, kas_outline *outline);

/* Draws two nodes of equal shape, and a second pair of equal shape before the first. What `other`
 * has between its two nodes comes between those of `outline`. */
bool kas_edit_graft(kas_guided *d, const kas_outline *other, kas_outline *outline);

/* ---- attributes (attributes.c) ---- */

/* Draws one attribute of a node, KAS_ATTR_*, for an operand of that shape. */
void kas_draw_attribute(kas_guided *d, const kas_outline *outline, const kas_shape *operand,
                        unsigned attribute, kas_candidate_op *use);
/* Draws all attributes of a primitive that has none yet. */
void kas_draw_attributes(kas_guided *d, const kas_outline *outline, const kas_shape *operand,
                         kas_candidate_op *use);
/* Draws the size of a primitive that makes one: free, or C, a half, a quarter or a group of it. */
kas_dim kas_draw_size(kas_guided *d);

#endif
