/* Fusion: which tensors exist in memory, and the expressions of the kernels that make them.
 *
 * Every tensor that is not in memory is computed again wherever it is read.  In memory are
 *     what the caller gives or wants, results of library convolutions, partial sums;
 *     operands of convolutions, unless they are a view of a tensor that is in memory anyway;
 *     whatever would cost more to compute again than INLINE_BUDGET operations an element.
 * Values that the backward pass reads fall out of the same rule: what is in memory is SAVED, the
 * rest is computed again.  Other folders include this header. */
#ifndef KAS_JIT_FUSE_FUSE_H
#define KAS_JIT_FUSE_FUSE_H

#include "jit/ir/ir.h"

/* Sets materialised, memory and evals of every tensor; tensors that nothing wants are neither. */
kas_status kas_fuse(kas_ir *ir);

/* The tensor in whose memory `tensor` lies. */
int kas_fuse_memory(const kas_ir *ir, int tensor);

/* Definition of a materialised tensor with the others substituted in, and reads turned into loads
 * of flat addresses; over the tensor's own variables. */
typedef struct kas_inliner {
    kas_ir *ir;
    int *memo, capacity; /* by kas_ex: result + 1 */
    const char *row;     /* by tensor: substituted although they are in memory; NULL = none */
} kas_inliner;
kas_ex kas_inline(kas_inliner *inliner, int tensor);
void kas_inliner_free(kas_inliner *inliner);

/* Which variables of a set an expression depends on, reductions' own left out.  Bit i of a mask is
 * var[i].  Used for costs and for hoisting. */
typedef struct kas_masks {
    const kas_ir *ir;
    int vars, var[64];
    uint64_t *mask; /* by kas_ex */
    char *known;
} kas_masks;
kas_status kas_masks_init(kas_masks *m, const kas_ir *ir, kas_ex root, int outer, const int *var);
void kas_masks_free(kas_masks *m);
uint64_t kas_masks_ix(const kas_masks *m, kas_ix ix);
uint64_t kas_masks_ex(kas_masks *m, kas_ex e);
int kas_masks_index(const kas_masks *m, int var);

/* Rough cost of a function in simple operations. */
double kas_fn_cost(kas_fn fn);

#endif
