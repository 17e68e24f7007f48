#include "host/assemble/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/assemble/layer_seconds.h"
#include "host/core/log.h"
#include "host/predict/keep.h"
#include "host/space/cost.h"

/* ---- kernels --------------------------------------------------------------------------------- */

/* Fits a kernel wherever it fits. Without free sizes it may cost more than the budget: it may still
 * be chosen for a few targets. */
static kas_status fit(const kas_choices *c, const kas_kernel *kernel, kas_replacement *out)
{
    const kas_budget no_ratio = {.max_tensor = c->sizes.max_tensor,
                                 .max_weight = c->sizes.max_weight};
    kas_assignment one = {.kernels = 1, .kernel = malloc(sizeof *kernel)};
    if (!one.kernel)
        return kas_fail(KAS_NO_MEMORY, "no memory for a kernel");
    *one.kernel = *kernel;
    kas_status status = kas_keep_where_none_fits(c->target, c->targets, &c->sizes, &one);
    if (status == KAS_OK)
        status = kas_assignment_fit(&one, c->target, c->targets, &c->sizes, out);
    if (status == KAS_OVER_BUDGET && kas_kernel_vars(kernel) == 0)
        status = kas_assignment_fit(&one, c->target, c->targets, &no_ratio, out);
    kas_assignment_free(&one);
    return status;
}

static kas_status add_kernel(kas_choices *c, const char *path, const kas_kernel *kernel)
{
    char name[KAS_NAME_SIZE];
    const kas_assignment one = {.kernels = 1, .kernel = (kas_kernel *)kernel};
    KAS_TRY(kas_assignment_name(&one, name));
    for (int k = 0; k < c->kernels; k++)
        if (strcmp(c->name[k], name) == 0)
            return KAS_OK;
    if (c->kernels == KAS_CHOICES_KERNELS)
        return kas_fail(KAS_BAD_INPUT, "%s: more than %d kernels; give fewer", path,
                        KAS_CHOICES_KERNELS);
    const kas_status status = fit(c, kernel, &c->everywhere[c->kernels]);
    if (kas_is_misfit(status)) {
        kas_warn("%s: kernel %s is left out: %s", path, name, kas_error());
        return KAS_OK;
    }
    KAS_TRY(status);
    c->kernel[c->kernels] = *kernel;
    memcpy(c->name[c->kernels++], name, sizeof name);
    return KAS_OK;
}

kas_status kas_choices_add(kas_choices *c, const char *path, const kas_assignment *kernels)
{
    for (int k = 0; k < kernels->kernels; k++)
        KAS_TRY(add_kernel(c, path, &kernels->kernel[k]));
    return KAS_OK;
}

void kas_choices_drop(kas_choices *c, int kernel)
{
    const size_t behind = (size_t)(--c->kernels - kernel);
    kas_replacement_free(&c->everywhere[kernel]);
    memmove(&c->everywhere[kernel], &c->everywhere[kernel + 1], sizeof *c->everywhere * behind);
    memmove(&c->kernel[kernel], &c->kernel[kernel + 1], sizeof *c->kernel * behind);
    memmove(&c->name[kernel], &c->name[kernel + 1], sizeof *c->name * behind);
}

void kas_choices_free(kas_choices *c)
{
    for (int k = 0; k < c->kernels; k++)
        kas_replacement_free(&c->everywhere[k]);
    c->kernels = 0;
}

bool kas_choices_has(const kas_choices *c, int target, int option)
{
    return option == 0 || kas_replacement_kernel(&c->everywhere[option - 1], target) != NULL;
}

/* ---- replacements ---------------------------------------------------------------------------- */

kas_replacement kas_choices_alone(const kas_choices *c, int kernel, int target, int *kernel_of)
{
    kas_replacement one = c->everywhere[kernel];
    for (int t = 0; t < c->targets; t++)
        kernel_of[t] = t == target ? 0 : KAS_KEPT;
    one.kernel_of = kernel_of;
    return one;
}

/* Puts the numbers of target `t` in the place of free sizes; a kernel that cannot have them stays
 * as it is. */
static void fix_sizes(const kas_choices *c, int k, int t, kas_kernel *out)
{
    const kas_binding *binding = &c->everywhere[k].solution.binding[t];
    const bool quiet = kas_quiet(true);
    *out = c->kernel[k];
    for (int v = 0; v < KAS_MAX_VARS; v++) {
        const kas_dim value = kas_dim_const(binding->value[KAS_SYM_X0 + v]);
        if (kas_kernel_vars(out) >> v & 1 && kas_kernel_substitute(out, v, &value) != KAS_OK) {
            *out = c->kernel[k];
            break;
        }
    }
    kas_quiet(quiet);
}

/* Whether target `t` can have the kernel that target `u` has: the same, with the same free
 * sizes. */
