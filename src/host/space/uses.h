/* The ways in which each type of primitive could be used next. Internal to the sampler. */
#ifndef KAS_SPACE_USES_H
#define KAS_SPACE_USES_H

#include "host/space/kernel.h"

/* The types that are drawn uniformly: the rows of the paper's Table 1. */
typedef enum kas_type {
    KAS_TYPE_GROUP,
    KAS_TYPE_SHIFT,
    KAS_TYPE_UNFOLD,
    KAS_TYPE_FC,
    KAS_TYPE_ELEMENTWISE,
    KAS_TYPE_FOLD,
    KAS_TYPE_SOFTMAX,
    KAS_TYPE_BROADCAST,
    KAS_TYPE_COUNT
} kas_type;

/* One use; the fields are those of kas_node. */
typedef struct kas_use {
    uint8_t op, in[KAS_MAX_INPUTS];
    int8_t dim, dim_end, offset;
    uint8_t axes, kernel, dilation, grouped;
} kas_use;

/* The node that a use makes, and the use that made a node, but for its operands. `var` is the
 * variable of a primitive whose size is free. */
kas_node kas_use_node(const kas_use *use, int var);
kas_use kas_node_use(const kas_node *node);

/* All pairs of nodes with five operations; every other type has fewer. */
enum { KAS_MAX_USES = KAS_MAX_NODES * KAS_MAX_NODES * 5 };

/* Uses of one type on the nodes there are, legal or not: attributes are in range, but shapes and
 * rules are left to kas_node_infer. Returns how many. */
int kas_list_uses(const kas_kernel *kernel, kas_type type, kas_use out[KAS_MAX_USES]);

#endif
