/* Reads and writes a model's tensors as safetensors. */
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/model/model_impl.h"
#include "host/model/pretrained.h"

kas_status kas_model_save(kas_model *m, const char *path, const char *const *metadata)
{
    int count = m->params.count;
    kas_named_tensor *tensors = calloc((size_t)count + 1, sizeof *tensors);
    kas_status status = KAS_OK;
    if (!tensors)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for the list of tensors", path);
    for (int i = 0; i < count; i++) {
        const kas_param *p = &m->params.param[i];
        kas_named_tensor *t = &tensors[i];
        float *values = malloc(sizeof *values * (p->size ? p->size : 1));
        if (!values) {
            status = kas_fail(KAS_NO_MEMORY, "%s: no memory for %s", path, p->name);
            goto out;
        }
        memcpy(t->name, p->name, sizeof t->name);
        t->dtype = KAS_SAFETENSORS_F32;
        t->rank = p->rank;
        memcpy(t->shape, p->shape, sizeof p->shape);
        t->data = values;
        KAS_TRY_GOTO(kas_model_get_result(m, i, values), out);
        KAS_TRY_GOTO(kas_named_tensor_finite(path, t, KAS_FAILURE), out);
    }
    status = kas_safetensors_write(path, tensors, count, metadata);
out:
    for (int i = 0; i < count; i++)
        free((void *)(uintptr_t)tensors[i].data);
    free(tensors);
    return status;
}

static kas_status set_param(kas_model *m, int i, const kas_named_tensor *tensor)
{
    const kas_param *p = &m->params.param[i];
    float *values = malloc(sizeof *values * (p->size ? p->size : 1));
    if (!values)
        return kas_fail(KAS_NO_MEMORY, "no memory for %s", p->name);
    for (size_t k = 0; k < p->size; k++)
        values[k] = (float)kas_named_tensor_get(tensor, k);
    kas_status status = kas_model_set_alone(m, i, values);
    free(values);
    return status;
}

static void tell(const kas_model *m, const char *path, const kas_pretrained *match)
{
    kas_info("%s: %d of the %d tensors of %s taken", path, match->taken, m->params.count,
             m->net->name);
    if (match->begun_anew)
        kas_info("%d weights of kernels begin at random: the file has the layers that they replace",
                 match->begun_anew);
    if (match->left_out)
        kas_warn("%s: some tensors are left out: %s", path, kas_buf_text(&match->list));
}

static kas_status load(kas_model *m, const char *path, bool partial, bool tells)
{
    kas_safetensors file;
    kas_pretrained match = {0};
    kas_status status = KAS_OK;
    KAS_TRY(kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &file));
    KAS_TRY_GOTO(
        kas_pretrained_match(path, &file, m->net, m->programs, &m->params, partial, &match), out);
    for (int i = 0; i < m->params.count; i++)
        if (match.tensor[i])
            KAS_TRY_GOTO(set_param(m, i, match.tensor[i]), out);
    KAS_TRY_GOTO(kas_model_refold(m, -1), out);
    if (tells)
        tell(m, path, &match);
out:
    kas_pretrained_free(&match);
    kas_safetensors_free(&file);
    return status;
}

kas_status kas_model_load(kas_model *m, const char *path, bool partial)
{
    return load(m, path, partial, false);
}

kas_status kas_model_load_and_tell(kas_model *m, const char *path, bool partial)
{
    return load(m, path, partial, true);
}
