/* Records a step: it turns the operations of a tape into launches. */
#include "host/model/record.h"

#include <stdlib.h>

/* ---- around the layers ----------------------------------------------------------------------- */

static kas_status load(kas_recorder *r, const kas_tape_op *op)
{
    if (!r->options->images)
        return KAS_OK;
    kas_augment augment = *r->options->images;
    augment.state = kas_record_state(r);
    return kas_op_augment(r->m->ops, r->plan, &augment, kas_record_tensor(r, op->y, 0),
                          (uint16_t *)(void *)kas_record_slot(r, r->tape->labels));
}

/* Returns the loss scale; NULL when the loss is not scaled. */
static kas_loss_scale *loss_scale(const kas_recorder *r)
{
    return kas_model_scales(r->m) ? (void *)(r->m->memory + r->m->layout.scale) : NULL;
}

static kas_status loss(kas_recorder *r, const kas_tape_op *op)
{
    int last = r->m->net->layers - 1;
    const kas_recipe *recipe = r->options->recipe;
    double smoothing = recipe ? recipe->label_smoothing : 0;
    const kas_mix mix = {r->options->rows, kas_record_state(r)};
    bool mixed = r->options->mode == KAS_TAPE_TRAIN && recipe && kas_recipe_mixes(recipe) &&
                 r->options->rows;
    return kas_op_cross_entropy(r->m->ops, r->plan, kas_record_tensor(r, op->x, last),
                                (const uint16_t *)(void *)kas_record_slot(r, r->tape->labels),
                                smoothing, mixed ? &mix : NULL, kas_record_tensor(r, op->dx, last),
                                op->dx.slot >= 0 ? loss_scale(r) : NULL, kas_record_metrics(r),
                                kas_record_slot(r, op->work));
}

/* Compares a twin with its convolution, weighted by the batch norm behind the latter. */
static kas_status compare(kas_recorder *r, const kas_tape_op *op)
{
    kas_imitation imitation = {.output = kas_record_tensor(r, op->x, op->layer),
                               .target = kas_record_tensor(r, op->x1, op->layer),
                               .gradient = op->dx.slot >= 0,
                               .scratch = kas_record_slot(r, op->work),
                               .sum = (void *)(r->m->memory + r->m->layout.imitated)};
    for (int i = 0; i < op->layer; i++)
        imitation.sum += r->m->twin[i];
    if (op->norm >= 0) {
        imitation.gamma = kas_record_parameter(r, op->norm, 0, false);
        imitation.running_var = kas_record_parameter(r, op->norm, 3, false);
        imitation.eps = (float)r->m->net->layer[op->norm].eps;
    }
    return kas_op_imitation(r->m->ops, r->plan, &imitation);
}

/* Adds `value` to its moving average. */
static kas_status average(kas_recorder *r, size_t average_part, size_t value_part, size_t count)
{
    kas_average average = {
        .average = kas_model_float(r->m, average_part, 0),
        .value = kas_model_float(r->m, value_part, 0),
        .count = count,
        .rows = r->options->rows,
        .state = kas_record_state(r),
        .watch = &kas_record_metrics(r)->not_finite.averages,
    };
    return count ? kas_op_average(r->m->ops, r->plan, &average) : KAS_OK;
}

/* Records clipping and the division by the loss scale, as a factor that the optimiser applies. */
static kas_status scale_gradient(kas_recorder *r, kas_update *update)
{
    const kas_model *m = r->m;
    const double limit = m->clipped ? r->options->recipe->clip : 0;
    float *factor = kas_model_float(m, m->layout.clip, 0);
    if (!m->clipped && !kas_model_scales(m))
        return KAS_OK;
    update->grad_scale = factor;
    const float *grad = kas_model_float(m, m->layout.gradients, 0);
    if (!kas_model_scales(m))
        return kas_op_clip(m->ops, r->plan, grad, m->params.learned, limit, factor + 1, factor);
    const kas_scaling scaling = {.scale = loss_scale(r),
                                 .grad = grad,
                                 .count = m->params.learned,
                                 .limit = limit,
                                 .patience = KAS_SCALE_PATIENCE,
                                 .scratch = factor + 1,
                                 .factor = factor};
    return kas_op_loss_scale(m->ops, r->plan, &scaling);
}

static kas_status update(kas_recorder *r)
{
    kas_model *m = r->m;
    const kas_model_layout *l = &m->layout;
    if (!r->options->rows)
        return KAS_OK;
    const size_t begin = m->share ? kas_shard_begin(m) : 0;
    kas_update update = {
        .recipe = r->options->recipe,
        .param = kas_model_float(m, l->parameters, begin),
        .first = kas_model_float(m, l->first, 0),
        .second = m->adamw ? kas_model_float(m, l->second, 0) : NULL,
        .grad = kas_model_float(m, l->gradients, begin),
        .decay = kas_model_float(m, l->decay, begin / KAS_UPDATE_GROUP),
        .count = m->share ? kas_shard_size(m) : m->params.learned,
        .rows = r->options->rows,
        .state = kas_record_state(r),
        .dtype = m->dtype,
        .copy = m->dtype == KAS_F32 ? NULL : m->memory + l->copy + begin * kas_dtype_size(m->dtype),
        .watch = &kas_record_metrics(r)->not_finite.parameters,
    };
    KAS_TRY(scale_gradient(r, &update));
    if (update.count)
        KAS_TRY(kas_op_update(m->ops, r->plan, &update));
    if (m->share)
        KAS_TRY(kas_shard_record_gather(m, r->plan));
    if (!m->averaged)
        return KAS_OK;
    KAS_TRY(average(r, l->average, l->parameters, m->params.learned));
    return average(r, l->average_running, l->running, m->params.statistics);
}

