/* From the tape to launches. */
#include <stdlib.h>

#include "host/train/model_impl.h"

typedef struct recorder {
    kas_model *m;
    const kas_tape *tape;
    const kas_step_options *options;
    kas_plan *plan;
} recorder;

/* ---- addresses --------------------------------------------------------------------------------
 */

static float *slot(const recorder *r, int number)
{
    if (number < 0)
        return NULL;
    return kas_model_float(r->m, r->m->layout.transient + r->tape->slot[number].offset, 0);
}

/* Buffer `number` seen as a tensor like the output of `layer`. */
static kas_tensor like(const recorder *r, int number, int layer)
{
    const kas_layer *l = &r->m->net->layer[layer];
    return (kas_tensor){slot(r, number), r->m->batch, l->h, l->w, l->c, kas_pitch(l->c)};
}

static kas_tensor input_of(const recorder *r, int number, int layer)
{
    return like(r, number, r->m->net->layer[layer].in[0]);
}

static float *parameter(const recorder *r, int layer, int which, bool gradient)
{
    const kas_param *p = &r->m->params.param[kas_params_find(&r->m->params, layer, which)];
    const kas_model_layout *l = &r->m->layout;
    bool averaged = r->options->averaged && r->m->averaged;
    size_t part = p->kind == KAS_PARAM_STATISTIC ? (averaged ? l->average_running : l->running)
                  : gradient                     ? l->gradients
                  : averaged                     ? l->average
                                                 : l->parameters;
    return kas_model_float(r->m, part, p->offset);
}

static kas_step_state *state(const recorder *r)
{
    return (kas_step_state *)(void *)(r->m->memory + r->m->layout.state);
}

static kas_metrics *metrics(const recorder *r)
{
    return (kas_metrics *)(void *)(r->m->memory + r->m->layout.metrics);
}

/* ---- kernels in place of convolutions ---------------------------------------------------------
 */

static void fill_addresses(recorder *r, const kas_tape_op *op, float *x, float *y)
{
    const kas_program *p = r->m->replaced.program[op->program];
    for (int i = 0; i < p->buffers; i++) {
        const kas_buffer *b = &p->buffer[i];
        void **at = &r->m->address[i];
        switch (b->role) {
        case KAS_ROLE_X:
            *at = x;
            break;
        case KAS_ROLE_Y:
            *at = y;
            break;
        case KAS_ROLE_DX:
            *at = op->pooled >= 0 ? slot(r, op->pooled) : slot(r, op->dx);
            break;
        case KAS_ROLE_DY:
            *at = slot(r, op->dy);
            break;
        case KAS_ROLE_WEIGHT:
            *at = parameter(r, op->layer, b->index, false);
            break;
        case KAS_ROLE_DWEIGHT:
            *at = r->m->training ? parameter(r, op->layer, b->index, true) : NULL;
            break;
        case KAS_ROLE_SAVED:
            *at = slot(r, op->program_saved + i);
            break;
        case KAS_ROLE_SCRATCH:
            *at = slot(r, op->program_scratch + i);
            break;
        }
    }
}

/* The output of the pool that takes the stride: spatial size of the layer, channels of its input.
 */
static kas_tensor pooled_tensor(const recorder *r, int number, int layer)
{
    kas_tensor t = like(r, number, layer);
    t.c = r->m->net->layer[r->m->net->layer[layer].in[0]].c;
    t.pitch = kas_pitch(t.c);
    return t;
}

static kas_status replaced_forward(recorder *r, const kas_tape_op *op)
{
    float *x = slot(r, op->x);
    if (op->pooled >= 0) {
        x = slot(r, op->pooled);
        const kas_pool pool = kas_pool_of_stride(r->m->net->layer[op->layer].stride);
        KAS_TRY(kas_op_avg_pool_forward(r->m->ops, r->plan, &pool, input_of(r, op->x, op->layer),
                                        pooled_tensor(r, op->pooled, op->layer)));
    }
    fill_addresses(r, op, x, slot(r, op->y));
    return kas_loaded_append(r->m->replaced.loaded[op->program], r->plan, false, r->m->address);
}

