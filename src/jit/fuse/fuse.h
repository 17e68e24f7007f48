/* Fusion: decides which tensors exist in memory, and builds the expressions of the kernels that
 * compute them.
 *
 * A tensor that is not in memory is computed again wherever it is read. In memory are
 *     what the caller gives or wants, results of library convolutions, and partial sums;
 *     operands of convolutions, unless they are a view of a tensor that is in memory anyway, or of
 *     some of its channels;
 *     everything that would cost more than INLINE_BUDGET operations an element to compute again.
 * The same rule gives the values that the backward pass reads: what is in memory is SAVED, the rest
 * is computed again. Other folders include this header. */
#ifndef KAS_JIT_FUSE_FUSE_H
#define KAS_JIT_FUSE_FUSE_H

#include "jit/ir/ir.h"

/* Sets `materialised`, `memory` and `evals` of every tensor. A tensor that nothing needs
 * is not materialised. */
kas_status kas_fuse(kas_ir *ir);

/* For kas_fuse (memory.c): lets operands of convolutions share the memory of what they rename; and lets
 * results of convolutions be written into the tensors that merely repeat or join them, where nothing
 * else reads them. readers: by tensor, how many expressions read it. */
kas_status kas_fuse_views(kas_ir *ir);
void kas_fuse_results(kas_ir *ir, const int *readers);

/* Returns the tensor in whose memory `tensor` lies, and how many elements stand in front of it there. */
int kas_fuse_memory(const kas_ir *ir, int tensor);
int64_t kas_fuse_offset(const kas_ir *ir, int tensor);

/* Builds the definition of a materialised tensor over its own variables: tensors that are not in
 * memory are substituted, and reads become loads from flat addresses. */
typedef struct kas_inliner {
    kas_ir *ir;
    int *memo, capacity; /* by kas_ex: result + 1 */
    const char *row;     /* by tensor: substituted although it is in memory; NULL = none */
} kas_inliner;
/* Returns the inlined definition of a materialised tensor; kas_inliner_free frees the inliner's
 * memory, not the IR. */
kas_ex kas_inline(kas_inliner *inliner, int tensor);
void kas_inliner_free(kas_inliner *inliner);

/* The variables of a set on which an expression depends, except those of its own reductions: bit i
 * of a mask stands for var[i]. Used for costs and for hoisting. */
typedef struct kas_masks {
    const kas_ir *ir;
    int vars, var[64];
    uint64_t *mask; /* by kas_ex */
    char *known;
} kas_masks;

/* Prepares masks over var[0..outer) and the variables of the reductions in `root`. Returns
 * KAS_UNSUPPORTED when these are more than 64, KAS_NO_MEMORY; after a failure nothing is
 * left to free. */
kas_status kas_masks_init(kas_masks *m, const kas_ir *ir, kas_ex root, int outer, const int *var);
void kas_masks_free(kas_masks *m);
uint64_t kas_masks_ix(const kas_masks *m, kas_ix ix);
uint64_t kas_masks_ex(kas_masks *m, kas_ex e);
int kas_masks_index(const kas_masks *m, int var);
/* Returns how many turns loops over the variables of a mask have together: the product of their
 * sizes. */
double kas_masks_turns(const kas_masks *m, uint64_t mask);

/* Returns the rough cost of a function in simple operations. */
double kas_fn_cost(kas_fn fn);

#endif
