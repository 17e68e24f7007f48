/* The cost of a kernel, as monomials in its sizes (dim.h).
 *
 * The monomials are gathered once for a kernel and evaluated at every target: the solver of 6.3
 * asks for the cost at many targets and for many values of the variables, and the monomials say how
 * each part grows with each variable. Internal to src/host/space; only kas_kernel_cost (kernel.h)
 * and kas_layer_cost are for other folders. */
#ifndef KAS_SPACE_COST_H
#define KAS_SPACE_COST_H

#include "host/space/kernel.h"
#include "host/space/target.h"

enum { KAS_MAX_COST_TERMS = 6 * KAS_MAX_NODES };

/* What a term counts, for one instance: elements of a tensor, FLOPs, or elements of a weight. */
typedef enum kas_cost_kind { KAS_COST_TENSOR, KAS_COST_FLOPS, KAS_COST_WEIGHT } kas_cost_kind;

typedef struct kas_cost_term {
    kas_cost_kind kind;
    kas_dim size;
} kas_cost_term;

typedef struct kas_cost_terms {
    int count;
    kas_cost_term term[KAS_MAX_COST_TERMS];
    kas_dim elements; /* elements of the result of the node whose terms are being added */
} kas_cost_terms;

/* Appends a term. Returns KAS_ILLEGAL when there is no room for more. */
kas_status kas_cost_add(kas_cost_terms *terms, kas_cost_kind kind, const kas_dim *size);
/* Replaces the terms in `out` by those of node i, or by those of all nodes. Shapes
 * must be inferred. */
kas_status kas_cost_terms_of_node(const kas_kernel *kernel, int i, kas_cost_terms *out);
kas_status kas_cost_terms_of(const kas_kernel *kernel, kas_cost_terms *out);

/* Adds `value`, a term's size at some target, to a cost: sizes of tensors and weights
 * by their maximum. */
static inline void kas_cost_count(kas_cost *cost, kas_cost_kind kind, double value)
{
    switch (kind) {
    case KAS_COST_TENSOR:
        cost->largest_tensor = value > cost->largest_tensor ? value : cost->largest_tensor;
        break;
    case KAS_COST_FLOPS:
        cost->flops += value;
        break;
    case KAS_COST_WEIGHT:
        cost->params += value;
        cost->largest_weight = value > cost->largest_weight ? value : cost->largest_weight;
        break;
    }
}

/* Computes the cost of a whole layer per image, as docs/primitives.md defines it ("Cost of a
 * layer"): all instances, the sum of input parts and the average pool. largest_tensor and
 * largest_weight count all instances too. */
kas_status kas_layer_cost(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, kas_cost *out);

#endif