static kas_status replaced_backward(recorder *r, const kas_tape_op *op)
{
    fill_addresses(r, op, slot(r, op->x), NULL);
    KAS_TRY(kas_loaded_append(r->m->replaced.loaded[op->program], r->plan, true, r->m->address));
    if (op->pooled < 0)
        return KAS_OK;
    const kas_pool pool = kas_pool_of_stride(r->m->net->layer[op->layer].stride);
    return kas_op_avg_pool_backward(r->m->ops, r->plan, &pool,
                                    pooled_tensor(r, op->pooled, op->layer),
                                    input_of(r, op->dx, op->layer));
}

/* ---- layers -----------------------------------------------------------------------------------
 */

static kas_batch_norm batch_norm(const recorder *r, const kas_tape_op *op)
{
    kas_batch_norm norm = {
        .x = input_of(r, op->x, op->layer),
        .y = like(r, op->y, op->last),
        .activation = op->relu ? KAS_ACTIVATION_RELU : KAS_ACTIVATION_NONE,
        .eps = (float)r->m->net->layer[op->layer].eps,
        .momentum = (float)r->m->net->layer[op->layer].momentum,
        .gamma = parameter(r, op->layer, 0, false),
        .beta = parameter(r, op->layer, 1, false),
        .running_mean = parameter(r, op->layer, 2, false),
        .running_var = parameter(r, op->layer, 3, false),
        .saved_mean = slot(r, op->saved),
        .scratch = slot(r, op->work),
    };
    norm.saved_rstd = norm.saved_mean + norm.x.pitch;
    if (op->y < 0)
        norm.y = norm.x; /* backward without a ReLU: the operation wants some y, and reads none */
    if (op->x1 >= 0)
        norm.residual = like(r, op->x1, op->last);
    return norm;
}

static kas_status conv(const recorder *r, const kas_tape_op *op, kas_conv_pass pass, float *x,
                       float *y)
{
    float *w = parameter(r, op->layer, 0, pass == KAS_CONV_BACKWARD_WEIGHTS);
    return kas_plan_conv(r->plan, r->m->conv[op->layer], pass, x, w, y);
}

static kas_status forward(recorder *r, const kas_tape_op *op)
{
    kas_ops *ops = r->m->ops;
    const kas_layer *l = &r->m->net->layer[op->layer];
    kas_tensor x = input_of(r, op->x, op->layer), y = like(r, op->y, op->last);
    if (op->program >= 0)
        return replaced_forward(r, op);
    switch (l->op) {
    case KAS_LAYER_CONV:
        return conv(r, op, KAS_CONV_FORWARD, x.data, y.data);
    case KAS_LAYER_LINEAR:
        KAS_TRY(conv(r, op, KAS_CONV_FORWARD, x.data, y.data));
        return kas_op_bias_forward(ops, r->plan, y, parameter(r, op->layer, 1, false));
    case KAS_LAYER_BATCH_NORM: {
        kas_batch_norm norm = batch_norm(r, op);
        return r->options->mode == KAS_TAPE_TRAIN
                   ? kas_op_batch_norm_forward(ops, r->plan, &norm)
                   : kas_op_batch_norm_inference(ops, r->plan, &norm);
    }
    case KAS_LAYER_RELU:
        return kas_op_activation_forward(ops, r->plan, KAS_ACTIVATION_RELU, x, y);
    case KAS_LAYER_ADD:
        return kas_op_add(ops, r->plan, x, like(r, op->x1, l->in[1]), y);
    case KAS_LAYER_AVG_POOL:
        return kas_op_avg_pool_forward(ops, r->plan,
                                       &(kas_pool){l->kernel_h, l->kernel_w, l->stride, l->pad_h,
                                                   l->pad_w, l->count_include_pad, false},
                                       x, y);
    case KAS_LAYER_GLOBAL_AVG_POOL:
        return kas_op_global_pool_forward(ops, r->plan, x, y);
    case KAS_LAYER_SHORTCUT_A:
        return kas_op_shortcut_a_forward(ops, r->plan, l->stride, x, y);
    default:
        break;
    }
    return kas_fail(KAS_FAILURE, "layer %s cannot be run", l->name);
}

