#include "host/model/pretrained.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/space/file/gains.h"

enum { MOST_LISTED = 6 };

/* The state of kas_pretrained_match. */
typedef struct matching {
    const char *path;
    const kas_safetensors *file;
    const kas_net *net;
    const kas_programs *programs;
    const kas_params *params;
    bool partial;
    kas_pretrained *out;
} matching;

static void print_shape(const uint64_t *shape, int rank, kas_buf *out)
{
    kas_buf_puts(out, "[");
    for (int i = 0; i < rank; i++)
        kas_buf_printf(out, "%s%" PRIu64, i ? ", " : "", shape[i]);
    kas_buf_puts(out, "]");
}

/* Handles a tensor that does not fit: an error or, with `partial`, an entry of the list.
 * Frees `why`. */
static kas_status misfit(const matching *m, const char *name, kas_buf *why)
{
    kas_pretrained *out = m->out;
    kas_status status = KAS_OK;
    if (!m->partial)
        status =
            kas_fail(KAS_BAD_INPUT,
                     "%s: tensor \"%.100s\" %s; give weights of this network, or leave the tensor "
                     "out with --init-partial where the command has it (train, search)",
                     m->path, name, kas_buf_text(why));
    else if (out->left_out++ < MOST_LISTED)
        kas_buf_printf(&out->list, "%s%.100s (%s)", out->list.size ? ", " : "", name,
                       kas_buf_text(why));
    kas_buf_free(why);
    return status;
}

/* Returns whether the file has LAYER.weight for the layer that the kernel of parameter
 * `p` replaces. */
static bool has_original(const matching *m, const kas_param *p)
{
    char name[KAS_TENSOR_NAME + 8];
    snprintf(name, sizeof name, "%s.weight", m->net->layer[p->layer].name);
    return kas_safetensors_find(m->file, name) != NULL;
}

static kas_status match_param(const matching *m, int i)
{
    const kas_param *p = &m->params->param[i];
    const kas_named_tensor *t = kas_safetensors_find(m->file, p->name);
    kas_buf why = {0};
    if (!t && p->kind == KAS_PARAM_STATISTIC)
        return KAS_OK; /* it keeps its value: 0 or 1 after kas_model_init */
    if (!t && p->map && has_original(m, p)) {
        m->out->begun_anew++;
        return KAS_OK;
    }
    if (!t) {
        kas_buf_printf(&why, "of network %s is missing", m->net->name);
        return misfit(m, p->name, &why);
    }
    if (t->rank != p->rank || memcmp(t->shape, p->shape, sizeof *p->shape * (size_t)p->rank) != 0) {
        kas_buf_puts(&why, "has shape ");
        print_shape(t->shape, t->rank, &why);
        kas_buf_puts(&why, "; expected ");
        print_shape(p->shape, p->rank, &why);
        return misfit(m, p->name, &why);
    }
    if (!kas_dtype_is_real(t->dtype)) {
        kas_buf_printf(&why, "has dtype %s; expected F32, F64, F16 or BF16",
                       kas_safetensors_dtype_name(t->dtype));
        return misfit(m, p->name, &why);
    }
    m->out->tensor[i] = t;
    m->out->taken++;
    return KAS_OK;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

/* Returns whether the tensor belongs to a layer that a kernel replaces. */
static bool of_replaced_layer(const matching *m, const char *name)
{
    if (!ends_with(name, ".weight") && !ends_with(name, ".bias"))
        return false;
    size_t length = (size_t)(strrchr(name, '.') - name);
    for (int i = 0; i < m->net->layers; i++)
        if (strlen(m->net->layer[i].name) == length &&
            memcmp(m->net->layer[i].name, name, length) == 0)
            return kas_programs_of_layer(m->programs, i) >= 0;
    return false;
}

/* Returns whether a tensor in the file is expected: it is a parameter, belongs to a replaced layer,
 * or is PyTorch's count of a batch norm's batches, which is not used. */
static bool is_known(const matching *m, const char *name)
{
    return kas_params_find_name(m->params, name) >= 0 || kas_safetensors_is_batch_count(name) ||
           of_replaced_layer(m, name);
}

static kas_status match_tensor(const matching *m, const kas_named_tensor *t)
{
    kas_buf why = {0};
    KAS_TRY(kas_named_tensor_finite(m->path, t, KAS_BAD_INPUT));
    if (is_known(m, t->name))
        return KAS_OK;
    kas_buf_printf(&why, "belongs to no layer of network %s", m->net->name);
    return misfit(m, t->name, &why);
}

static kas_status finish(const matching *m)
{
    kas_pretrained *out = m->out;
    if (out->taken == 0)
        return kas_fail(KAS_BAD_INPUT, "%s: no tensor fits network %s", m->path, m->net->file);
    if (out->left_out > MOST_LISTED)
        kas_buf_printf(&out->list, ", and %d more", out->left_out - MOST_LISTED);
    return kas_buf_status(&out->list);
}

kas_status kas_pretrained_match(const char *path, const kas_safetensors *file, const kas_net *net,
                                const kas_programs *programs, const kas_params *params,
                                bool partial, kas_pretrained *out)
{
    const matching m = {path, file, net, programs, params, partial, out};
    *out = (kas_pretrained){0};
    out->tensor = calloc((size_t)params->count + 1, sizeof *out->tensor);
    if (!out->tensor)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for the list of tensors", path);
    for (int i = 0; i < file->count; i++)
        KAS_TRY(match_tensor(&m, &file->tensor[i]));
    for (int i = 0; i < params->count; i++)
        KAS_TRY(match_param(&m, i));
    return finish(&m);
}

void kas_pretrained_free(kas_pretrained *pretrained)
{
    free(pretrained->tensor);
    kas_buf_free(&pretrained->list);
    *pretrained = (kas_pretrained){0};
}

kas_status kas_pretrained_check(const char *path, const kas_net *net, const kas_programs *programs,
                                bool partial)
{
    kas_params params = {0};
    kas_safetensors file = {0};
    kas_pretrained match = {0};
    kas_status status = kas_params_build(net, programs, &params);
    if (status == KAS_OK)
        status = kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &file);
    if (status == KAS_OK)
        status = kas_pretrained_match(path, &file, net, programs, &params, partial, &match);
    kas_pretrained_free(&match);
    kas_safetensors_free(&file);
    kas_params_free(&params);
    return status;
}

