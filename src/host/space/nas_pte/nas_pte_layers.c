#include "host/space/nas_pte/nas_pte_layers.h"

#include <stdlib.h>

#include "host/space/nas_pte/nas_pte.h"

struct kas_pte_layers {
    const kas_target *targets;
    int count;
    kas_budget budget, limits; /* the limits alone: no ratio */
    kas_solver **solver;       /* [count] of each target alone */
    kas_kernel *kernel;        /* [count] of the layers that are changed, in their order */
    int *kernel_of;            /* [count] */
};

void kas_pte_layers_free(kas_pte_layers *l)
{
    if (!l)
        return;
    for (int t = 0; l->solver && t < l->count; t++)
        kas_solver_free(l->solver[t]);
    free(l->solver);
    free(l->kernel);
    free(l->kernel_of);
    free(l);
}

kas_status kas_pte_layers_create(const kas_target *targets, int count, const kas_budget *budget,
                                 kas_pte_layers **out)
{
    const size_t n = (size_t)count;
    kas_pte_layers *l = calloc(1, sizeof *l);
    kas_status status = KAS_OK;
    if (!l)
        return kas_fail(KAS_NO_MEMORY, "no memory for a sampler");
    *l = (kas_pte_layers){targets, count, *budget, *budget, NULL, NULL, NULL};
    l->limits.max_flops_ratio = l->limits.max_params_ratio = 0;
    l->solver = calloc(n, sizeof *l->solver);
    l->kernel = calloc(n, sizeof *l->kernel);
    l->kernel_of = calloc(n, sizeof *l->kernel_of);
    if (!l->solver || !l->kernel || !l->kernel_of)
        status = kas_fail(KAS_NO_MEMORY, "no memory for a sampler of %d layers", count);
    for (int t = 0; t < count && status == KAS_OK; t++)
        status = kas_solver_create(&targets[t], 1, &l->solver[t]);
    if (status == KAS_OK)
        *out = l;
    else
        kas_pte_layers_free(l);
    return status;
}

/* The layer at hand. */
typedef struct layer {
    kas_solver *solver;
    const kas_budget *limits;
} layer;

static bool has_sizes(void *context, const kas_kernel *kernel)
{
    const layer *at = context;
    return kas_solver_run(at->solver, kernel, at->limits) == KAS_OK;
}

/* A sequence for every layer; false when one found none. *kernels: how many layers it changes. */
static bool draw(kas_pte_layers *l, kas_rng *rng, int *kernels)
{
    *kernels = 0;
    for (int t = 0; t < l->count; t++) {
        layer at = {l->solver[t], &l->limits};
        const kas_target *target = &l->targets[t];
        const kas_pte_fit fit = {has_sizes,
                                 &at,
                                 {target->c, target->h, target->w, target->kernel_h,
                                  target->kernel_w, target->groups, target->stride}};
        kas_pte_sequence sequence;
        if (!kas_pte_draw(rng, &fit, 0, &sequence, &l->kernel[*kernels]))
            return false;
        l->kernel_of[t] = sequence.steps ? (*kernels)++ : KAS_KEPT;
    }
    return true;
}

/* The drawn kernels within the budget, then in canonical form: most attempts that fail do so before
 * that. */
static kas_status complete(const kas_pte_layers *l, int kernels, char name[KAS_NAME_SIZE],
                           kas_replacement *out)
{
    kas_replacement drawn;
    kas_assignment canonical;
    KAS_TRY(kas_replacement_solve(l->kernel, kernels, l->kernel_of, l->targets, l->count,
                                  &l->budget, &drawn));
    kas_status status = kas_assignment_make(&drawn, &canonical);
    kas_replacement_free(&drawn);
    KAS_TRY(status);
    status = kas_assignment_name(&canonical, name);
    if (status == KAS_OK)
        status = kas_assignment_fit(&canonical, l->targets, l->count, &l->budget, out);
    kas_assignment_free(&canonical);
    return status;
}

kas_status kas_pte_layers_attempt(kas_pte_layers *l, uint64_t seed, uint64_t attempt,
                                  char name[KAS_NAME_SIZE], kas_replacement *out, kas_reject *why)
{
    const bool quiet = kas_quiet(true);
    kas_rng rng = kas_pte_rng(seed, attempt);
    kas_status status = KAS_OK;
    int kernels;
    *why = KAS_REJECT_DEAD_END;
    if (draw(l, &rng, &kernels)) {
        *why = KAS_REJECT_REDUNDANT; /* the network as it is */
        if (kernels)
            status = kas_reject_of(complete(l, kernels, name, out), why);
    }
    kas_quiet(quiet);
    return status;
}