static kas_status conv_backward(recorder *r, const kas_tape_op *op)
{
    KAS_TRY(conv(r, op, KAS_CONV_BACKWARD_WEIGHTS, slot(r, op->x), slot(r, op->dy)));
    if (op->dx < 0)
        return KAS_OK;
    return conv(r, op, KAS_CONV_BACKWARD_DATA, slot(r, op->dx), slot(r, op->dy));
}

static kas_status backward(recorder *r, const kas_tape_op *op)
{
    kas_ops *ops = r->m->ops;
    const kas_layer *l = &r->m->net->layer[op->layer];
    kas_tensor dy = like(r, op->dy, op->last), dx = input_of(r, op->dx, op->layer);
    if (op->program >= 0)
        return replaced_backward(r, op);
    switch (l->op) {
    case KAS_LAYER_CONV:
        return conv_backward(r, op);
    case KAS_LAYER_LINEAR:
        KAS_TRY(kas_op_bias_backward(ops, r->plan, dy, parameter(r, op->layer, 1, true),
                                     slot(r, op->work)));
        return conv_backward(r, op);
    case KAS_LAYER_BATCH_NORM: {
        kas_batch_norm norm = batch_norm(r, op);
        kas_tensor dresidual = like(r, op->dx1, op->last);
        return kas_op_batch_norm_backward(ops, r->plan, &norm, dy, dx, dresidual,
                                          parameter(r, op->layer, 0, true),
                                          parameter(r, op->layer, 1, true));
    }
    case KAS_LAYER_RELU:
        return kas_op_activation_backward(ops, r->plan, KAS_ACTIVATION_RELU,
                                          like(r, op->y, op->layer), dy, dx);
    case KAS_LAYER_AVG_POOL:
        return kas_op_avg_pool_backward(ops, r->plan,
                                        &(kas_pool){l->kernel_h, l->kernel_w, l->stride, l->pad_h,
                                                    l->pad_w, l->count_include_pad, false},
                                        dy, dx);
    case KAS_LAYER_GLOBAL_AVG_POOL:
        return kas_op_global_pool_backward(ops, r->plan, dy, dx);
    case KAS_LAYER_SHORTCUT_A:
        return kas_op_shortcut_a_backward(ops, r->plan, l->stride, dy, dx);
    default: /* a sum's gradient is passed on by the tape */
        break;
    }
    return kas_fail(KAS_FAILURE, "layer %s has no gradient", l->name);
}

/* ---- around the layers ------------------------------------------------------------------------
 */

static kas_status load(recorder *r, const kas_tape_op *op)
{
    if (!r->options->images)
        return KAS_OK;
    kas_augment augment = *r->options->images;
    augment.state = state(r);
    return kas_op_augment(r->m->ops, r->plan, &augment, like(r, op->y, 0),
                          (uint16_t *)(void *)slot(r, r->tape->labels));
}

static kas_status loss(recorder *r, const kas_tape_op *op)
{
    int last = r->m->net->layers - 1;
    double smoothing = r->options->recipe ? r->options->recipe->label_smoothing : 0;
    return kas_op_cross_entropy(r->m->ops, r->plan, like(r, op->x, last),
                                (const uint16_t *)(void *)slot(r, r->tape->labels), smoothing,
                                like(r, op->dx, last), metrics(r), slot(r, op->work));
}

/* Takes `value` into its moving average. */
static kas_status average(recorder *r, size_t average_part, size_t value_part, size_t count)
{
    kas_average average = {
        .average = kas_model_float(r->m, average_part, 0),
        .value = kas_model_float(r->m, value_part, 0),
        .count = count,
        .rows = r->options->rows,
        .state = state(r),
    };
    return count ? kas_op_average(r->m->ops, r->plan, &average) : KAS_OK;
}