/* Returns the tensor LAYER.SUFFIX; NULL when the file has none. */
static const kas_named_tensor *of_layer(const kas_safetensors *file, const char *layer,
                                        const char *suffix)
{
    char name[KAS_TENSOR_NAME];
    snprintf(name, sizeof name, "%.100s.%s", layer, suffix);
    return kas_safetensors_find(file, name);
}

static kas_status read_gain(const char *path, const kas_named_tensor *t, float *gain)
{
    const bool one = kas_named_tensor_elements(t) == 1 && kas_dtype_is_real(t->dtype);
    const double value = one ? kas_named_tensor_get(t, 0) : 0;
    if (!(value >= KAS_GAIN_LEAST && value <= KAS_GAIN_MOST))
        return kas_fail(KAS_BAD_INPUT, "%s: tensor \"%s\": expected one number in [%g, %g]", path,
                        t->name, KAS_GAIN_LEAST, KAS_GAIN_MOST);
    *gain = (float)value;
    return KAS_OK;
}

static kas_status match_gains(const char *path, const kas_safetensors *file,
                              const kas_replacement *r, float *gain, bool *any)
{
    for (int t = 0; t < r->solution.targets; t++) {
        const char *layer = r->target[t].name;
        const kas_named_tensor *own = of_layer(file, layer, "gain");
        const bool anew = !kas_replacement_kernel(r, t) || of_layer(file, layer, "weight");
        gain[t] = anew ? kas_replacement_gain(r, t) : 1;
        *any |= !anew || own;
        if (own)
            KAS_TRY(read_gain(path, own, &gain[t]));
    }
    return KAS_OK;
}

kas_status kas_pretrained_gains(const char *path, kas_replacement *r)
{
    kas_safetensors file;
    bool any = false;
    KAS_TRY(kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &file));
    float *gain = calloc((size_t)r->solution.targets + 1, sizeof *gain);
    kas_status status = gain ? match_gains(path, &file, r, gain, &any)
                             : kas_fail(KAS_NO_MEMORY, "%s: no memory for the gains", path);
    if (status == KAS_OK && any)
        status = kas_replacement_set_gains(r, gain);
    free(gain);
    kas_safetensors_free(&file);
    return status;
}
