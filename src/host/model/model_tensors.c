/* Copies tensors of a model to and from the host. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/device/dtype.h"
#include "host/model/model_impl.h"

/* Allocates a host buffer for one tensor in the order of memory. */
static kas_status scratch(const kas_param *param, float **out)
{
    *out = malloc(sizeof **out * (param->size ? param->size : 1));
    return *out ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for a copy of %s", param->name);
}

static float *place(const kas_model *m, const kas_param *param, bool averaged)
{
    const kas_model_layout *l = &m->layout;
    bool statistic = param->kind == KAS_PARAM_STATISTIC;
    size_t part = averaged ? (statistic ? l->average_running : l->average)
                           : (statistic ? l->running : l->parameters);
    return kas_model_float(m, part, param->offset);
}

static kas_status download(kas_model *m, const kas_param *param, const float *from, float *values)
{
    float *memory;
    KAS_TRY(scratch(param, &memory));
    kas_status status = kas_mem_download(m->device, memory, from, sizeof(float) * param->size);
    if (status == KAS_OK)
        kas_param_from_memory(param, memory, values);
    free(memory);
    return status;
}

kas_status kas_model_get(kas_model *m, int param, float *values)
{
    const kas_param *p = &m->params.param[param];
    return download(m, p, place(m, p, false), values);
}

kas_status kas_model_get_result(kas_model *m, int param, float *values)
{
    const kas_param *p = &m->params.param[param];
    return download(m, p, place(m, p, m->averaged), values);
}

/* ---- loss scale ------------------------------------------------------------------------------ */

kas_status kas_model_set_scale(kas_model *m, kas_loss_scale scale)
{
    if (!kas_model_scales(m))
        return kas_fail(KAS_BAD_INPUT, "the loss of this model is not scaled");
    return kas_mem_upload(m->device, m->memory + m->layout.scale, &scale, sizeof scale);
}

kas_status kas_model_get_scale(kas_model *m, kas_loss_scale *scale)
{
    *scale = (kas_loss_scale){.scale = 1};
    if (!kas_model_scales(m))
        return KAS_OK;
    return kas_mem_download(m->device, scale, m->memory + m->layout.scale, sizeof *scale);
}

kas_status kas_model_reset_scale(kas_model *m)
{
    if (!kas_model_scales(m))
        return KAS_OK;
    return kas_model_set_scale(m, (kas_loss_scale){.scale = KAS_SCALE_FIRST});
}

kas_status kas_model_get_gradient(kas_model *m, int param, float *values)
{
    const kas_param *p = &m->params.param[param];
    if (!m->training || p->kind == KAS_PARAM_STATISTIC)
        return kas_fail(KAS_BAD_INPUT, "%s has no gradient", p->name);
    kas_loss_scale scale;
    KAS_TRY(kas_model_get_scale(m, &scale));
    KAS_TRY(download(m, p, kas_model_float(m, m->layout.gradients, p->offset), values));
    for (size_t i = 0; i < p->size; i++)
        values[i] /= scale.scale;
    return KAS_OK;
}

kas_status kas_model_upload_rounded(kas_model *m, void *to_device, const float *values,
                                    size_t count)
{
    const size_t bytes = count * kas_dtype_size(m->dtype);
    if (m->dtype == KAS_F32)
        return kas_mem_upload(m->device, to_device, values, bytes);
    void *rounded = malloc(bytes ? bytes : 1);
    if (!rounded)
        return kas_fail(KAS_NO_MEMORY, "no memory for a copy of %zu parameters", count);
    for (size_t i = 0; i < count; i++)
        kas_dtype_put(rounded, m->dtype, i, values[i]);
    const kas_status status = kas_mem_upload(m->device, to_device, rounded, bytes);
    free(rounded);
    return status;
}

/* Sets the 16-bit copy, which convolutions read, of the parameters [first, first + count). */
static kas_status set_copy(kas_model *m, size_t first, size_t count, const float *values)
{
    if (m->dtype == KAS_F32)
        return KAS_OK;
    char *copy = m->memory + m->layout.copy + first * kas_dtype_size(m->dtype);
    return kas_model_upload_rounded(m, copy, values, count);
}

