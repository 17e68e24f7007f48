/* Lower bounds on the cost of a growing kernel at every target. With them the guided sampler meets
 * few kernels over a budget or a limit.
 *
 * Each variable counts as the least value that it can have. A size p*x/q must be an integer, so x
 * is a multiple of q at that target whatever becomes of it: a value by shape matching (paper 6.2)
 * or a number by the solver (6.3). Once no primitive to come can give a variable a value, only the
 * solver can, and the variable counts as the solver's base value. Costs only rise with variables,
 * so all results are lower bounds; for a complete kernel they are the cost with which the solver
 * begins. Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_COST_BOUND_H
#define KAS_SPACE_CANVAS_COST_BOUND_H

#include "host/space/canvas/growth.h"

/* One distinct size of the template, with the sums and limits over all layers of that size. */
typedef struct kas_site {
    /* All symbols but the variables, which are in kas_cost_bound.value */
    kas_binding binding;
    double instances;              /* instances of all layers of this size */
    double max_tensor, max_weight; /* limits for one instance */
} kas_site;

/* One number at each of four sites: costs are computed for four sites at a time. */
enum { KAS_SITES_AT_ONCE = 4 };
typedef struct kas_site_numbers {
    double at[KAS_SITES_AT_ONCE];
} kas_site_numbers;

/* The cost of a node in all layers together. */
typedef struct kas_spent {
    double flops, params;
} kas_spent;

typedef struct kas_cost_bound {
    const kas_sample_options *options;
    const kas_growth *growth; /* borrowed */
    kas_site *site;           /* owned */
    /* Owned, [node][site][var]: with that node as the last one, the number that the variable is a
     * multiple of, and the value that it counts as. */
    uint32_t *multiple, *value;
    /* Owned, [sites / KAS_SITES_AT_ONCE, rounded up][symbol]: the bindings of the sites, four
     * to an element. */
    kas_site_numbers *number;
    int sites, narrowest; /* narrowest: the first site with the fewest channels */
    double fixed_flops, max_flops, max_params;
    /* [last][node]: cost of `node` when `last` is the last node */
    kas_spent spent[KAS_MAX_NODES][KAS_MAX_NODES];
} kas_cost_bound;

/* Prepares bounds for kernels of these targets. Call kas_cost_bound_free also after a failure. */
kas_status kas_cost_bound_create(const kas_sample_options *options, const kas_target *targets,
                                 int count, const kas_growth *growth, kas_cost_bound *out);
void kas_cost_bound_free(kas_cost_bound *bound);

/* Begins a kernel; call it after kas_growth_begin. */
void kas_cost_bound_begin(kas_cost_bound *bound);

/* Updates the bounds after a primitive was appended. Returns KAS_REJECT_BUDGET or KAS_REJECT_SIZE
 * when the kernel will cost too much whatever follows. */
kas_reject kas_cost_bound_count(kas_cost_bound *bound);

/* The same for the whole kernel, after kas_growth_finish. */
kas_reject kas_cost_bound_finish(kas_cost_bound *bound);

#endif
