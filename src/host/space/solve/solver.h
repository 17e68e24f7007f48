/* The inside of the solver of 6.3: the classes of targets, and what a kernel costs at each. Shared
 * by solve.c (integers, limits, base values) and budget_fill.c (using the budget). */
#ifndef KAS_SPACE_SOLVE_SOLVER_H
#define KAS_SPACE_SOLVE_SOLVER_H

#include "host/space/solve/solve.h"

/* No variable may exceed this at any target. */
#define KAS_MAX_VARIABLE ((uint64_t)1 << 30)

/* A law by which terms of a cost grow alike: by 2^power[v] when variable v doubles. */
typedef struct kas_growth_law {
    uint8_t power[KAS_MAX_VARS];
} kas_growth_law;

enum { KAS_MAX_LAWS = 64 };

/* A class of targets that agree in every size. */
typedef struct kas_layer_class {
    const kas_target *target; /* the first of them */
    int members;
    kas_binding binding;
    uint64_t lcm[KAS_MAX_VARS];
    kas_cost part[KAS_MAX_LAWS]; /* cost of one instance at `binding`, by law */
    kas_cost cost;               /* cost of one layer at `binding` */
} kas_layer_class;

/* The doubling of one variable of one class, and what it costs. */
typedef struct kas_doubling {
    int class_, var;
    /* Weight of the added cost, for ordering. It uses only quotients of whole numbers and
     * one sum: no compiler can contract that to a fused operation, so the order is the same
     * on every machine. */
    double weight;
    kas_cost cost; /* cost of the class afterwards */
} kas_doubling;

struct kas_solver {
    kas_target *targets; /* owned */
    int count, *class_of;
    kas_layer_class *class_;
    int classes;
    kas_doubling *doubling; /* [classes * KAS_MAX_VARS]: doublings that may still fit */
    double conv_flops, conv_params;

    /* The kernel that is being solved: */
    const kas_kernel *kernel;
    const kas_budget *budget;
    uint32_t vars;
    kas_cost_terms terms;
    int law_of[KAS_MAX_COST_TERMS];
    kas_growth_law law[KAS_MAX_LAWS];
    int laws;
    double flops, params; /* cost of all layers at the present bindings */
    double growth_flops, growth_params;
};

/* Returns the cost of a layer whose instances have these parts. */
kas_cost kas_class_cost(const kas_layer_class *class_, const kas_cost *part, int laws,
                        bool stride_inside);
/* Returns the limit on elements of a layer's tensor where the budget says nothing. */
double kas_default_tensor_limit(const kas_target *target);
/* Returns whether a layer's cost is within the limits on tensors and weights. */
bool kas_within_limits(const kas_solver *s, const kas_target *target, const kas_cost *cost);
/* Doubles variables until none fits the budget any more. */
void kas_budget_fill(kas_solver *s);

#endif