kas_status kas_model_set(kas_model *m, int param, const float *values)
{
    KAS_TRY(kas_model_set_alone(m, param, values));
    return kas_model_refold(m, m->params.param[param].layer);
}

kas_status kas_model_set_alone(kas_model *m, int param, const float *values)
{
    const kas_param *p = &m->params.param[param];
    float *memory;
    KAS_TRY(scratch(p, &memory));
    kas_param_to_memory(p, values, memory);
    kas_status status =
        kas_mem_upload(m->device, place(m, p, false), memory, sizeof(float) * p->size);
    if (status == KAS_OK && p->kind != KAS_PARAM_STATISTIC)
        status = set_copy(m, p->offset, p->size, memory);
    free(memory);
    return status;
}

kas_status kas_model_init(kas_model *m, uint64_t seed)
{
    for (int i = 0; i < m->params.count; i++) {
        float *values;
        KAS_TRY(scratch(&m->params.param[i], &values));
        kas_param_init(&m->params.param[i], seed, values);
        kas_status status = kas_model_set_alone(m, i, values);
        free(values);
        KAS_TRY(status);
    }
    /* Zeroes moments and averages, but not the running statistics between them, which were
     * just set. */
    const kas_model_layout *l = &m->layout;
    KAS_TRY(kas_mem_zero(m->device, m->memory + l->first, l->running - l->first));
    KAS_TRY(kas_mem_zero(m->device, m->memory + l->average_running, l->kept - l->average_running));
    KAS_TRY(kas_model_refold(m, -1));
    return kas_model_reset_scale(m);
}

kas_status kas_model_download(kas_model *m, void *kept)
{
    if (m->share)
        return kas_shard_download(m, kept);
    return kept ? kas_mem_download(m->device, kept, m->memory, m->layout.kept) : KAS_OK;
}

kas_status kas_model_upload(kas_model *m, const void *kept)
{
    KAS_TRY(m->share ? kas_shard_upload(m, kept)
                     : kas_mem_upload(m->device, m->memory, kept, m->layout.kept));
    KAS_TRY(set_copy(m, 0, m->params.learned,
                     (const float *)(const void *)((const char *)kept + m->whole.parameters)));
    return kas_model_refold(m, -1);
}

