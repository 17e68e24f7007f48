/* What a growing kernel costs at least, at every target: why the guided sampler meets few kernels
 * over a budget or a limit.
 *
 * A variable counts as the least that it can be.  A size p*x/q must be an integer, so x is a
 * multiple of q at that target whatever becomes of it, be it a value of shape matching (paper 6.2)
 * or a number of the solver (6.3).  A variable that no primitive to come can give a value is the
 * solver's alone: it counts as the solver's base value.  Costs only rise with variables, so all of
 * it are lower bounds, and of a complete kernel they are what the solver begins with.  Internal to
 * the samplers. */
#ifndef KAS_SPACE_AFFORD_H
#define KAS_SPACE_AFFORD_H

#include "host/space/growth.h"

/* Distinct sizes of the template, with what the layers of that size make of one instance. */
typedef struct kas_site {
    kas_binding binding;           /* but for the variables: kas_afford.value */
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

typedef struct kas_afford {
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
} kas_afford;

/* kas_afford_free frees, also after a failure. */
kas_status kas_afford_create(const kas_sample_options *options, const kas_target *targets,
                             int count, const kas_growth *growth, kas_afford *out);
void kas_afford_free(kas_afford *afford);

/* After kas_growth_begin. */
void kas_afford_begin(kas_afford *afford);

/* After a primitive was appended: BUDGET or SIZE when the kernel will cost too much whatever comes.
 */
kas_reject kas_afford_count(kas_afford *afford);

/* After kas_growth_finish: of the whole kernel. */
kas_reject kas_afford_finish(kas_afford *afford);

#endif
