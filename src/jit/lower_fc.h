/* How a fully-connected node is computed. */
#ifndef KAS_JIT_LOWER_FC_H
#define KAS_JIT_LOWER_FC_H

#include "jit/lower.h"

/* Fills l->fc[node] up to `sizes`, and the logical part of its kas_weight. */
kas_status kas_fc_plan(kas_lower *l, int node);

#endif
