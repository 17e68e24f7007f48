/* The reference's part of step_dump. */
#include "step_dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/reference/net/layers.h"
#include "support/reference_update.h"

typedef struct output {
    kas_named_tensor *tensor;
    int count;
} output;

static void put(output *out, const char *prefix, const char *name, const double *data, size_t size)
{
    kas_named_tensor *t = &out->tensor[out->count++];
    snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
    t->dtype = KAS_SAFETENSORS_F64;
    t->rank = 1;
    t->shape[0] = size;
    t->data = data;
}

static kas_status load(kas_ref_net *net, const kas_safetensors *file, double **velocity)
{
    for (int i = 0; i < net->params; i++) {
        kas_ref_param *p = &net->param[i];
        char name[160];
        KAS_TRY(step_copy(file, p->name, p->size, p->value));
        velocity[i] = calloc(p->size, sizeof **velocity);
        if (!velocity[i])
            return kas_fail(KAS_NO_MEMORY, "no memory for %s", p->name);
        snprintf(name, sizeof name, "velocity.%s", p->name);
        if (kas_safetensors_find(file, name))
            KAS_TRY(step_copy(file, name, p->size, velocity[i]));
    }
    return KAS_OK;
}

static kas_status save(const kas_ref_net *net, double *const *velocity, const double *loss,
                       const double *logits, size_t logits_size, const char *path)
{
    output out = {calloc(2 + 3 * (size_t)net->params, sizeof *out.tensor), 0};
    if (!out.tensor)
        return kas_fail(KAS_NO_MEMORY, "no memory for the list of tensors");
    put(&out, "", "loss", loss, 1);
    put(&out, "", "logits", logits, logits_size);
    for (int i = 0; i < net->params; i++) {
        const kas_ref_param *p = &net->param[i];
        put(&out, "", p->name, p->value, p->size);
        if (!p->grad)
            continue;
        put(&out, "grad.", p->name, p->grad, p->size);
        put(&out, "velocity.", p->name, velocity[i], p->size);
    }
    kas_status status = kas_safetensors_write(path, out.tensor, out.count, NULL);
    free(out.tensor);
    return status;
}

kas_status step_reference(const step_input *in, const step_options *options, const char *out_path)
{
    kas_ref_net *net = NULL;
    double **velocity = NULL, *logits = NULL, loss;
    size_t logits_size = (size_t)in->n * in->net->classes;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_ref_net_create(in->net, &net), done);
    velocity = calloc(net->params, sizeof *velocity);
    logits = malloc(logits_size * sizeof *logits);
    if (!velocity || !logits) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for a step");
        goto done;
    }
    KAS_TRY_GOTO(load(net, in->file, velocity), done);
    KAS_TRY_GOTO(
        kas_ref_net_step(net, in->n, in->images, in->labels, options->smoothing, &loss, logits),
        done);
    kas_ref_net_sgd(net, velocity, options->lr, options->momentum, options->decay,
                    options->weights_only);
    KAS_TRY_GOTO(save(net, velocity, &loss, logits, logits_size, out_path), done);
done:
    for (int i = 0; velocity && i < net->params; i++)
        free(velocity[i]);
    free(velocity);
    free(logits);
    kas_ref_net_free(net);
    return status;
}
