#include "host/model/fold.h"

#include <math.h>
#include <stdlib.h>

#include "host/model/record.h"

/* ---- layers that are folded ------------------------------------------------------------------ */

/* Returns the program in the place of a layer; NULL: none. */
static const kas_program *program_of(const kas_model *m, int layer)
{
    const int program = kas_programs_of_layer(m->programs, layer);
    return program < 0 ? NULL : m->programs->program[program];
}

/* Returns which of a layer's parameters the convolution multiplies by that writes its output. */
static int last_weight(const kas_model *m, int layer)
{
    const kas_program *p = program_of(m, layer);
    return p ? p->fold.weight : 0;
}

static size_t weights_of(const kas_model *m, int layer)
{
    return m->params.param[kas_params_find(&m->params, layer, last_weight(m, layer))].size;
}

/* Reserves the next part of `size` bytes and returns its offset. */
static size_t place(size_t *bytes, size_t size)
{
    enum { ALIGN = 256 };
    const size_t at = *bytes;
    *bytes += (size + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static kas_fold describe(const kas_model *m, const kas_tape_op *op, size_t *bytes)
{
    const int layer = op->layer;
    const kas_norm_group group = kas_net_group_behind(m->net, layer);
    const size_t number = kas_dtype_size(m->dtype), c = (size_t)m->net->layer[layer].c;
    kas_fold f = {
        .layer = layer,
        .group = group,
        .epilogue = {.residual = group.epilogue.residual, .activation = group.epilogue.activation},
        .own = op->epilogue >= 0};
    if (f.own) {
        f.rstd = place(bytes, sizeof(float) * c);
        return f;
    }
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
        if (tape->op[i].kind == KAS_TAPE_FORWARD && tape->op[i].norm >= 0)
            out->fold[out->count++] = describe(m, &tape->op[i], bytes);
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

enum { W, B, GAIN, GAMMA, BETA, MEAN, VAR, PARTS };

/* A kernel has no bias, and only kernels have a gain. */
static kas_status fetch_all(kas_model *m, const kas_fold *f, float *part[PARTS])
{
    const kas_program *p = program_of(m, f->layer);
    KAS_TRY(fetch(m, f->layer, last_weight(m, f->layer), &part[W]));
    if (!p)
        KAS_TRY(fetch(m, f->layer, 1, &part[B]));
    else if (p->fold.scaling >= 0)
        KAS_TRY(fetch(m, f->layer, KAS_PARAM_GAIN_SLOT, &part[GAIN]));
    for (int i = GAMMA; i < PARTS; i++)
        KAS_TRY(fetch(m, f->group.norm, i - GAMMA, &part[i]));
    return KAS_OK;
}

/* Folds in place: part[W] becomes w s, and part[BETA] the bias. */
static void multiply(const kas_model *m, const kas_fold *f, float *part[PARTS])
{
    const int c = m->net->layer[f->layer].c;
    const size_t row = weights_of(m, f->layer) / (size_t)c; /* weights of one output channel */
    const float eps = (float)m->net->layer[f->group.norm].eps;
    const double gain = part[GAIN] ? part[GAIN][0] : 1;
    for (int k = 0; k < c; k++) {
        const double s = part[GAMMA][k] / sqrt((double)part[VAR][k] + eps);
        const double b = part[B] ? part[B][k] : 0;
        for (size_t i = 0; i < row; i++)
            part[W][k * row + i] = (float)(part[W][k * row + i] * gain * s);
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

/* Computes what a kernel with the epilogue reads beside the parameters. */
static kas_status find_rstd(kas_model *m, const kas_fold *f)
{
    const int c = m->net->layer[f->layer].c;
    const float eps = (float)m->net->layer[f->group.norm].eps;
    float *var;
    KAS_TRY(fetch(m, f->group.norm, VAR - GAMMA, &var));
    for (int k = 0; k < c; k++)
        var[k] = (float)(1 / sqrt((double)var[k] + eps));
    const kas_status status = kas_mem_upload(m->device, m->memory + m->layout.folded + f->rstd, var,
                                             sizeof *var * (size_t)c);
    free(var);
    return status;
}

static kas_status fold(kas_model *m, const kas_fold *f)
{
    float *part[PARTS] = {0};
    if (f->own)
        return find_rstd(m, f);
    kas_status status = fetch_all(m, f, part);
    if (status == KAS_OK) {
        multiply(m, f, part);
        status = put(m, f, part);
    }
    for (int i = 0; i < PARTS; i++)
        free(part[i]);
    KAS_TRY(status);
    return kas_conv_hold(kas_folded_conv(m, f->layer), &f->epilogue,
                         m->memory + m->layout.folded + f->weights);
}

kas_conv *kas_folded_conv(const kas_model *m, int layer)
{
    const int program = kas_programs_of_layer(m->programs, layer);
    return program < 0 ? m->conv[layer]
                       : kas_loaded_conv(m->programs->loaded[program],
                                         m->programs->program[program]->fold.operation);
}

/* ---- weights that stay fixed ----------------------------------------------------------------- */

/* Returns where a plan reads a layer's weights (kas_record_weights). */
static const void *weights_at(const kas_model *m, int layer, int which, kas_dtype dtype)
{
    const kas_step_options options = {0};
    const kas_recorder r = {.m = (kas_model *)(uintptr_t)m, .options = &options};
    return kas_record_weights(&r, layer, which, dtype);
}

/* Tells the device that the weights of a kernel's library calls stay fixed, but for those of the folded
 * call, which reads others. */
static kas_status hold_program(const kas_model *m, int layer, const kas_program *p)
{
    const kas_loaded *loaded = m->programs->loaded[kas_programs_of_layer(m->programs, layer)];
    const bool folded = kas_folds_find(&m->folds, layer) != NULL;
    for (int i = 0; i < p->forwards; i++) {
        const kas_operation *op = &p->forward[i];
        const kas_buffer *w = &p->buffer[op->w];
        if (op->kind == KAS_OPERATION_CONV && w->role == KAS_ROLE_WEIGHT &&
            !(folded && i == p->fold.operation))
            KAS_TRY(kas_conv_hold(kas_loaded_conv(loaded, i), NULL,
                                  weights_at(m, layer, w->index, w->dtype)));
    }
    return KAS_OK;
}

static kas_status hold(const kas_model *m, int layer)
{
    const bool exact = layer == m->tape[KAS_TAPE_INFER].exact;
    const kas_program *p = program_of(m, layer);
    if (p)
        return hold_program(m, layer, p);
    if (!m->conv[layer] || kas_folds_find(&m->folds, layer))
        return KAS_OK;
    return kas_conv_hold(m->conv[layer], NULL, weights_at(m, layer, 0, exact ? KAS_F32 : m->dtype));
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
        KAS_TRY(hold(m, i));
    return KAS_OK;
}
