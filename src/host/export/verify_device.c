/* Computes the logits of the exported weights on a device, with the kernels of a training run. This
 * shows that the written files are the network that was trained. */
#include "host/export/export.h"

#include <math.h>
#include <stdlib.h>

#include "host/model/model.h"
#include "host/model/safetensors.h"

#define TOLERANCE 1e-3
#define MOST_TOLERANCE 0.1
#define ROUNDINGS 100 /* a layer rounds more than once, and there are many layers */

static kas_status infer(kas_model *model, const kas_named_tensor *images, float *logits)
{
    kas_step_options step = {.mode = KAS_TAPE_INFER};
    kas_plan *plan = NULL;
    kas_status status = KAS_OK;
    uint64_t size = kas_named_tensor_elements(images);
    float *input = malloc(size * sizeof *input);
    if (!input)
        return kas_fail(KAS_NO_MEMORY, "export: no memory for the images");
    for (uint64_t i = 0; i < size; i++)
        input[i] = (float)kas_named_tensor_get(images, i);
    KAS_TRY_GOTO(kas_model_record(model, &step, &plan), out);
    KAS_TRY_GOTO(kas_model_set_batch(model, KAS_TAPE_INFER, input, NULL), out);
    KAS_TRY_GOTO(kas_plan_run(plan), out);
    KAS_TRY_GOTO(kas_model_get_logits(model, KAS_TAPE_INFER, logits), out);
out:
    kas_plan_free(plan);
    free(input);
    return status;
}

/* Returns the largest difference, relative to the largest logit; NaN when a logit is not
 * a number. */
static double largest_error(const float *found, const kas_named_tensor *expected)
{
    double error = 0, largest = 0;
    for (uint64_t i = 0; i < kas_named_tensor_elements(expected); i++) {
        double value = kas_named_tensor_get(expected, i), difference = fabs(found[i] - value);
        if (!isnan(error) && !(difference <= error))
            error = difference;
        largest = fmax(largest, fabs(value));
    }
    return largest > 0 ? error / largest : error;
}

static kas_status compare(kas_device *device, const kas_export_net *net, const char *weights,
                          const kas_safetensors *check, double *error)
{
    const kas_named_tensor *images = kas_safetensors_find(check, "images");
    const kas_named_tensor *expected = kas_safetensors_find(check, "logits");
    kas_programs programs = {0};
    kas_model_options options = {
        .net = net->net, .programs = &programs, .batch = (int)images->shape[0]};
    kas_model *model = NULL;
    float *logits = malloc(kas_named_tensor_elements(expected) * sizeof *logits);
    if (!logits)
        return kas_fail(KAS_NO_MEMORY, "export: no memory for the logits");
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_model_build_programs(&options, net->replacement,
                                          kas_device_get_info(device)->arch, &programs),
                 out);
    KAS_TRY_GOTO(kas_model_create(device, &options, &model), out);
    KAS_TRY_GOTO(kas_model_load(model, weights, false), out);
    KAS_TRY_GOTO(infer(model, images, logits), out);
    *error = largest_error(logits, expected);
out:
    kas_model_free(model);
    kas_programs_free(&programs);
    free(logits);
    return status;
}

kas_status kas_export_verify_device(const kas_export_options *options, const char *device_name,
                                    int threads, kas_device_verified *out)
{
    kas_device *device = NULL;
    kas_safetensors check = {0};
    char weights[4096], path[4096];
    kas_status status = KAS_OK;
    *out = (kas_device_verified){KAS_VERIFY_SKIPPED, NAN, TOLERANCE};
    KAS_TRY(kas_export_path(options->dir, "check.safetensors", path));
    KAS_TRY(kas_export_path(options->dir, "weights.safetensors", weights));
    KAS_TRY_GOTO(kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &check), done);
    const kas_named_tensor *sensitivity = kas_safetensors_find(&check, "sensitivity");
    out->tolerance = fmax(TOLERANCE, ROUNDINGS * kas_named_tensor_get(sensitivity, 0));
    if (!(out->tolerance <= MOST_TOLERANCE))
        goto done;
    KAS_TRY_GOTO(kas_device_open(device_name, threads, &device), done);
    KAS_TRY_GOTO(compare(device, &options->net, weights, &check, &out->error), done);
    out->verdict = out->error <= out->tolerance ? KAS_VERIFY_OK : KAS_VERIFY_FAILED;
done:
    kas_device_close(device);
    kas_safetensors_free(&check);
    return status;
}
