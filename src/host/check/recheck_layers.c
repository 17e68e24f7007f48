#include "host/check/recheck_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/plain.h"
#include "host/core/arena.h"

void kas_layers_checked_free(kas_layers_checked *checked)
{
    free(checked->seen);
    *checked = (kas_layers_checked){0};
}

/* Computes the cost of kernel k at its own targets from its own cost rules; `own` and `binding`
 * have room for all targets. */
static kas_status own_solution(const kas_replacement *r, int k, kas_target *own,
                               kas_binding *binding, kas_solution *out)
{
    *out = (kas_solution){.binding = binding};
    for (int t = 0; t < r->solution.targets; t++) {
        kas_cost cost;
        if (r->kernel_of[t] != k)
            continue;
        KAS_TRY(kas_layer_cost(&r->kernel[k], &r->target[t], &r->solution.binding[t], &cost));
        out->flops += cost.flops;
        out->params += cost.params;
        own[out->targets] = r->target[t];
        binding[out->targets++] = r->solution.binding[t];
    }
    return KAS_OK;
}

static kas_status check_all(const kas_replacement *r, const kas_budget *budget, kas_target *own,
                            kas_binding *binding)
{
    const kas_solution *s = &r->solution;
    kas_budget limits = *budget;
    double flops = 0, params = 0, conv_flops = 0, conv_params = 0;
    limits.max_flops_ratio = limits.max_params_ratio = 0;
    for (int k = 0; k < r->kernels; k++) {
        kas_solution part;
        KAS_TRY(own_solution(r, k, own, binding, &part));
        kas_status status = kas_plain_check(&r->kernel[k], own, part.targets, &limits, &part);
        if (status != KAS_OK)
            return kas_fail_context(status, "kernel %d", k);
        flops += part.flops;
        params += part.params;
    }
    for (int t = 0; t < s->targets; t++) {
        const kas_target *at = &r->target[t];
        const double groups = at->groups ? at->groups : 1;
        const double weights = (double)at->c_in * at->c_out * at->kernel_h * at->kernel_w / groups;
        conv_params += weights;
        conv_flops += weights * at->h * at->w;
        params += r->kernel_of[t] == KAS_KEPT ? weights : 0;
        flops += r->kernel_of[t] == KAS_KEPT ? weights * at->h * at->w : 0;
    }
    KAS_TRY(kas_plain_sum("FLOPs", flops, s->flops, conv_flops, budget->max_flops_ratio));
    return kas_plain_sum("parameters", params, s->params, conv_params, budget->max_params_ratio);
}

/* Hashes the kernels in the order of the targets: a network with two kernels exchanged
 * is another one. */
static uint64_t hash_of(const kas_replacement *r)
{
    uint64_t hash = 0;
    for (int t = 0; t < r->solution.targets; t++) {
        const kas_kernel *kernel = kas_replacement_kernel(r, t);
        hash = (hash ^ (kernel ? kas_plain_hash(kernel) : 1)) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static kas_status remember(kas_layers_checked *c, const char name[KAS_NAME_SIZE],
                           const kas_replacement *r)
{
    if (!KAS_GROW(c->seen, c->count))
        return kas_fail(KAS_NO_MEMORY, "no memory to check %zu samples again", c->count + 1);
    kas_layers_seen *seen = &c->seen[c->count++];
    memcpy(seen->name, name, KAS_NAME_SIZE);
    seen->hash = hash_of(r);
    return KAS_OK;
}

kas_status kas_layers_check(kas_layers_checked *c, const char name[KAS_NAME_SIZE],
                            const kas_replacement *r, const kas_budget *budget)
{
    const size_t targets = (size_t)r->solution.targets;
    kas_target *own = calloc(targets, sizeof *own);
    kas_binding *binding = calloc(targets, sizeof *binding);
    kas_status status = KAS_NO_MEMORY;
    if (own && binding)
        status = check_all(r, budget, own, binding);
    free(own);
    free(binding);
    if (status == KAS_NO_MEMORY)
        return kas_fail(KAS_NO_MEMORY, "no memory to check %zu layers again", targets);
    if (status == KAS_OVER_BUDGET || status == KAS_UNSUPPORTED)
        c->over_budget++;
    else
        c->illegal += status != KAS_OK;
    if (status != KAS_OK && !c->first[0])
        snprintf(c->first, sizeof c->first, "layers %s: %.400s", name, kas_error());
    return remember(c, name, r);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const kas_layers_seen *)a)->name, ((const kas_layers_seen *)b)->name);
}

static int by_hash(const void *a, const void *b)
{
    const uint64_t x = ((const kas_layers_seen *)a)->hash, y = ((const kas_layers_seen *)b)->hash;
    return x < y ? -1 : x > y;
}

void kas_layers_report(kas_layers_checked *c, kas_recheck_report *out)
{
    out->kernels += c->count;
    out->illegal += c->illegal;
    out->over_budget += c->over_budget;
    if (c->count)
        qsort(c->seen, c->count, sizeof *c->seen, by_name);
    for (size_t i = 1; i < c->count; i++)
        out->same_name += strcmp(c->seen[i - 1].name, c->seen[i].name) == 0;
    if (c->count)
        qsort(c->seen, c->count, sizeof *c->seen, by_hash);
    for (size_t i = 1; i < c->count; i++)
        out->same_kernel += c->seen[i - 1].hash == c->seen[i].hash;
    if (!out->first[0] && c->first[0])
        snprintf(out->first, sizeof out->first, "%s", c->first);
    else if (!out->first[0] && out->same_name + out->same_kernel)
        snprintf(out->first, sizeof out->first, "layers that came before");
}
