/* A model's tensors as safetensors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/train/model_impl.h"

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
        t->dtype = KAS_F32;
        t->rank = p->rank;
        memcpy(t->shape, p->shape, sizeof p->shape);
        t->data = values;
        KAS_TRY_GOTO(kas_model_get_result(m, i, values), out);
    }
    status = kas_safetensors_write(path, tensors, count, metadata);
out:
    for (int i = 0; i < count; i++)
        free((void *)(uintptr_t)tensors[i].data);
    free(tensors);
    return status;
}

static void print_shape(const uint64_t *shape, int rank, kas_buf *out)
{
    kas_buf_puts(out, "[");
    for (int i = 0; i < rank; i++)
        kas_buf_printf(out, "%s%" PRIu64, i ? ", " : "", shape[i]);
    kas_buf_puts(out, "]");
}

static kas_status fail_shape(const char *path, const kas_param *p, const kas_named_tensor *t)
{
    kas_buf found = {0}, expected = {0};
    print_shape(t->shape, t->rank, &found);
    print_shape(p->shape, p->rank, &expected);
    kas_status status = kas_fail(KAS_BAD_INPUT, "%s: tensor \"%s\" has shape %s; expected %s", path,
                                 p->name, kas_buf_text(&found), kas_buf_text(&expected));
    kas_buf_free(&found);
    kas_buf_free(&expected);
    return status;
}

static kas_status load_one(kas_model *m, const char *path, const kas_safetensors *file, int i)
{
    const kas_param *p = &m->params.param[i];
    const kas_named_tensor *t = kas_safetensors_find(file, p->name);
    if (!t && p->kind == KAS_PARAM_STATISTIC)
        return KAS_OK; /* keeps what it has: 0 and 1 after kas_model_init */
    if (!t)
        return kas_fail(KAS_BAD_INPUT, "%s: tensor \"%s\" of network %s is missing", path, p->name,
                        m->net->name);
    if (t->rank != p->rank || memcmp(t->shape, p->shape, sizeof *p->shape * (size_t)p->rank) != 0)
        return fail_shape(path, p, t);
    float *values = malloc(sizeof *values * (p->size ? p->size : 1));
    if (!values)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for %s", path, p->name);
    for (size_t k = 0; k < p->size; k++)
        values[k] = (float)kas_named_tensor_get(t, k);
    kas_status status = kas_model_set(m, i, values);
    free(values);
    return status;
}

/* PyTorch counts batches in each batch norm; nothing here needs the number. */
static bool ignorable(const char *name)
{
    static const char suffix[] = ".num_batches_tracked";
    size_t length = strlen(name), tail = sizeof suffix - 1;
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

kas_status kas_model_load(kas_model *m, const char *path)
{
    enum { SLACK = 64 << 20 }; /* header, other types */
    size_t limit = 4 * sizeof(float) * (m->params.learned + m->params.statistics) + SLACK;
    kas_safetensors file;
    kas_status status = KAS_OK;
    KAS_TRY(kas_safetensors_read(path, limit, &file));
    for (int i = 0; i < file.count; i++)
        if (kas_params_find_name(&m->params, file.tensor[i].name) < 0 &&
            !ignorable(file.tensor[i].name)) {
            status = kas_fail(KAS_BAD_INPUT, "%s: tensor \"%s\" belongs to no layer of network %s",
                              path, file.tensor[i].name, m->net->name);
            goto out;
        }
    for (int i = 0; i < m->params.count; i++)
        KAS_TRY_GOTO(load_one(m, path, &file, i), out);
out:
    kas_safetensors_free(&file);
    return status;
}
