/* Records the operations of layers, by their kind. */
#include <math.h>

#include "host/model/record.h"

float *kas_record_parameter(const kas_recorder *r, int layer, int which, bool gradient)
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

/* The tensors that a layer's operation reads and writes. Absent tensors have no data. */
typedef struct tensors {
    const kas_layer *l;
    kas_tensor x, x1, y, dy, dy1, dx, dx1, base;
} tensors;

static tensors tensors_of(const kas_recorder *r, const kas_tape_op *op)
{
    const kas_layer *l = &r->m->net->layer[op->layer];
    const int other = op->residual >= 0 ? op->residual : l->in[l->inputs - 1];
    return (tensors){.l = l,
                     .x = kas_record_tensor(r, op->x, l->in[0]),
                     .x1 = kas_record_tensor(r, op->x1, other),
                     .y = kas_record_tensor(r, op->y, op->last),
                     .dy = kas_record_tensor(r, op->dy, op->last),
                     .dy1 = kas_record_tensor(r, op->dy1, op->last),
                     .dx = kas_record_tensor(r, op->dx, l->in[0]),
                     .base = kas_record_tensor(r, op->base, l->in[0]),
                     .dx1 = kas_record_tensor(r, op->dx1, other)};
}

/* ---- norms ----------------------------------------------------------------------------------- */

static kas_batch_norm batch_norm(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    kas_batch_norm norm = {
        .x = t->x,
        .y = t->y,
        .residual = t->x1,
        .activation = op->activation,
        .eps = (float)t->l->eps,
        .momentum = fmaxf((float)t->l->momentum, r->options->least_momentum),
        .gamma = kas_record_parameter(r, op->layer, 0, false),
        .beta = kas_record_parameter(r, op->layer, 1, false),
        .running_mean = kas_record_parameter(r, op->layer, 2, false),
        .running_var = kas_record_parameter(r, op->layer, 3, false),
        .saved_mean = kas_record_slot(r, op->saved),
        .scratch = kas_record_slot(r, op->work),
        .watch = &kas_record_metrics(r)->not_finite.statistics,
    };
    norm.saved_rstd = norm.saved_mean + kas_pitch(norm.x.c);
    if (r->options->mode == KAS_TAPE_TRAIN && r->m->sync_batch_norm)
        norm.group = r->m->group;
    return norm;
}

static kas_layer_norm layer_norm(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    kas_layer_norm norm = {
        .x = t->x,
        .y = t->y,
        .eps = (float)t->l->eps,
        .gamma = kas_record_parameter(r, op->layer, 0, false),
        .beta = kas_record_parameter(r, op->layer, 1, false),
        .saved_mean = kas_record_slot(r, op->saved),
        .scratch = kas_record_slot(r, op->work),
    };
    norm.saved_rstd = norm.saved_mean + t->x.n * t->x.h * t->x.w;
    return norm;
}

/* ---- forward --------------------------------------------------------------------------------- */

static kas_pool pool_of(const kas_layer *l)
{
    return (kas_pool){.kernel_h = l->kernel_h,
                      .kernel_w = l->kernel_w,
                      .stride = l->stride,
                      .pad_h = l->pad_h,
                      .pad_w = l->pad_w,
                      .count_include_pad = l->count_include_pad,
                      .adaptive = l->op == KAS_LAYER_ADAPTIVE_AVG_POOL};
}

static kas_dropout dropout_of(const kas_recorder *r, const kas_tape_op *op)
{
    return (kas_dropout){.probability = r->m->net->layer[op->layer].probability,
                         .seed = r->options->dropout_seed,
                         .layer = (uint32_t)op->layer,
                         .state = kas_record_state(r)};
}

static bool is_global(const kas_layer *l)
{
    return l->op == KAS_LAYER_GLOBAL_AVG_POOL || (l->h == 1 && l->w == 1);
}

