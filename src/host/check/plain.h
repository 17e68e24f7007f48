/* The plain checker: decides whether a kernel from the sampler and the solvers is what they
 * say it is.
 *
 * It is written from the paper (Canvas, Table 1, Theorem 1, sections 6.2 and 6.3) and
 * docs/primitives.md only. It sees one target at a time and works with plain whole numbers: it
 * calls no monomials, no table of primitives and no rule of the space, the sampler or the solvers,
 * so that a mistake there does not hide here. It reads operators, operands, attributes and group
 * numbers from the kernel and the value of each variable from the solution; shapes, legality, costs
 * and limits are its own.
 *
 * Two things are easier to see in whole numbers: - A broadcast strips dims that are equal on both
 * sides, which leaves #RHS / #LHS as it is: LHS tiles RHS exactly when the elements of LHS divide
 * those of RHS. - Theorem 1 ("one dynamic variable, once, above the line, in a channel dim"): when
 * one variable doubles, at most one dim of a tensor doubles and no other changes, and no two
 * variables change the same tensor.
 *
 * Other folders include this header. */
#ifndef KAS_CHECK_PLAIN_H
#define KAS_CHECK_PLAIN_H

#include "host/space/kernel.h"
#include "host/space/solve/solve.h"
#include "host/space/target.h"

/* A tensor of one instance and one image. */
typedef struct kas_plain_tensor {
    int channels;
    uint64_t channel[KAS_MAX_CHANNEL_DIMS];
    bool marked[KAS_MAX_CHANNEL_DIMS]; /* a group dim */
    uint64_t h, w;                     /* 0 = folded away */
} kas_plain_tensor;

/* A layer as the kernel sees it: the value of every symbol, 0 = none. */
typedef struct kas_plain_layer {
    uint64_t value[KAS_SYM_COUNT];
} kas_plain_layer;

/* The cost of one instance per image. */
typedef struct kas_plain_cost {
    double flops, params, largest_tensor, largest_weight;
} kas_plain_cost;

/* Evaluates a size as written, num/den * C^a * ..., in whole numbers. Returns false when it is no
 * whole number between 1 and 2^40, or a symbol has no value. */
bool kas_plain_size(const kas_plain_layer *layer, const kas_dim *size, uint64_t *out);

/* Computes shape and cost of every node, node by node; `tensor` is [kernel->nodes]. Returns
 * KAS_ILLEGAL with node, rule and sizes. The kernel must be inferred: plain_bmm.c, with the one
 * rule that reads its shapes, says why. */
kas_status kas_plain_nodes(const kas_kernel *kernel, const kas_plain_layer *layer,
                           kas_plain_tensor *tensor, kas_plain_cost *cost);

/* Checks everything: the graph (one input, one output, no node unused), every target's shapes and
 * Theorem 1, the solution's FLOPs and parameters computed again, limits and budget. Returns
 * KAS_ILLEGAL, KAS_UNSUPPORTED (a tensor or weight over its limit) or KAS_OVER_BUDGET, with a
 * message that names target and node. */
kas_status kas_plain_check(const kas_kernel *kernel, const kas_target *targets, int count,
                           const kas_budget *budget, const kas_solution *solution);

/* Checks that our sum of `what` over all targets is what the solution tells, and at most `max_ratio`
 * (0: no limit) times the convolutions' `conv`. */
kas_status kas_plain_sum(const char *what, double ours, double told, double conv, double max_ratio);

/* Checks that the kernel's weights fit images of any size: with one side of the image doubled, no
 * size of a map's outputs may change and no weight may grow. Dims of the image itself may be cut
 * and tiled: these follow the image, and no weight does. Returns KAS_ILLEGAL naming target and
 * node. The kernel must have passed kas_plain_check. */
kas_status kas_plain_any_image(const kas_kernel *kernel, const kas_target *targets, int count,
                               const kas_solution *solution);

/* Returns whether two kernels are the same up to the numbering of nodes, the names of variables,
 * group symbols and splits, and the order of operands where a broadcast commutes (add, mul, min,
 * max of two tensors of one shape). Walks both from the output; uses no canonical form. */
bool kas_plain_same(const kas_kernel *a, const kas_kernel *b);
/* Returns a hash that is equal for kernels that are the same, and seldom equal for others. */
uint64_t kas_plain_hash(const kas_kernel *kernel);

#endif