/* Sets the weight decay of each group of floats; weights come first (params.h). In the mode IMITATE
 * nothing decays: the convolutions have no gradient and must stay what they are. */
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

static kas_status append(kas_recorder *r, const kas_tape_op *op)
{
    switch (op->kind) {
    case KAS_TAPE_LOAD:
        return load(r, op);
    case KAS_TAPE_FORWARD:
        return kas_record_forward(r, op);
    case KAS_TAPE_AGAIN:
        return kas_record_again(r, op);
    case KAS_TAPE_COMPARE:
        return compare(r, op);
    case KAS_TAPE_LOSS:
        return loss(r, op);
    case KAS_TAPE_BACKWARD:
        return kas_record_backward(r, op);
    case KAS_TAPE_SUM:
        return kas_op_add(r->m->ops, r->plan, kas_record_tensor(r, op->x, op->layer),
                          kas_record_tensor(r, op->x1, op->layer),
                          kas_record_tensor(r, op->y, op->layer));
    case KAS_TAPE_COPY:
        return kas_op_copy(r->m->ops, r->plan, kas_record_tensor(r, op->x, op->layer),
                           kas_record_tensor(r, op->y, op->layer));
    case KAS_TAPE_CAST:
        return kas_op_cast(r->m->ops, r->plan, kas_record_tensor(r, op->x, op->layer),
                           kas_record_tensor(r, op->y, op->layer));
    case KAS_TAPE_UPDATE:
        return update(r);
    }
    return kas_fail(KAS_FAILURE, "unknown operation %d of a step", op->kind);
}

static kas_status append_operation(kas_recorder *r, const kas_tape_op *op)
{
    const char *layer = op->layer >= 0 ? r->m->net->layer[op->layer].name : "(none)";
    const kas_status status = append(r, op);
    return status == KAS_OK ? KAS_OK : kas_fail_context(status, "layer %s", layer);
}

static kas_status append_all(kas_recorder *r)
{
    KAS_TRY(kas_record_find_buckets(r));
    for (int i = 0; i < r->tape->ops; i++) {
        const kas_tape_op *op = &r->tape->op[i];
        if (r->options->forward_only && op->kind == KAS_TAPE_LOSS)
            break;
        if (r->options->mark)
            r->options->mark[i] = kas_plan_steps(r->plan);
        KAS_TRY(append_operation(r, op));
        KAS_TRY(kas_record_exchange(r, i));
    }
    if (r->options->mark)
        r->options->mark[r->tape->ops] = kas_plan_steps(r->plan);
    if (r->options->mode == KAS_TAPE_INFER || !r->options->images)
        return KAS_OK;
    return kas_op_advance(r->m->ops, r->plan, kas_record_state(r),
                          r->m->batch * kas_group_ranks(r->m->group));
}

int kas_model_operations(const kas_model *model, kas_tape_mode mode)
{
    return model->tape[mode].ops;
}

kas_status kas_model_run_operation(kas_model *m, int operation)
{
    const kas_step_options options = {.mode = KAS_TAPE_INFER};
    const kas_tape *tape = &m->tape[KAS_TAPE_INFER];
    kas_recorder r = {.m = m, .tape = tape, .options = &options};
    KAS_TRY(kas_plan_create(m->device, &r.plan));
    kas_status status = append_operation(&r, &tape->op[operation]);
    if (status == KAS_OK)
        status = kas_plan_run(r.plan);
    if (status == KAS_OK)
        status = kas_device_sync(m->device);
    kas_plan_free(r.plan);
    return status;
}

kas_tensor kas_model_output_of(const kas_model *m, int operation, int *layer)
{
    const kas_tape *tape = &m->tape[KAS_TAPE_INFER];
    const kas_tape_op *op = &tape->op[operation];
    char *data = m->memory + m->layout.transient + tape->buffer[op->y.slot].offset;
    const kas_layer *l = &m->net->layer[op->last];
    *layer = op->kind == KAS_TAPE_FORWARD ? op->last : -1;
    return (kas_tensor){data + (size_t)op->y.offset * kas_dtype_size(op->y.dtype),
                        m->batch,
                        l->h,
                        l->w,
                        l->c,
                        op->y.pitch,
                        op->y.dtype};
}

kas_status kas_model_record(kas_model *model, const kas_step_options *options, kas_plan **out)
{
    if (!model->tape[options->mode].op)
        return kas_fail(KAS_FAILURE, "the model has no step of this mode");
    kas_recorder r = {.m = model, .tape = &model->tape[options->mode], .options = options};
    if (options->mode == KAS_TAPE_TRAIN && options->rows)
        KAS_TRY(set_decay(model, options->recipe));
    KAS_TRY(kas_plan_create(model->device, &r.plan));
    kas_plan_capture_exchanges(r.plan);
    kas_status status = append_all(&r);
    if (status != KAS_OK)
        kas_plan_free(r.plan);
    else
        *out = r.plan;
    return status;
}

kas_status kas_model_record_average(kas_model *m, kas_plan **out)
{
    *out = NULL;
    if (m->dtype == KAS_F32 || !m->averaged)
        return KAS_OK;
    const kas_tensor average = {.data = kas_model_float(m, m->layout.average, 0),
                                .n = (int)(m->params.learned / KAS_UPDATE_GROUP),
                                .h = 1,
                                .w = 1,
                                .c = KAS_UPDATE_GROUP,
                                .pitch = KAS_UPDATE_GROUP};
    kas_tensor copy = average;
    copy.data = m->memory + m->layout.average_copy;
    copy.dtype = m->dtype;
    KAS_TRY(kas_plan_create(m->device, out));
    const kas_status status = kas_op_cast(m->ops, *out, average, copy);
    if (status != KAS_OK) {
        kas_plan_free(*out);
        *out = NULL;
    }
    return status;
}