void *kas_record_weights(const kas_recorder *r, int layer, int which, kas_dtype dtype)
{
    const kas_model *m = r->m;
    if (dtype == KAS_F32)
        return kas_record_parameter(r, layer, which, false);
    const kas_param *p = &m->params.param[kas_params_find(&m->params, layer, which)];
    const size_t part =
        r->options->averaged && m->averaged ? m->layout.average_copy : m->layout.copy;
    return m->memory + part + p->offset * kas_dtype_size(dtype);
}

/* Records a pass of a convolution. The bias (NULL: none) is part of it when the device supports
 * that, and *taken says so. */
static kas_status conv(const kas_recorder *r, const kas_tape_op *op, kas_conv_pass pass,
                       const kas_tensor *x, const kas_tensor *y, void *bias, bool *taken)
{
    kas_conv *prepared = r->m->conv[op->layer];
    void *w = pass == KAS_CONV_BACKWARD_WEIGHTS ? kas_record_parameter(r, op->layer, 0, true)
                                                : kas_record_weights(r, op->layer, 0, y->dtype);
    *taken = bias && kas_conv_takes_bias(prepared, pass, x->data, w, y->data, bias);
    return kas_plan_conv_bias(r->plan, prepared, pass, x->data, w, y->data, *taken ? bias : NULL);
}

static kas_status conv_forward(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    void *bias = t->l->bias ? kas_record_weights(r, op->layer, 1, t->y.dtype) : NULL;
    bool taken;
    KAS_TRY(conv(r, op, KAS_CONV_FORWARD, &t->x, &t->y, bias, &taken));
    if (!bias || taken)
        return KAS_OK;
    return kas_op_bias_forward(r->m->ops, r->plan, t->y,
                               kas_record_parameter(r, op->layer, 1, false));
}

/* ---- a convolution and the group behind it --------------------------------------------------- */

/* Returns whether the output and the residual have the convolution's pitch. Parts of a
 * concatenation do not. */
static bool is_dense(const tensors *t)
{
    const int pitch = kas_pitch_of(t->y.dtype, t->y.c);
    return t->y.pitch == pitch && (!t->x1.data || t->x1.pitch == pitch);
}

/* Records the group as without folding, in place: the convolution's output lies where the group's
 * output will be. */
static kas_status norm_behind(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    kas_tape_op behind = *op;
    tensors u = *t;
    behind.layer = op->norm;
    behind.saved = op->work;
    u.l = &r->m->net->layer[op->norm];
    u.x = t->y;
    const kas_batch_norm norm = batch_norm(r, &behind, &u);
    return kas_op_batch_norm_inference(r->m->ops, r->plan, &norm);
}

static kas_conv_call folded_call(const kas_model *m, const kas_fold *f, const tensors *t)
{
    const char *folded = m->memory + m->layout.folded;
    return (kas_conv_call){.w = folded + f->weights,
                           .bias = (const float *)(const void *)(folded + f->bias),
                           .bias_rounded = folded + f->bias_rounded,
                           .residual = t->x1.data};
}

static kas_status folded_forward(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    const kas_model *m = r->m;
    const kas_fold *f = kas_folds_find(&m->folds, op->layer);
    kas_conv_call call = folded_call(m, f, t);
    call.x = t->x.data;
    call.y = t->y.data;
    if (is_dense(t) && kas_conv_takes_epilogue(m->conv[op->layer], f->epilogue, &call))
        return kas_plan_conv_epilogue(r->plan, m->conv[op->layer], f->epilogue, &call);
    KAS_TRY(conv_forward(r, op, t));
    return norm_behind(r, op, t);
}

kas_status kas_record_folded_program(const kas_recorder *r, const kas_tape_op *op)
{
    const tensors t = tensors_of(r, op);
    const kas_fold *f = kas_folds_find(&r->m->folds, op->layer);
    const kas_conv_call call = folded_call(r->m, f, &t);
    const kas_loaded *loaded = r->m->programs->loaded[op->program];
    bool taken = is_dense(&t);
    if (taken)
        KAS_TRY(
            kas_loaded_append_folded(loaded, r->plan, f->epilogue, &call, r->m->address, &taken));
    if (taken)
        return KAS_OK;
    KAS_TRY(kas_loaded_append(loaded, r->plan, false, r->m->address));
    return norm_behind(r, op, &t);
}

