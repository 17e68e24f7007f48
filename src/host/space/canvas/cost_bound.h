/* What a growing kernel costs at least, at every target: why the guided sampler meets few kernels
 * over a budget or a limit.
 *
 * A variable counts as the least that it can be.  A size p*x/q must be an integer, so x is a
 * multiple of q at that target whatever becomes of it, be it a value of shape matching (paper 6.2)
 * or a number of the solver (6.3).  A variable that no primitive to come can give a value is the
 * solver's alone: it counts as the solver's base value.  Costs only rise with variables, so all of
 * it are lower bounds, and of a complete kernel they are what the solver begins with.  Internal to
 * the samplers. */
#ifndef KAS_SPACE_CANVAS_COST_BOUND_H
#define KAS_SPACE_CANVAS_COST_BOUND_H

#include "host/space/canvas/growth.h"

/* Distinct sizes of the template, with what the layers of that size make of one instance. */
typedef struct kas_site {
    kas_binding binding;           /* but for the variables: kas_cost_bound.value */
    double instances;              /* of all layers */
    double max_tensor, max_weight; /* of one instance */
} kas_site;

/* A number at four sites: what is worked out for all of them is worked out four at a time. */
enum { KAS_SITES_AT_ONCE = 4 };
typedef struct kas_site_numbers {
    double at[KAS_SITES_AT_ONCE];
} kas_site_numbers;

/* What a node costs in all layers together. */
typedef struct kas_spent {
    double flops, params;
} kas_spent;

typedef struct kas_cost_bound {
    const kas_sample_options *options;
    const kas_growth *growth; /* the caller's */
    kas_site *site;           /* owned */
    /* Owned, [node][site][var]: when that node is the last one, what the variable is a multiple of,
     * and what it counts as. */
    uint32_t *multiple, *value;
    /* Owned, [sites / KAS_SITES_AT_ONCE, rounded up][symbol]: the bindings of the sites. */
    kas_site_numbers *number;
    int sites, narrowest; /* the first site with the fewest channels */
    double fixed_flops, max_flops, max_params;
    kas_spent spent[KAS_MAX_NODES][KAS_MAX_NODES]; /* [last][node] */
} kas_cost_bound;

/* kas_cost_bound_free frees, also after a failure. */
kas_status kas_cost_bound_create(const kas_sample_options *options, const kas_target *targets,
                                 int count, const kas_growth *growth, kas_cost_bound *out);
void kas_cost_bound_free(kas_cost_bound *bound);

/* After kas_growth_begin. */
void kas_cost_bound_begin(kas_cost_bound *bound);

/* After a primitive was appended: BUDGET or SIZE when the kernel will cost too much whatever comes.
 */
kas_reject kas_cost_bound_count(kas_cost_bound *bound);

/* After kas_growth_finish: of the whole kernel. */
kas_reject kas_cost_bound_finish(kas_cost_bound *bound);

#endif
