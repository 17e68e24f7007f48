#include "host/predict/keep.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"

/* ---- layers ---------------------------------------------------------------------------------- */

static int replaced(const int *kernel_of, int count)
{
    int sum = 0;
    for (int t = 0; t < count; t++)
        sum += kernel_of[t] != KAS_KEPT;
    return sum;
}

/* Copies which target has which kernel of the assignment. */
static kas_status read_layers(const kas_assignment *a, const kas_target *targets, int count,
                              int **kernel_of)
{
    *kernel_of = calloc((size_t)count + 1, sizeof **kernel_of);
    if (!*kernel_of)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d layers", count);
    return a->layers ? kas_assignment_match(a, targets, count, *kernel_of) : KAS_OK;
}

/* Makes the assignment one of layers. */
static kas_status write_layers(const int *kernel_of, const kas_target *targets, int count,
                               kas_assignment *a)
{
    const kas_replacement wanted = {.target = targets,
                                    .kernel = a->kernel,
                                    .kernels = a->kernels,
                                    .kernel_of = (int *)kernel_of,
                                    .solution = {.targets = count}};
    kas_assignment made;
    KAS_TRY(kas_assignment_make(&wanted, &made));
    kas_assignment_free(a);
    *a = made;
    return KAS_OK;
}

static kas_status none_left(const char *why)
{
    return kas_fail(KAS_ILLEGAL, "no layer is replaced: %s", why);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static kas_status find_sizes(const kas_kernel *kernel, const kas_target *target,
                             const kas_budget *budget, bool *found)
{
    kas_budget limits = *budget;
    kas_solution solution;
    limits.max_flops_ratio = limits.max_params_ratio = 0;
    const bool quiet = kas_quiet(true);
    const kas_status status = kas_solve(kernel, target, 1, &limits, &solution);
    kas_quiet(quiet);
    *found = status == KAS_OK;
    if (*found)
        kas_solution_free(&solution);
    return status == KAS_ILLEGAL || status == KAS_UNSUPPORTED ? KAS_OK : status;
}

kas_status kas_keep_where_none_fits(const kas_target *targets, int count, const kas_budget *budget,
                                    kas_assignment *a)
{
    int *kernel_of;
    kas_status status = read_layers(a, targets, count, &kernel_of);
    if (status != KAS_OK)
        goto out;
    const int before = replaced(kernel_of, count);
    for (int t = 0; t < count; t++) {
        bool found = false;
        if (kernel_of[t] != KAS_KEPT)
            KAS_TRY_GOTO(find_sizes(&a->kernel[kernel_of[t]], &targets[t], budget, &found), out);
        if (!found)
            kernel_of[t] = KAS_KEPT;
    }
    const int left = replaced(kernel_of, count);
    if (left == 0)
        status = none_left("the kernel has whole sizes within the limits at none");
    else if (left < before)
        status = write_layers(kernel_of, targets, count, a);
out:
    free(kernel_of);
    return status;
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* Returns whether a layer was decided when an earlier one was: the same kernel, with the same
 * sizes, in the place of the same convolution. */
static bool same_case(const kas_replacement *r, const int *kernel_of, int t, int earlier)
{
    const kas_target *a = &r->target[t], *b = &r->target[earlier];
    return kernel_of[t] == kernel_of[earlier] && kas_target_same_sizes(a, b) &&
           kas_epilogue_same(a->epilogue, b->epilogue) &&
           memcmp(&r->solution.binding[t], &r->solution.binding[earlier],
                  sizeof *r->solution.binding) == 0;
}

/* Predicts the network with the kernel of one target alone. */
static kas_status is_slower(const kas_predictor *predictor, const kas_replacement *r,
                            const int *kernel_of, int *alone, int t, bool *slower)
{
    kas_replacement one = *r;
    double seconds;
    for (int u = 0; u < r->solution.targets; u++)
        alone[u] = u == t ? kernel_of[t] : KAS_KEPT;
    one.kernel_of = alone;
    const kas_status status = kas_predict_candidate(predictor, &one, &seconds);
    *slower = status == KAS_OK ? seconds > kas_predictor_unmodified(predictor)
                               : status == KAS_ILLEGAL || status == KAS_UNSUPPORTED;
    return *slower ? KAS_OK : status;
}

/* Takes the kernels of slower layers away, once. `slower` [targets] is memory. */
static kas_status keep_once(const kas_predictor *predictor, const kas_replacement *r,
                            int *kernel_of, int *alone, bool *slower)
{
    const int count = r->solution.targets;
    for (int t = 0; t < count; t++) {
        int earlier = 0;
        slower[t] = false;
        if (kernel_of[t] == KAS_KEPT)
            continue;
        while (earlier < t && !same_case(r, kernel_of, t, earlier))
            earlier++;
        if (earlier < t)
            slower[t] = slower[earlier];
        else
            KAS_TRY(is_slower(predictor, r, kernel_of, alone, t, &slower[t]));
    }
    for (int t = 0; t < count; t++)
        if (slower[t])
            kernel_of[t] = KAS_KEPT;
    return KAS_OK;
}

/* Makes one round; *changed says whether it has taken a kernel away. */
static kas_status keep_round(const kas_predictor *predictor, const kas_target *targets, int count,
                             const kas_budget *budget, kas_assignment *a, bool *changed)
{
    kas_replacement r = {0};
    int *kernel_of = NULL, *alone = calloc((size_t)count, sizeof *alone);
    bool *slower = calloc((size_t)count, sizeof *slower);
    kas_status status = read_layers(a, targets, count, &kernel_of);
    if (status == KAS_OK && (!alone || !slower))
        status = kas_fail(KAS_NO_MEMORY, "no memory for %d layers", count);
    if (status == KAS_OK)
        status = kas_assignment_fit(a, targets, count, budget, &r);
    if (status != KAS_OK)
        goto out;
    const int before = replaced(kernel_of, count);
    KAS_TRY_GOTO(keep_once(predictor, &r, kernel_of, alone, slower), out);
    const int left = replaced(kernel_of, count);
    *changed = left < before;
    if (left == 0)
        status = none_left("the kernel is predicted to be slower than the convolution at each that "
                           "it fits");
    else if (*changed)
        status = write_layers(kernel_of, targets, count, a);
out:
    kas_replacement_free(&r);
    free(kernel_of);
    free(alone);
    free(slower);
    return status;
}

kas_status kas_keep_slower(const kas_predictor *predictor, const kas_target *targets, int count,
                           const kas_budget *budget, kas_assignment *a)
{
    bool changed = true;
    KAS_TRY(kas_keep_where_none_fits(targets, count, budget, a));
    while (changed)
        KAS_TRY(keep_round(predictor, targets, count, budget, a, &changed));
    return KAS_OK;
}

/* ---- commands -------------------------------------------------------------------------------- */

static kas_status report(const char *name, const char *machine, const kas_assignment *a)
{
    kas_buf list = {0};
    const int kept = a->layers - replaced(a->kernel_of, a->layers);
    for (int i = 0; i < a->layers; i++)
        if (a->kernel_of[i] == KAS_KEPT)
            kas_buf_printf(&list, "%s%s", list.size ? ", " : "", a->layer[i]);
    const kas_status status = kas_buf_status(&list);
    if (status == KAS_OK && kept)
        kas_info(
            "%s: %d of %d layers keep their convolution, because the kernel does not fit there "
            "or is predicted to be slower on %s: %s",
            name, kept, a->layers, machine, list.data);
    kas_buf_free(&list);
    return status;
}

kas_status kas_keep_apply(const kas_keep *keep, const char *name, const kas_net *net,
                          const kas_target *targets, int count, const kas_budget *budget,
                          kas_assignment *kernels)
{
    kas_machine machine;
    kas_predictor *predictor;
    if (!keep->machine)
        return KAS_OK;
    KAS_TRY(kas_machine_find(keep->machine, keep->device, keep->threads, &machine));
    KAS_TRY(kas_predictor_create(&machine, net, keep->batch ? keep->batch : KAS_KEEP_BATCH,
                                 keep->precision, &predictor));
    kas_status status = kas_keep_slower(predictor, targets, count, budget, kernels);
    if (status == KAS_OK)
        status = report(name, machine.name, kernels);
    kas_predictor_free(predictor);
    return status == KAS_OK
               ? status
               : kas_fail_context(status, "%s: --keep-slower on %s", name, machine.name);
}