static kas_status batch_norm_forward(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    const kas_batch_norm norm = batch_norm(r, op, t);
    return r->options->mode == KAS_TAPE_TRAIN || r->m->separate
               ? kas_op_batch_norm_forward(r->m->ops, r->plan, &norm)
               : kas_op_batch_norm_inference(r->m->ops, r->plan, &norm);
}

static kas_status pool_forward(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    const kas_pool pool = pool_of(t->l);
    if (t->l->op == KAS_LAYER_MAX_POOL)
        return kas_op_max_pool_forward(r->m->ops, r->plan, &pool, t->x, t->y,
                                       (uint8_t *)kas_record_slot(r, op->saved));
    if (t->l->op != KAS_LAYER_AVG_POOL && is_global(t->l))
        return kas_op_global_pool_forward(r->m->ops, r->plan, t->x, t->y);
    return kas_op_avg_pool_forward(r->m->ops, r->plan, &pool, t->x, t->y);
}

kas_status kas_record_forward(kas_recorder *r, const kas_tape_op *op)
{
    const tensors t = tensors_of(r, op);
    kas_ops *ops = r->m->ops;
    if (op->program >= 0)
        return kas_record_replaced_forward(r, op);
    switch (t.l->op) {
    case KAS_LAYER_CONV:
    case KAS_LAYER_LINEAR:
        return op->norm >= 0 ? folded_forward(r, op, &t) : conv_forward(r, op, &t);
    case KAS_LAYER_BATCH_NORM:
        return batch_norm_forward(r, op, &t);
    case KAS_LAYER_LAYER_NORM: {
        const kas_layer_norm norm = layer_norm(r, op, &t);
        return kas_op_layer_norm_forward(ops, r->plan, &norm);
    }
    case KAS_LAYER_ADD:
        return kas_op_add(ops, r->plan, t.x, t.x1, t.y);
    case KAS_LAYER_MULTIPLY:
        return kas_op_multiply(ops, r->plan, t.x, t.x1, t.y);
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
        return pool_forward(r, op, &t);
    case KAS_LAYER_SHORTCUT_A:
        return kas_op_shortcut_a_forward(ops, r->plan, t.l->stride, t.x, t.y);
    case KAS_LAYER_FLATTEN:
        return kas_op_flatten_forward(ops, r->plan, t.x, t.y);
    case KAS_LAYER_DROPOUT: {
        const kas_dropout dropout = dropout_of(r, op);
        return kas_op_dropout(ops, r->plan, &dropout, t.x, t.y);
    }
    default:
        return kas_op_activation_forward(ops, r->plan, kas_layer_activation(t.l->op), t.x, t.y);
    }
}

kas_status kas_record_again(kas_recorder *r, const kas_tape_op *op)
{
    const tensors t = tensors_of(r, op);
    const kas_batch_norm norm = batch_norm(r, op, &t);
    return kas_op_batch_norm_again(r->m->ops, r->plan, &norm);
}

/* ---- backward -------------------------------------------------------------------------------- */

static kas_status conv_backward(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    float *dbias = t->l->bias ? kas_record_parameter(r, op->layer, 1, true) : NULL;
    bool taken;
    KAS_TRY(conv(r, op, KAS_CONV_BACKWARD_WEIGHTS, &t->x, &t->dy, dbias, &taken));
    if (op->dx.slot >= 0)
        KAS_TRY(conv(r, op, KAS_CONV_BACKWARD_DATA, &t->dx, &t->dy, NULL, &(bool){false}));
    return dbias && !taken ? kas_op_bias_backward(r->m->ops, r->plan, t->dy, dbias,
                                                  kas_record_slot(r, op->work))
                           : KAS_OK;
}

