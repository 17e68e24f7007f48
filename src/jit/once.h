/* What depends on the weights and the gain alone is the same for all pieces of the batch. */
#ifndef KAS_JIT_ONCE_H
#define KAS_JIT_ONCE_H

#include "jit/ir/ir.h"

/* Sets `once` of the tensors whose values read nothing but weights, the gain and one another: one
 * launch makes them for all pieces. Y, DX and the gradients of weights are never among them, since
 * each piece has its part of those. Comes after kas_fuse. */
kas_status kas_once_find(kas_ir *ir);

#endif
