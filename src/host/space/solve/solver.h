/* The inside of the solver of 6.3: the classes of targets, and what a kernel costs at each.
 * Shared by solve.c (integers, limits, the base values) and budget_fill.c (using the budget). */
#ifndef KAS_SPACE_SOLVE_SOLVER_H
#define KAS_SPACE_SOLVE_SOLVER_H

#include "host/space/solve/solve.h"

/* No variable may exceed this at any target. */
#define KAS_MAX_VARIABLE ((uint64_t)1 << 30)

/* The terms of a cost that grow alike: by 2^power[v] when variable v doubles. */
typedef struct kas_growth_law {
    uint8_t power[KAS_MAX_VARS];
} kas_growth_law;

enum { KAS_MAX_LAWS = 64 };

/* Targets that agree in every size. */
typedef struct kas_layer_class {
    const kas_target *target; /* the first of them */
    int members;
    kas_binding binding;
    uint64_t lcm[KAS_MAX_VARS];
    kas_cost part[KAS_MAX_LAWS]; /* of one instance, at `binding`, by law */
    kas_cost cost;               /* of one layer, at `binding` */
} kas_layer_class;

/* One variable of one class doubled, and what that costs. */
typedef struct kas_doubling {
    int class_, var;
    /* Of the added cost. Only quotients of whole numbers and one sum: no compiler can contract that
     * to a fused operation, so the order is the same on every machine. */
    double weight;
    kas_cost cost; /* of the class afterwards */
} kas_doubling;

struct kas_solver {
    kas_target *targets; /* owned */
    int count, *class_of;
    kas_layer_class *class_;
    int classes;
    kas_doubling *doubling; /* [classes * KAS_MAX_VARS]: those that may still fit */
    double conv_flops, conv_params;

    /* of the kernel that is being solved */
    const kas_kernel *kernel;
    const kas_budget *budget;
    uint32_t vars;
    kas_cost_terms terms;
    int law_of[KAS_MAX_COST_TERMS];
    kas_growth_law law[KAS_MAX_LAWS];
    int laws;
    double flops, params; /* of all layers, at the present bindings */
    double growth_flops, growth_params;
};

/* What the parts of one instance make for a layer. */
kas_cost kas_class_cost(const kas_layer_class *class_, const kas_cost *part, int laws);
/* Elements of a tensor of a layer where the budget says nothing. */
double kas_default_tensor_limit(const kas_target *target);
bool kas_within_limits(const kas_solver *s, const kas_target *target, const kas_cost *cost);
/* Doubles variables while the budget allows it. */
void kas_budget_fill(kas_solver *s);

#endif