static kas_status norm_backward(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    float *dgamma = kas_record_parameter(r, op->layer, 0, true);
    float *dbeta = kas_record_parameter(r, op->layer, 1, true);
    if (t->l->op == KAS_LAYER_BATCH_NORM) {
        const kas_batch_norm norm = batch_norm(r, op, t);
        const kas_batch_norm_gradient gradient = {.y = t->y,
                                                  .dy = t->dy,
                                                  .dy1 = t->dy1,
                                                  .g = t->dx1,
                                                  .dx = t->dx,
                                                  .base = t->base,
                                                  .dgamma = dgamma,
                                                  .dbeta = dbeta};
        return kas_op_batch_norm_backward(r->m->ops, r->plan, &norm, &gradient);
    }
    const kas_layer_norm norm = layer_norm(r, op, t);
    return kas_op_layer_norm_backward(r->m->ops, r->plan, &norm, t->dy, t->dx, dgamma, dbeta);
}

/* Records the other factor's gradient first, because dx may lie in place of dy. */
static kas_status multiply_backward(const kas_recorder *r, const tensors *t)
{
    const bool gate = t->x1.h == 1 && t->x1.w == 1;
    KAS_TRY(gate ? kas_op_multiply_sum(r->m->ops, r->plan, t->dy, t->x, t->dx1)
                 : kas_op_multiply(r->m->ops, r->plan, t->dy, t->x, t->dx1));
    return kas_op_multiply(r->m->ops, r->plan, t->dy, t->x1, t->dx);
}

static kas_status pool_backward(const kas_recorder *r, const kas_tape_op *op, const tensors *t)
{
    const kas_pool pool = pool_of(t->l);
    if (t->l->op == KAS_LAYER_MAX_POOL)
        return kas_op_max_pool_backward(r->m->ops, r->plan, &pool,
                                        (const uint8_t *)kas_record_slot(r, op->saved), t->dy,
                                        t->dx);
    if (t->l->op != KAS_LAYER_AVG_POOL && is_global(t->l))
        return kas_op_global_pool_backward(r->m->ops, r->plan, t->dy, t->dx);
    return kas_op_avg_pool_backward(r->m->ops, r->plan, &pool, t->dy, t->dx);
}

static kas_status activation_backward(const kas_recorder *r, const tensors *t)
{
    const kas_activation kind = kas_layer_activation(t->l->op);
    return kas_op_activation_backward(
        r->m->ops, r->plan, kind, kas_activation_keeps_output(kind) ? t->y : t->x, t->dy, t->dx);
}

kas_status kas_record_backward(kas_recorder *r, const kas_tape_op *op)
{
    const tensors t = tensors_of(r, op);
    kas_ops *ops = r->m->ops;
    if (op->program >= 0)
        return kas_record_replaced_backward(r, op);
    switch (t.l->op) {
    case KAS_LAYER_CONV:
    case KAS_LAYER_LINEAR:
        return conv_backward(r, op, &t);
    case KAS_LAYER_BATCH_NORM:
    case KAS_LAYER_LAYER_NORM:
        return norm_backward(r, op, &t);
    case KAS_LAYER_MULTIPLY:
        return multiply_backward(r, &t);
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
        return pool_backward(r, op, &t);
    case KAS_LAYER_SHORTCUT_A:
        return kas_op_shortcut_a_backward(ops, r->plan, t.l->stride, t.dy, t.dx);
    case KAS_LAYER_FLATTEN:
        return kas_op_flatten_backward(ops, r->plan, t.dy, t.dx);
    case KAS_LAYER_DROPOUT: {
        const kas_dropout dropout = dropout_of(r, op);
        return kas_op_dropout(ops, r->plan, &dropout, t.dy, t.dx);
    }
    default:
        return activation_backward(r, &t);
    }
}
