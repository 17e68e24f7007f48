#include "host/space/canvas/cost_bound.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/gcd.h"
#include "host/space/cost.h"
#include "host/space/primitive.h"
#include "host/space/solve/solver.h"

/* ---- targets ---- */

static double limit(double asked, double usual)
{
    return asked > 0 ? asked : usual;
}

static void add_site(kas_cost_bound *a, const kas_target *t)
{
    const kas_budget *budget = &a->options->budget;
    kas_kernel none = {0};
    const kas_binding binding = kas_target_binding(&none, t);
    double instances = (double)t->parts_in * t->parts_out;
    double tensor = limit(budget->max_tensor, kas_default_tensor_limit(t)) / instances;
    double weight = limit(budget->max_weight, KAS_MAX_WEIGHT) / instances;
    int i = 0;
    while (i < a->sites && memcmp(&a->site[i].binding, &binding, sizeof binding) != 0)
        i++;
    kas_site *site = &a->site[i];
    if (i == a->sites) {
        *site = (kas_site){.binding = binding, .max_tensor = tensor, .max_weight = weight};
        a->sites++;
    }
    site->instances += instances;
    site->max_tensor = tensor < site->max_tensor ? tensor : site->max_tensor;
    site->max_weight = weight < site->max_weight ? weight : site->max_weight;
}

static void add_target(kas_cost_bound *a, const kas_target *t)
{
    const kas_budget *budget = &a->options->budget;
    add_site(a, t);
    a->fixed_flops += kas_target_fixed_flops(t, false);
    a->max_flops += budget->max_flops_ratio * kas_target_conv_flops(t);
    a->max_params += budget->max_params_ratio * kas_target_conv_params(t);
}

kas_status kas_cost_bound_create(const kas_sample_options *options, const kas_target *targets,
                                 int count, const kas_growth *growth, kas_cost_bound *out)
{
    *out = (kas_cost_bound){.options = options, .growth = growth};
    const size_t n = (size_t)count + 1;
    out->site = calloc(n, sizeof *out->site);
    const size_t rows = n * KAS_MAX_NODES * KAS_MAX_VARS;
    out->multiple = calloc(rows, sizeof *out->multiple);
    out->value = calloc(rows, sizeof *out->value);
    out->number = calloc(n * KAS_DIM_EXPONENTS, sizeof *out->number);
    if (!out->site || !out->multiple || !out->value || !out->number)
        return kas_fail(KAS_NO_MEMORY, "no memory to sample for %d targets", count);
    for (int t = 0; t < count; t++)
        add_target(out, &targets[t]);
    for (int s = 1; s < out->sites; s++)
        if (out->site[s].binding.value[KAS_SYM_C] <
            out->site[out->narrowest].binding.value[KAS_SYM_C])
            out->narrowest = s;
    return KAS_OK;
}

void kas_cost_bound_free(kas_cost_bound *bound)
{
    free(bound->site);
    free(bound->multiple);
    free(bound->value);
    free(bound->number);
    bound->site = NULL;
    bound->multiple = bound->value = NULL;
    bound->number = NULL;
}

/* ---- lower bounds of variables ---- */

static size_t row_of(const kas_cost_bound *a, int node, int site)
{
    return ((size_t)node * (size_t)a->sites + (size_t)site) * KAS_MAX_VARS;
}

static uint32_t *multiples(const kas_cost_bound *a, int node, int site)
{
    return a->multiple + row_of(a, node, site);
}

static void set_number(kas_cost_bound *a, int site, int symbol, uint32_t value)
{
    const int row = site / KAS_SITES_AT_ONCE * KAS_DIM_EXPONENTS;
    a->number[row + symbol].at[site % KAS_SITES_AT_ONCE] = value;
}

void kas_cost_bound_begin(kas_cost_bound *a)
{
    for (int s = 0; s < a->sites; s++) {
        kas_growth_bind(a->growth, &a->site[s].binding);
        for (int v = 0; v < KAS_MAX_VARS; v++)
            multiples(a, 0, s)[v] = a->value[row_of(a, 0, s) + (size_t)v] = 1;
        for (int symbol = 0; symbol < KAS_SYM_X0; symbol++)
            set_number(a, s, symbol, a->site[s].binding.value[symbol]);
    }
    /* These FLOPs do not depend on the kernel */
    a->spent[0][0] = (kas_spent){.flops = a->fixed_flops};
}

