#include "host/study/problem.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/space/file/assignment.h"

kas_status kas_problem_targets(const kas_search_options *options, int h, int w, int c, int classes,
                               kas_net **net, kas_target **target, int *targets)
{
    const char *spec = *options->network ? options->network : options->net;
    KAS_TRY(kas_net_build(spec, h, w, c, classes, net));
    return kas_net_targets(*net, *options->targets ? options->targets : NULL, target, targets);
}

kas_status kas_problem_open(const kas_search_options *options, const char *dataset,
                            kas_problem *out)
{
    *out = (kas_problem){0};
    KAS_TRY(
        (options->stream ? kas_dataset_open_streamed : kas_dataset_open)(dataset, &out->dataset));
    const kas_dataset *d = out->dataset;
    return kas_problem_targets(options, (int)d->h, (int)d->w, (int)d->c, (int)d->classes, &out->net,
                               &out->target, &out->targets);
}

kas_status kas_problem_split(const kas_problem *problem, const kas_search_options *options,
                             uint32_t **index, uint32_t *train, uint32_t *select, uint32_t *confirm)
{
    uint32_t validation;
    KAS_TRY(kas_dataset_split(problem->dataset, options->seed, options->validation, index, train,
                              &validation));
    *select = validation;
    *confirm = 0;
    if (!options->halves)
        return KAS_OK;
    const kas_status status =
        kas_dataset_halve(problem->dataset, options->seed, *index + *train, validation, select);
    *confirm = validation - *select;
    if (status != KAS_OK) {
        free(*index);
        *index = NULL;
    }
    return status;
}

/* A few images cannot tell whether a kernel loses a point. */
static void warn_of_few_images(const kas_search_options *options, uint32_t select)
{
    const double worth = 100.0 / select;
    if (options->objective != KAS_OBJECTIVE_ACCURACY && options->max_loss > 0 &&
        worth >= options->max_loss)
        kas_warn("--max-loss %g: each of the %u images that select is worth %.3g points, so a "
                 "kernel that has one fewer right than the unmodified network is not within the "
                 "loss; give a larger --validation (%g) or --max-loss, or more images",
                 options->max_loss, select, worth, options->validation);
}

kas_status kas_problem_check(const kas_problem *problem, const kas_search_options *options)
{
    uint32_t *index, train, select, confirm;
    KAS_TRY(kas_problem_split(problem, options, &index, &train, &select, &confirm));
    free(index);
    if (train < (uint32_t)options->recipe.batch)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %u images to train on are fewer than one batch of %d; use a smaller "
                        "--batch or more images",
                        problem->dataset->path, train, options->recipe.batch);
    warn_of_few_images(options, select);
    return KAS_OK;
}

kas_status kas_problem_read_init(kas_problem *problem, const char *path)
{
    return kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &problem->init);
}

const kas_safetensors *kas_problem_init(const kas_problem *problem)
{
    return problem->init.count > 0 ? &problem->init : NULL;
}

void kas_problem_close(kas_problem *problem)
{
    kas_safetensors_free(&problem->init);
    free(problem->target);
    if (problem->net)
        kas_net_free(problem->net);
    if (problem->dataset)
        kas_dataset_close(problem->dataset);
    *problem = (kas_problem){0};
}

kas_budget kas_search_budget(const kas_search_options *options)
{
    return (kas_budget){.max_flops_ratio = options->flops, .max_params_ratio = options->params};
}

static kas_status place_gains(const char *name, const char *text, kas_replacement *out)
{
    kas_gains gains;
    KAS_TRY(kas_gains_parse(name, text, &gains));
    const kas_status status = kas_gains_fit(&gains, out);
    kas_gains_free(&gains);
    return status;
}

kas_status kas_problem_place(const kas_search_options *options, const char *name, const char *text,
                             const char *gains, const kas_target *target, int targets,
                             kas_replacement *out)
{
    const kas_budget budget = kas_search_budget(options);
    kas_assignment kernels;
    KAS_TRY(kas_assignment_read_json(name, text, strlen(text), &kernels));
    kas_status status = kas_assignment_fit(&kernels, target, targets, &budget, out);
    kas_assignment_free(&kernels);
    KAS_TRY(status);
    if (gains)
        status = place_gains(name, gains, out);
    if (status != KAS_OK)
        kas_replacement_free(out);
    return status;
}