static bool finite_part(const kas_param *p, const void *kept, size_t part)
{
    const float *values = (const float *)(const void *)((const char *)kept + part) + p->offset;
    for (size_t i = 0; i < p->size; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

const kas_param *kas_model_kept_not_finite(const kas_model *m, const void *kept)
{
    const kas_model_layout *l = &m->whole;
    for (int i = 0; i < m->params.count; i++) {
        const kas_param *p = &m->params.param[i];
        const bool statistic = p->kind == KAS_PARAM_STATISTIC;
        if (!finite_part(p, kept, statistic ? l->running : l->parameters) ||
            (m->averaged && !finite_part(p, kept, statistic ? l->average_running : l->average)))
            return p;
    }
    return NULL;
}

/* ---- batches --------------------------------------------------------------------------------- */

static float *slot_memory(const kas_model *m, kas_tape_mode mode, int slot)
{
    return kas_model_float(m, m->layout.transient + m->tape[mode].buffer[slot].offset, 0);
}

kas_status kas_model_set_batch(kas_model *m, kas_tape_mode mode, const float *images,
                               const uint16_t *labels)
{
    const kas_layer *in = &m->net->layer[0];
    size_t c = (size_t)in->c, pixels = (size_t)in->h * (size_t)in->w;
    size_t pitch = (size_t)kas_pitch_of(m->dtype, in->c), n = (size_t)m->batch;
    size_t bytes = n * pixels * pitch * kas_dtype_size(m->dtype);
    void *packed = calloc(bytes, 1);
    if (!packed)
        return kas_fail(KAS_NO_MEMORY, "no memory for a batch of %zu images", n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < c; k++)
            for (size_t p = 0; p < pixels; p++)
                kas_dtype_put(packed, m->dtype, (i * pixels + p) * pitch + k,
                              images[(i * c + k) * pixels + p]);
    const kas_tape *tape = &m->tape[mode];
    kas_status status =
        kas_mem_upload(m->device, slot_memory(m, mode, tape->images), packed, bytes);
    free(packed);
    if (status == KAS_OK && labels)
        status = kas_mem_upload(m->device, slot_memory(m, mode, tape->labels), labels,
                                n * sizeof *labels);
    return status;
}

kas_status kas_model_draw_images(kas_model *m)
{
    const kas_layer *in = &m->net->layer[0];
    const size_t size = (size_t)m->batch * (size_t)in->h * (size_t)in->w * (size_t)in->c;
    float *images = malloc(sizeof *images * size);
    if (!images)
        return kas_fail(KAS_NO_MEMORY, "no memory for a batch of %d images", m->batch);
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 1);
    for (size_t i = 0; i < size; i++)
        images[i] = (float)kas_rng_normal(&rng);
    const kas_status status = kas_model_set_batch(m, KAS_TAPE_INFER, images, NULL);
    free(images);
    return status;
}

kas_status kas_model_get_logits(kas_model *m, kas_tape_mode mode, float *logits)
{
    size_t classes = (size_t)m->net->classes, n = (size_t)m->batch;
    size_t pitch = (size_t)kas_pitch(m->net->classes);
    float *packed = malloc(n * pitch * sizeof *packed);
    if (!packed)
        return kas_fail(KAS_NO_MEMORY, "no memory for the logits of %zu images", n);
    kas_status status =
        kas_mem_download(m->device, packed, slot_memory(m, mode, m->tape[mode].logits.slot),
                         n * pitch * sizeof *packed);
    for (size_t i = 0; status == KAS_OK && i < n; i++)
        memcpy(logits + i * classes, packed + i * pitch, classes * sizeof *logits);
    free(packed);
    return status;
}

kas_status kas_model_get_hits(kas_model *m, float *hit)
{
    const kas_tape *tape = &m->tape[KAS_TAPE_EVALUATE];
    const float *work = slot_memory(m, KAS_TAPE_EVALUATE, tape->op[tape->ops - 1].work);
    const size_t n = (size_t)m->batch; /* behind the losses: kas_op_cross_entropy */
    return kas_mem_download(m->device, hit, work + n, n * sizeof *hit);
}

/* ---- state ----------------------------------------------------------------------------------- */

kas_status kas_model_set_state(kas_model *m, kas_step_state state)
{
    return kas_mem_upload(m->device, m->memory + m->layout.state, &state, sizeof state);
}

kas_status kas_model_set_metrics(kas_model *m, const kas_metrics *metrics)
{
    return kas_mem_upload(m->device, m->memory + m->layout.metrics, metrics, sizeof *metrics);
}

const kas_metrics *kas_model_metrics(const kas_model *m)
{
    return (const kas_metrics *)(const void *)(m->memory + m->layout.metrics);
}

kas_status kas_model_get_metrics(kas_model *m, kas_metrics *metrics)
{
    return kas_mem_download(m->device, metrics, m->memory + m->layout.metrics, sizeof *metrics);
}

kas_status kas_model_forget_imitated(kas_model *m)
{
    return kas_mem_zero(m->device, m->memory + m->layout.imitated,
                        sizeof(kas_imitated) * (size_t)m->twins);
}

kas_status kas_model_get_imitated(kas_model *m, kas_imitated *imitated)
{
    return kas_mem_download(m->device, imitated, m->memory + m->layout.imitated,
                            sizeof *imitated * (size_t)m->twins);
}

kas_status kas_model_get_metrics_later(kas_model *m, kas_metrics *metrics)
{
    return kas_mem_download_later(m->device, metrics, m->memory + m->layout.metrics,
                                  sizeof *metrics);
}