/* Makes *multiple a multiple of q too. If that leaves the range of variables, *multiple stays: it
 * still divides the variable. */
static void raise(uint32_t *multiple, uint64_t q)
{
    const uint64_t more = q / kas_gcd(*multiple, q);
    if (more <= KAS_MAX_VARIABLE / *multiple)
        *multiple *= (uint32_t)more;
}

/* Raises the multiples of the variables in a node's sizes. */
static void raise_by_node(kas_cost_bound *a, int last, int node)
{
    kas_dim size[KAS_MAX_DIMS + 1];
    const int count = kas_node_integers(&a->growth->kernel, node, size);
    for (int d = 0; d < count; d++) {
        const int x = kas_dim_var(&size[d]);
        uint64_t p, q;
        if (x < 0)
            continue;
        size[d].exp[KAS_SYM_X0 + x] = 0;
        for (int s = 0; s < a->sites && !kas_dim_is_whole(&size[d]); s++)
            if (kas_dim_fraction(&size[d], &a->site[s].binding, &p, &q))
                raise(&multiples(a, last, s)[x], q);
    }
}

static void raise_multiples(kas_cost_bound *a, int i)
{
    const kas_growth *g = a->growth;
    const size_t row = (size_t)a->sites * KAS_MAX_VARS;
    memcpy(multiples(a, i, 0), multiples(a, i - 1, 0), row * sizeof *a->multiple);
    for (uint64_t nodes = g->step[i].changed | (uint64_t)1 << i; nodes; nodes &= nodes - 1) {
        const int n = __builtin_ctzll(nodes);
        if (n <= i && g->known[n].holds)
            raise_by_node(a, i, n);
    }
}

/* Returns the solver's base value: the multiple itself at the narrowest site, and in proportion to
 * the channels at the others. */
static uint32_t base_value(const kas_cost_bound *a, int last, int s, int var)
{
    const uint64_t c = a->site[s].binding.value[KAS_SYM_C];
    const uint64_t first = a->site[a->narrowest].binding.value[KAS_SYM_C];
    const uint64_t multiple = multiples(a, last, s)[var];
    const uint64_t wanted = c * multiples(a, last, a->narrowest)[var], unit = first * multiple;
    const uint64_t value = (wanted + unit - 1) / unit * multiple;
    return (uint32_t)(value < KAS_MAX_VARIABLE ? value : KAS_MAX_VARIABLE);
}

/* Sets the value that each variable counts as. `settled` has the bits of the variables that only
 * the solver can set. Returns the variables whose value changed, as bits. */
static uint32_t set_values(kas_cost_bound *a, int last, uint32_t settled)
{
    uint32_t changed = 0;
    for (int s = 0; s < a->sites; s++) {
        const uint32_t *before = a->value + row_of(a, last - 1, s);
        uint32_t *now = a->value + row_of(a, last, s);
        memcpy(now, multiples(a, last, s), KAS_MAX_VARS * sizeof *now);
        for (int v = 0; v < a->growth->vars; v++) {
            if (settled >> v & 1)
                now[v] = base_value(a, last, s, v);
            changed |= (uint32_t)(now[v] != before[v]) << v;
            set_number(a, s, KAS_SYM_X0 + v, now[v]);
        }
    }
    return changed;
}

/* ---- cost ---- */

/* Returns kas_dim_number of a size at four sites; `symbol` holds their symbols. */
static kas_site_numbers numbers_of(const kas_dim *size, const kas_site_numbers *symbol)
{
    kas_site_numbers above, below;
    bool whole = size->den == 1;
    for (int k = 0; k < KAS_SITES_AT_ONCE; k++) {
        above.at[k] = size->num;
        below.at[k] = size->den;
    }
    for (int s = kas_dim_next_symbol(size, 0); s < KAS_DIM_EXPONENTS;
         s = kas_dim_next_symbol(size, s + 1)) {
        kas_site_numbers *side = size->exp[s] > 0 ? &above : &below;
        whole = whole && size->exp[s] > 0;
        for (int e = abs(size->exp[s]); e > 0; e--)
            for (int k = 0; k < KAS_SITES_AT_ONCE; k++)
                side->at[k] *= symbol[s].at[k];
    }
    for (int k = 0; k < KAS_SITES_AT_ONCE && !whole; k++)
        above.at[k] /= below.at[k];
    return above;
}

