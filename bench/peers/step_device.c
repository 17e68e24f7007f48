/* The device's part of step_dump: loss, logits and gradients of one training step in float32. */
#include "step_dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/model/model.h"

typedef struct session {
    const step_input *in;
    kas_device *device;
    kas_model *model;
    kas_plan *plan;
    float *images, *logits;
    float **gradient; /* [parameters]; NULL for running statistics */
    kas_named_tensor *tensor;
} session;

static kas_status allocate(session *s)
{
    const kas_layer *in = &s->in->net->layer[0];
    size_t image = (size_t)in->c * (size_t)in->h * (size_t)in->w, n = (size_t)s->in->n;
    size_t params = (size_t)kas_model_params(s->model)->count;
    s->images = malloc(sizeof *s->images * n * image);
    s->logits = malloc(sizeof *s->logits * n * (size_t)s->in->net->classes);
    s->gradient = calloc(params, sizeof *s->gradient);
    s->tensor = calloc(params + 2, sizeof *s->tensor);
    if (!s->images || !s->logits || !s->gradient || !s->tensor)
        return kas_fail(KAS_NO_MEMORY, "no memory for a step");
    for (size_t i = 0; i < n * image; i++)
        s->images[i] = (float)s->in->images[i];
    return KAS_OK;
}

static kas_status set_parameter(session *s, int i)
{
    const kas_param *p = &kas_model_params(s->model)->param[i];
    double *values = malloc(sizeof *values * p->size);
    float *rounded = malloc(sizeof *rounded * p->size);
    kas_status status = KAS_OK;
    if (!values || !rounded) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for %s", p->name);
        goto out;
    }
    KAS_TRY_GOTO(step_copy(s->in->file, p->name, p->size, values), out);
    for (size_t k = 0; k < p->size; k++)
        rounded[k] = (float)values[k];
    status = kas_model_set(s->model, i, rounded);
out:
    free(values);
    free(rounded);
    return status;
}

static void put(kas_named_tensor *t, const char *prefix, const char *name, const float *data,
                size_t size)
{
    if (snprintf(t->name, sizeof t->name, "%s%s", prefix, name) >= (int)sizeof t->name)
        t->name[0] = '\0'; /* cannot be: names of layers are far shorter */
    t->dtype = KAS_SAFETENSORS_F32;
    t->rank = 1;
    t->shape[0] = size;
    t->data = data;
}

static kas_status save(session *s, const float *loss, const char *path)
{
    const kas_params *params = kas_model_params(s->model);
    int count = 0;
    put(&s->tensor[count++], "", "loss", loss, 1);
    put(&s->tensor[count++], "", "logits", s->logits, (size_t)s->in->n * s->in->net->classes);
    for (int i = 0; i < params->count; i++) {
        const kas_param *p = &params->param[i];
        if (p->kind == KAS_PARAM_STATISTIC)
            continue;
        s->gradient[i] = malloc(sizeof(float) * p->size);
        if (!s->gradient[i])
            return kas_fail(KAS_NO_MEMORY, "no memory for the gradient of %s", p->name);
        KAS_TRY(kas_model_get_gradient(s->model, i, s->gradient[i]));
        put(&s->tensor[count++], "grad.", p->name, s->gradient[i], p->size);
    }
    return kas_safetensors_write(path, s->tensor, count, NULL);
}

static kas_status step(session *s, const step_options *options, const char *path)
{
    kas_model_options model = {.net = s->in->net, .batch = s->in->n, .training = true};
    const kas_recipe recipe = {.label_smoothing = options->smoothing};
    kas_step_options record = {.mode = KAS_TAPE_TRAIN, .recipe = &recipe};
    const kas_metrics zero = {0};
    kas_metrics metrics;
    KAS_TRY(kas_device_open(options->device, 0, &s->device));
    KAS_TRY(kas_model_create(s->device, &model, &s->model));
    KAS_TRY(allocate(s));
    for (int i = 0; i < kas_model_params(s->model)->count; i++)
        KAS_TRY(set_parameter(s, i));
    KAS_TRY(kas_model_record(s->model, &record, &s->plan));
    KAS_TRY(kas_model_set_metrics(s->model, &zero));
    KAS_TRY(kas_model_set_batch(s->model, KAS_TAPE_TRAIN, s->images, s->in->labels));
    KAS_TRY(kas_plan_run(s->plan));
    KAS_TRY(kas_model_get_metrics(s->model, &metrics));
    KAS_TRY(kas_model_get_logits(s->model, KAS_TAPE_TRAIN, s->logits));
    float loss = (float)metrics.batch_loss;
    return save(s, &loss, path);
}

kas_status step_device(const step_input *in, const step_options *options, const char *out_path)
{
    session s = {.in = in};
    kas_status status = step(&s, options, out_path);
    for (int i = 0; s.gradient && i < kas_model_params(s.model)->count; i++)
        free(s.gradient[i]);
    free(s.gradient);
    free(s.tensor);
    free(s.images);
    free(s.logits);
    kas_plan_free(s.plan);
    kas_model_free(s.model);
    kas_device_close(s.device);
    return status;
}