static kas_status update(recorder *r)
{
    kas_model *m = r->m;
    const kas_model_layout *l = &m->layout;
    if (!r->options->rows)
        return KAS_OK;
    kas_update update = {
        .recipe = r->options->recipe,
        .param = kas_model_float(m, l->parameters, 0),
        .first = kas_model_float(m, l->first, 0),
        .second = m->adamw ? kas_model_float(m, l->second, 0) : NULL,
        .grad = kas_model_float(m, l->gradients, 0),
        .decay = kas_model_float(m, l->decay, 0),
        .count = m->params.learned,
        .rows = r->options->rows,
        .state = state(r),
    };
    if (m->clipped) {
        float *scale = kas_model_float(m, l->clip, 0);
        update.grad_scale = scale;
        KAS_TRY(kas_op_clip(m->ops, r->plan, update.grad, update.count, r->options->recipe->clip,
                            scale + 1, scale));
    }
    KAS_TRY(kas_op_update(m->ops, r->plan, &update));
    if (!m->averaged)
        return KAS_OK;
    KAS_TRY(average(r, l->average, l->parameters, m->params.learned));
    return average(r, l->average_running, l->running, m->params.statistics);
}

/* Decay of each group of floats: weights come first (params.h). */
static kas_status set_decay(kas_model *m, const kas_recipe *recipe)
{
    size_t decayed = recipe->decay_all ? m->params.learned : m->params.decayed;
    size_t groups = m->params.learned / KAS_UPDATE_GROUP;
    float *decay = calloc(groups ? groups : 1, sizeof *decay);
    if (!decay)
        return kas_fail(KAS_NO_MEMORY, "no memory for a table of weight decay");
    for (size_t i = 0; i < decayed / KAS_UPDATE_GROUP; i++)
        decay[i] = (float)recipe->weight_decay;
    kas_status status = kas_mem_upload(m->device, kas_model_float(m, m->layout.decay, 0), decay,
                                       groups * sizeof *decay);
    free(decay);
    return status;
}

static kas_status append(recorder *r, const kas_tape_op *op)
{
    switch (op->kind) {
    case KAS_TAPE_LOAD:
        return load(r, op);
    case KAS_TAPE_FORWARD:
        return forward(r, op);
    case KAS_TAPE_LOSS:
        return loss(r, op);
    case KAS_TAPE_BACKWARD:
        return backward(r, op);
    case KAS_TAPE_SUM:
        return kas_op_add(r->m->ops, r->plan, like(r, op->x, op->layer), like(r, op->x1, op->layer),
                          like(r, op->y, op->layer));
    case KAS_TAPE_UPDATE:
        return update(r);
    }
    return kas_fail(KAS_FAILURE, "unknown operation %d of a step", op->kind);
}

static kas_status append_all(recorder *r)
{
    for (int i = 0; i < r->tape->ops; i++) {
        const kas_tape_op *op = &r->tape->op[i];
        kas_status status = append(r, op);
        if (status != KAS_OK)
            return kas_fail_context(status, "layer %s",
                                    op->layer >= 0 ? r->m->net->layer[op->layer].name : "(none)");
    }
    if (r->options->mode == KAS_TAPE_INFER || !r->options->images)
        return KAS_OK;
    return kas_op_advance(r->m->ops, r->plan, state(r), r->m->batch);
}

kas_status kas_model_record(kas_model *model, const kas_step_options *options, kas_plan **out)
{
    if (options->mode == KAS_TAPE_TRAIN && !model->training)
        return kas_fail(KAS_FAILURE, "a model for inference has no training step");
    recorder r = {.m = model, .tape = &model->tape[options->mode], .options = options};
    if (options->mode == KAS_TAPE_TRAIN && options->rows)
        KAS_TRY(set_decay(model, options->recipe));
    KAS_TRY(kas_plan_create(model->device, &r.plan));
    kas_status status = append_all(&r);
    if (status != KAS_OK)
        kas_plan_free(r.plan);
    else
        *out = r.plan;
    return status;
}