/* Adds the cost of some terms at `sites` sites, at most four. */
static kas_reject count_at_sites(const kas_site *site, int sites, const kas_site_numbers *symbol,
                                 const kas_cost_terms *terms, kas_spent *spent)
{
    kas_cost cost[KAS_SITES_AT_ONCE] = {0};
    kas_site_numbers value = {{0}};
    const kas_dim *before = NULL; /* consecutive terms often have the same size */
    for (int t = 0; t < terms->count; t++) {
        const kas_cost_term *term = &terms->term[t];
        if (!before || !kas_dim_equal(&term->size, before))
            value = numbers_of(&term->size, symbol);
        before = &term->size;
        for (int k = 0; k < sites; k++)
            kas_cost_count(&cost[k], term->kind, value.at[k]);
    }
    for (int k = 0; k < sites; k++) {
        if (cost[k].largest_tensor > site[k].max_tensor ||
            cost[k].largest_weight > site[k].max_weight)
            return KAS_REJECT_SIZE;
        spent->flops += cost[k].flops * site[k].instances;
        spent->params += cost[k].params * site[k].instances;
    }
    return KAS_REJECT_NONE;
}

static kas_reject count_node(const kas_cost_bound *a, int node, kas_spent *spent)
{
    kas_cost_terms terms;
    kas_reject why = KAS_REJECT_NONE;
    *spent = (kas_spent){0};
    if (kas_cost_terms_of_node(&a->growth->kernel, node, &terms) != KAS_OK)
        return KAS_REJECT_SIZE;
    for (int s = 0; s < a->sites && why == KAS_REJECT_NONE; s += KAS_SITES_AT_ONCE) {
        const int left = a->sites - s;
        why = count_at_sites(&a->site[s], left < KAS_SITES_AT_ONCE ? left : KAS_SITES_AT_ONCE,
                             &a->number[s / KAS_SITES_AT_ONCE * KAS_DIM_EXPONENTS], &terms, spent);
    }
    return why;
}

/* Returns the nodes whose cost depends on one of the variables: through their own sizes or those of
 * an operand. */
static uint64_t nodes_of(const kas_growth *g, uint32_t vars)
{
    uint64_t nodes = 0;
    for (int n = 1; n < g->kernel.nodes && vars; n++) {
        uint32_t holds = g->known[n].holds;
        for (int k = 0; k < g->kernel.node[n].inputs; k++)
            holds |= g->known[g->kernel.node[n].in[k]].holds;
        nodes |= (uint64_t)((holds & vars) != 0) << n;
    }
    return nodes;
}

static kas_reject check_budget(const kas_cost_bound *a, int last)
{
    const kas_budget *budget = &a->options->budget;
    kas_spent all = {0};
    for (int n = 0; n <= last; n++) {
        all.flops += a->spent[last][n].flops;
        all.params += a->spent[last][n].params;
    }
    if ((budget->max_flops_ratio > 0 && all.flops > a->max_flops) ||
        (budget->max_params_ratio > 0 && all.params > a->max_params))
        return KAS_REJECT_BUDGET;
    return KAS_REJECT_NONE;
}

/* Counts the last node again, and the nodes whose sizes or variables have changed. */
static kas_reject count(kas_cost_bound *a, uint32_t settled)
{
    const kas_growth *g = a->growth;
    const int i = g->kernel.nodes - 1;
    raise_multiples(a, i);
    uint64_t nodes = nodes_of(g, set_values(a, i, settled)) | g->step[i].changed | (uint64_t)1 << i;
    memcpy(a->spent[i], a->spent[i - 1], (size_t)i * sizeof *a->spent[i]);
    for (nodes &= UINT64_MAX >> (KAS_MAX_NODES - 1 - i); nodes; nodes &= nodes - 1) {
        const int n = __builtin_ctzll(nodes);
        const kas_reject why = count_node(a, n, &a->spent[i][n]);
        if (why != KAS_REJECT_NONE)
            return why;
    }
    return check_budget(a, i);
}

kas_reject kas_cost_bound_count(kas_cost_bound *a)
{
    const kas_growth *g = a->growth;
    return count(a, kas_growth_only_leaves_are_read(g) ? ~kas_growth_leaf_vars(g) : 0);
}

kas_reject kas_cost_bound_finish(kas_cost_bound *a)
{
    return count(a, UINT32_MAX);
}