static bool same_kernel(const kas_choices *c, const int *chosen, int t, int u)
{
    const kas_binding *binding = chosen[t] ? c->everywhere[chosen[t] - 1].solution.binding : NULL;
    return chosen[t] == chosen[u] &&
           (!binding || memcmp(&binding[t].value[KAS_SYM_X0], &binding[u].value[KAS_SYM_X0],
                               sizeof *binding->value * KAS_MAX_VARS) == 0);
}

kas_status kas_choices_replacement(const kas_choices *c, const int *chosen, kas_replacement *out)
{
    int kernels = 0;
    kas_kernel *kernel = malloc(sizeof *kernel * ((size_t)c->targets + 1));
    int *kernel_of = malloc(sizeof *kernel_of * ((size_t)c->targets + 1));
    kas_status status = kernel && kernel_of
                            ? KAS_OK
                            : kas_fail(KAS_NO_MEMORY, "no memory for %d layers", c->targets);
    for (int t = 0; t < c->targets && status == KAS_OK; t++) {
        int u = 0;
        while (u < t && !same_kernel(c, chosen, t, u))
            u++;
        kernel_of[t] = u < t ? kernel_of[u] : KAS_KEPT;
        if (u < t || !chosen[t])
            continue;
        fix_sizes(c, chosen[t] - 1, t, &kernel[kernels]);
        kernel_of[t] = kernels++;
    }
    if (status == KAS_OK)
        status = kas_replacement_solve(kernel, kernels, kernel_of, c->target, c->targets, &c->limit,
                                       out);
    free(kernel);
    free(kernel_of);
    return status;
}

bool kas_choices_same_sizes(const kas_choices *c, const int *chosen, const kas_replacement *r)
{
    for (int t = 0; t < c->targets; t++)
        for (int v = 0; chosen[t] && v < KAS_MAX_VARS; v++) {
            const uint32_t size = r->solution.binding[t].value[KAS_SYM_X0 + v];
            if (kas_kernel_vars(kas_replacement_kernel(r, t)) >> v & 1 &&
                size != c->everywhere[chosen[t] - 1].solution.binding[t].value[KAS_SYM_X0 + v])
                return false;
        }
    return true;
}

/* ---- costs ----------------------------------------------------------------------------------- */

/* Whole multiples of 2^-50 seconds: their sums are exact, so that choices of layers that cost the
 * same are equal in whatever order they are added. */
static double whole(double seconds)
{
    enum { BITS = 50 };
    return ldexp(rint(ldexp(seconds, BITS)), -BITS);
}

void kas_choices_costs(const kas_choices *c, const double *plain, const double *with,
                       kas_option *option)
{
    const int options = kas_choices_options(c);
    for (int t = 0; t < c->targets; t++)
        for (int o = 0; o < options; o++) {
            kas_option *to = &option[t * options + o];
            to->cost = NAN;
            if (kas_choices_has(c, t, o))
                to->cost = o ? whole(with[(o - 1) * c->targets + t] - plain[t]) : 0;
        }
}

kas_status kas_choices_limits(const kas_choices *c, kas_option *option,
                              double limit[KAS_FRONTIER_FURTHER])
{
    const int options = kas_choices_options(c);
    const bool limits_flops = c->limit.max_flops_ratio > 0,
               limits_params = c->limit.max_params_ratio > 0;
    double flops = 0, params = 0;
    for (int t = 0; t < c->targets; t++) {
        const kas_target *target = &c->target[t];
        kas_cost cost = {.flops = kas_target_conv_flops(target),
                         .params = kas_target_conv_params(target)};
        flops += cost.flops;
        params += cost.params;
        for (int o = 0; o < options; o++) {
            const kas_replacement *r = o ? &c->everywhere[o - 1] : NULL;
            if (!kas_choices_has(c, t, o))
                continue;
            if (r)
                KAS_TRY(kas_layer_cost(kas_replacement_kernel(r, t), target,
                                       &r->solution.binding[t], &cost));
            option[t * options + o].further[0] = limits_flops ? cost.flops : 0;
            option[t * options + o].further[1] = limits_params ? cost.params : 0;
        }
    }
    limit[0] = limits_flops ? c->limit.max_flops_ratio * flops : INFINITY;
    limit[1] = limits_params ? c->limit.max_params_ratio * params : INFINITY;
    return KAS_OK;
}

kas_status kas_choices_predict(const kas_choices *c, const kas_machine *machine, int batch,
                               int kernel, double *seconds)
{
    kas_programs programs;
    kas_prediction prediction;
    const bool plain = kernel == KAS_CHOICES_PLAIN;
    if (!plain)
        KAS_TRY(kas_predict_lower(machine, &c->everywhere[kernel], batch, KAS_PRECISION_FP32, false,
                                  &programs));
    const kas_status status = kas_predict(machine, c->net, plain ? NULL : &programs, batch,
                                          KAS_PRECISION_FP32, &prediction);
    if (status == KAS_OK) {
        kas_layer_seconds(&prediction.planned, c->target, c->targets, seconds);
        kas_prediction_free(&prediction);
    }
    if (!plain)
        kas_programs_free(&programs);
    return status;
}
