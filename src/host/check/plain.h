/* The plain checker: is a kernel that the sampler and the solvers made what they say it is?
 *
 * Written from the paper (Canvas, Table 1, Theorem 1, sections 6.2 and 6.3) and docs/primitives.md
 * only.  It sees one target at a time and works with plain whole numbers: no monomials, no table of
 * primitives, no rule of the space, the sampler or the solvers is called, so that a mistake there
 * does not hide here.  From the kernel it reads operators, operands, attributes and group numbers,
 * from the solution the value of each variable; shapes, legality, costs and limits are its own.
 *
 * Two things are easier to see in whole numbers:
 *  - A broadcast strips dims that are equal on both sides, which leaves #RHS / #LHS as it is: LHS
 *    tiles RHS exactly when the elements of LHS divide those of RHS.
 *  - Theorem 1 ("one dynamic variable, once, above the line, in a channel dim"): when one variable
 *    doubles, at most one dim of a tensor doubles and no other changes, and no two variables move
 *    the same tensor.
 *
 * Other folders include this header. */
#ifndef KAS_CHECK_PLAIN_H
#define KAS_CHECK_PLAIN_H

#include "host/space/kernel.h"
#include "host/space/solve/solve.h"
#include "host/space/target.h"

/* One tensor of one instance and image. */
typedef struct kas_plain_tensor {
    int channels;
    uint64_t channel[KAS_MAX_CHANNEL_DIMS];
    bool marked[KAS_MAX_CHANNEL_DIMS]; /* a group dim */
    uint64_t h, w;                     /* 0 = folded away */
} kas_plain_tensor;

/* One layer as the kernel sees it: the value of every symbol, 0 = none. */
typedef struct kas_plain_layer {
    uint64_t value[KAS_SYM_COUNT];
} kas_plain_layer;

/* Of one instance per image. */
typedef struct kas_plain_cost {
    double flops, params, largest_tensor, largest_weight;
} kas_plain_cost;

/* A size as written, num/den * C^a * ..., in whole numbers; false when it is none between 1 and
 * 2^40, or a symbol has no value. */
bool kas_plain_size(const kas_plain_layer *layer, const kas_dim *size, uint64_t *out);

/* Shape and cost of every node, node by node. KAS_ILLEGAL with node, rule and sizes. `tensor`
 * [kernel->nodes]. The kernel is inferred: see plain_bmm.c, the one rule that reads its shapes. */
kas_status kas_plain_nodes(const kas_kernel *kernel, const kas_plain_layer *layer,
                           kas_plain_tensor *tensor, kas_plain_cost *cost);

/* Everything at once: the graph (one input, one output, no node unused), every target's shapes and
 * Theorem 1, the solution's FLOPs and parameters computed again, limits and budget.
 * KAS_ILLEGAL, KAS_UNSUPPORTED (a tensor or weight over its limit) or KAS_OVER_BUDGET, the message
 * naming target and node. */
kas_status kas_plain_check(const kas_kernel *kernel, const kas_target *targets, int count,
                           const kas_budget *budget, const kas_solution *solution);

/* Would the kernel's weights fit images of any size?  With one side of the image doubled no size of
 * a map's outputs may change, and no weight may grow.  Dims of the image itself may be cut and
 * tiled: those follow the image, and no weight does.  KAS_ILLEGAL naming target and node. For a
 * kernel that kas_plain_check found no fault in. */
kas_status kas_plain_any_image(const kas_kernel *kernel, const kas_target *targets, int count,
                               const kas_solution *solution);

/* Are two kernels the same up to the numbering of nodes, the names of variables, group symbols and
 * splits, and up to the operands' order where a broadcast commutes (add, mul, min, max of two tensors
 * of one shape)?  Found by walking both from the output, not by a canonical form. */
bool kas_plain_same(const kas_kernel *a, const kas_kernel *b);
/* Equal for kernels that are the same; seldom equal for others. */
uint64_t kas_plain_hash(const kas_kernel *kernel);

#endif
