#include "host/model/fold.h"

#include <math.h>
#include <stdlib.h>

#include "host/model/model_impl.h"

/* ---- layers that are folded ------------------------------------------------------------------ */

static bool is_folded(const kas_tape_op *op)
{
    return op->kind == KAS_TAPE_FORWARD && op->norm >= 0 && op->program < 0;
}

static size_t weights_of(const kas_model *m, int layer)
{
    return m->params.param[kas_params_find(&m->params, layer, 0)].size;
}

/* Reserves the next part of `size` bytes and returns its offset. */
static size_t place(size_t *bytes, size_t size)
{
    enum { ALIGN = 256 };
    const size_t at = *bytes;
    *bytes += (size + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static kas_fold describe(const kas_model *m, int layer, size_t *bytes)
{
    const kas_norm_group group = kas_net_group_behind(m->net, layer);
    const size_t number = kas_dtype_size(m->dtype), c = (size_t)m->net->layer[layer].c;
    kas_fold f = {
        .layer = layer,
        .group = group,
        .epilogue = {.residual = group.epilogue.residual, .activation = group.epilogue.activation}};
    f.weights = place(bytes, number * weights_of(m, layer));
    f.bias = f.bias_rounded = place(bytes, sizeof(float) * c);
    if (m->dtype != KAS_F32)
        f.bias_rounded = place(bytes, number * c);
    return f;
}

kas_status kas_folds_build(const kas_model *m, const kas_tape *tape, kas_folds *out, size_t *bytes)
{
    *out = (kas_folds){0};
    *bytes = 0;
    out->fold = calloc((size_t)tape->ops + 1, sizeof *out->fold);
    if (!out->fold)
        return kas_fail(KAS_NO_MEMORY, "no memory for a list of convolutions");
    for (int i = 0; i < tape->ops; i++)
        if (is_folded(&tape->op[i]))
            out->fold[out->count++] = describe(m, tape->op[i].layer, bytes);
    return KAS_OK;
}

void kas_folds_free(kas_folds *folds)
{
    free(folds->fold);
    *folds = (kas_folds){0};
}

const kas_fold *kas_folds_find(const kas_folds *folds, int layer)
{
    for (int i = 0; i < folds->count; i++)
        if (folds->fold[i].layer == layer)
            return &folds->fold[i];
    return NULL;
}

/* ---- folding --------------------------------------------------------------------------------- */

/* Gets a layer's parameter in the order of memory; *out is NULL, without a failure, when the layer
 * has none. */
static kas_status fetch(kas_model *m, int layer, int which, float **out)
{
    const int number = kas_params_find(&m->params, layer, which);
    *out = NULL;
    if (number < 0)
        return KAS_OK;
    const kas_param *p = &m->params.param[number];
    const size_t part = p->kind == KAS_PARAM_STATISTIC ? m->layout.running : m->layout.parameters;
    *out = malloc(sizeof **out * (p->size ? p->size : 1));
    if (!*out)
        return kas_fail(KAS_NO_MEMORY, "no memory for a copy of %s", p->name);
    return kas_mem_download(m->device, *out, kas_model_float(m, part, p->offset),
                            sizeof **out * p->size);
}

enum { W, B, GAMMA, BETA, MEAN, VAR, PARTS };

static kas_status fetch_all(kas_model *m, const kas_fold *f, float *part[PARTS])
{
    for (int i = 0; i < PARTS; i++)
        KAS_TRY(i < GAMMA ? fetch(m, f->layer, i, &part[i])
                          : fetch(m, f->group.norm, i - GAMMA, &part[i]));
    return KAS_OK;
}

/* Folds in place: part[W] becomes w s, and part[BETA] the bias. */
static void multiply(const kas_model *m, const kas_fold *f, float *part[PARTS])
{
    const int c = m->net->layer[f->layer].c;
    const size_t row = weights_of(m, f->layer) / (size_t)c; /* weights of one output channel */
    const float eps = (float)m->net->layer[f->group.norm].eps;
    for (int k = 0; k < c; k++) {
        const double s = part[GAMMA][k] / sqrt((double)part[VAR][k] + eps);
        const double b = part[B] ? part[B][k] : 0;
        for (size_t i = 0; i < row; i++)
            part[W][k * row + i] = (float)(part[W][k * row + i] * s);
        part[BETA][k] = (float)(part[BETA][k] + (b - part[MEAN][k]) * s);
    }
}

static kas_status put(kas_model *m, const kas_fold *f, float *const part[PARTS])
{
    const size_t c = (size_t)m->net->layer[f->layer].c;
    char *folded = m->memory + m->layout.folded;
    KAS_TRY(kas_model_upload_rounded(m, folded + f->weights, part[W], weights_of(m, f->layer)));
    KAS_TRY(kas_mem_upload(m->device, folded + f->bias, part[BETA], sizeof(float) * c));
    return kas_model_upload_rounded(m, folded + f->bias_rounded, part[BETA], c);
}

static kas_status fold(kas_model *m, const kas_fold *f)
{
    float *part[PARTS] = {0};
    kas_status status = fetch_all(m, f, part);
    if (status == KAS_OK) {
        multiply(m, f, part);
        status = put(m, f, part);
    }
    for (int i = 0; i < PARTS; i++)
        free(part[i]);
    KAS_TRY(status);
    return kas_conv_hold(m->conv[f->layer], &f->epilogue,
                         m->memory + m->layout.folded + f->weights);
}

/* Tells the device that the weights of a layer without a fold stay fixed. */
static kas_status hold(kas_model *m, int layer)
{
    const bool exact = m->dtype == KAS_F32 || layer == m->tape[KAS_TAPE_INFER].exact;
    const kas_param *p = &m->params.param[kas_params_find(&m->params, layer, 0)];
    const char *w = exact ? m->memory + m->layout.parameters + p->offset * sizeof(float)
                          : m->memory + m->layout.copy + p->offset * kas_dtype_size(m->dtype);
    return kas_conv_hold(m->conv[layer], NULL, w);
}

kas_status kas_model_refold(kas_model *m, int layer)
{
    if (m->training)
        return KAS_OK;
    for (int i = 0; i < m->folds.count; i++) {
        const kas_fold *f = &m->folds.fold[i];
        if (layer < 0 || layer == f->layer || layer == f->group.norm)
            KAS_TRY(fold(m, f));
    }
    for (int i = layer < 0 ? 0 : layer; i < (layer < 0 ? m->net->layers : layer + 1); i++)
        if (m->conv[i] && !kas_folds_find(&m->folds, i))
            KAS_TRY(hold(m, i));
    return KAS_OK;
}
