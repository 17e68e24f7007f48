/* Solves the sizes of several kernels within one budget, and owns the memory of a replacement. */
#include "host/space/solve/replacement.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/primitive.h"

/* The problem, and the costs so far. */
typedef struct layers {
    const kas_kernel *kernel;
    const int *kernel_of;
    const kas_target *targets;
    int count;
    kas_target *own; /* [count]: targets of the present kernel */
    kas_solution *out;
} layers;

/* Collects the targets of kernel k in their order; returns their number. */
static int own_targets(layers *s, int k)
{
    int own = 0;
    for (int t = 0; t < s->count; t++)
        if (s->kernel_of[t] == k)
            s->own[own++] = s->targets[t];
    return own;
}

static kas_status solve_kernel(layers *s, int k, const kas_budget *budget)
{
    kas_solution solution;
    const int own = own_targets(s, k);
    kas_status status = kas_solve(&s->kernel[k], s->own, own, budget, &solution);
    if (status != KAS_OK)
        return kas_fail_context(status, "kernel %d", k);
    for (int t = 0, i = 0; t < s->count; t++)
        if (s->kernel_of[t] == k)
            s->out->binding[t] = solution.binding[i++];
    s->out->flops += solution.flops;
    s->out->params += solution.params;
    kas_solution_free(&solution);
    return KAS_OK;
}

static bool is_free(const layers *s, int t)
{
    return s->kernel_of[t] != KAS_KEPT && kas_kernel_vars(&s->kernel[s->kernel_of[t]]) != 0;
}

/* Solves every kernel with free sizes, or every one without, once, in the order of the targets. */
static kas_status solve_all(layers *s, bool with_free, const kas_budget *budget)
{
    for (int t = 0; t < s->count; t++) {
        bool first = s->kernel_of[t] != KAS_KEPT && is_free(s, t) == with_free;
        for (int u = 0; u < t && first; u++)
            first = s->kernel_of[u] != s->kernel_of[t];
        if (first)
            KAS_TRY(solve_kernel(s, s->kernel_of[t], budget));
    }
    return KAS_OK;
}

/* Computes the ratio that is left for convolutions which cost `open`, when `ratio` is the limit for
 * all; 0 stays 0. */
static kas_status left_over(const char *what, double ratio, double conv, double spent, double open,
                            double *left)
{
    *left = 0;
    if (ratio <= 0)
        return KAS_OK;
    if (spent > ratio * conv || (open > 0 && spent == ratio * conv))
        return kas_fail(KAS_OVER_BUDGET,
                        "kernels of fixed size and kept convolutions need %.3g times the "
                        "convolutions' %s, and %.3g times are allowed",
                        spent / conv, what, ratio);
    if (open > 0) /* when they are all convolutions, exactly the given ratio */
        *left = open == conv ? ratio : (ratio * conv - spent) / open;
    return KAS_OK;
}

static kas_status solve(layers *s, const kas_budget *budget)
{
    kas_budget fixed = *budget, rest = *budget;
    kas_solution *out = s->out;
    double open_flops = 0, open_params = 0;
    fixed.max_flops_ratio = fixed.max_params_ratio = 0;
    for (int t = 0; t < s->count; t++) {
        const double flops = kas_target_conv_flops(&s->targets[t]);
        const double params = kas_target_conv_params(&s->targets[t]);
        out->conv_flops += flops;
        out->conv_params += params;
        open_flops += is_free(s, t) ? flops : 0;
        open_params += is_free(s, t) ? params : 0;
        out->flops += s->kernel_of[t] == KAS_KEPT ? flops : 0;
        out->params += s->kernel_of[t] == KAS_KEPT ? params : 0;
    }
    KAS_TRY(solve_all(s, false, &fixed));
    KAS_TRY(left_over("FLOPs", budget->max_flops_ratio, out->conv_flops, out->flops, open_flops,
                      &rest.max_flops_ratio));
    KAS_TRY(left_over("parameters", budget->max_params_ratio, out->conv_params, out->params,
                      open_params, &rest.max_params_ratio));
    return solve_all(s, true, &rest);
}

/* Of kernels for each layer. */
static kas_status solve_layers(const kas_kernel *kernel, const int *kernel_of,
                               const kas_target *targets, int count, const kas_budget *budget,
                               kas_solution *out)
{
    *out = (kas_solution){.targets = count};
    layers s = {kernel, kernel_of, targets, count, NULL, out};
    out->binding = calloc((size_t)count + 1, sizeof *out->binding);
    s.own = calloc((size_t)count + 1, sizeof *s.own);
    kas_status status = out->binding && s.own
                            ? solve(&s, budget)
                            : kas_fail(KAS_NO_MEMORY, "no memory for %d layers", count);
    free(s.own);
    if (status != KAS_OK)
        kas_solution_free(out);
    return status;
}

kas_status kas_replacement_set(kas_replacement *r, const kas_kernel *kernel, int kernels,
                               const int *kernel_of)
{
    const size_t layers = kernel_of ? (size_t)r->solution.targets : 0;
    r->kernels = kernels;
    r->kernel = calloc((size_t)kernels + 1, sizeof *r->kernel);
    r->kernel_of = layers ? calloc(layers, sizeof *r->kernel_of) : NULL;
    if (!r->kernel || (layers && !r->kernel_of)) {
        kas_replacement_free(r);
        return kas_fail(KAS_NO_MEMORY, "no memory for %d kernels", kernels);
    }
    for (int k = 0; k < kernels; k++)
        kas_kernel_copy(&kernel[k], &r->kernel[k]);
    if (layers)
        memcpy(r->kernel_of, kernel_of, layers * sizeof *kernel_of);
    return KAS_OK;
}

/* Solves before it copies: most kernels that a sampler draws for each layer are over the budget. */
kas_status kas_replacement_solve(const kas_kernel *kernel, int kernels, const int *kernel_of,
                                 const kas_target *targets, int count, const kas_budget *budget,
                                 kas_replacement *out)
{
    *out = (kas_replacement){.target = targets};
    KAS_TRY(kernel_of ? solve_layers(kernel, kernel_of, targets, count, budget, &out->solution)
                      : kas_solve(kernel, targets, count, budget, &out->solution));
    return kas_replacement_set(out, kernel, kernels, kernel_of);
}

kas_status kas_replacement_set_gains(kas_replacement *r, const float *gain)
{
    const size_t bytes = sizeof *gain * (size_t)r->solution.targets;
    float *copy = gain ? malloc(bytes + 1) : NULL;
    if (gain && !copy)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d gains", r->solution.targets);
    if (gain)
        memcpy(copy, gain, bytes);
    free(r->gain);
    r->gain = copy;
    return KAS_OK;
}

void kas_replacement_free(kas_replacement *replacement)
{
    free(replacement->gain);
    free(replacement->kernel);
    free(replacement->kernel_of);
    kas_solution_free(&replacement->solution);
    *replacement = (kas_replacement){0};
}
