/* Records kernels in place of convolutions: an average pool of the stride, then the kernel's
 * program, which outside training may include the epilogue of the layer. */
#include "host/model/record.h"

/* Returns the vector of the batch norm behind it that a program reads. */
static float *norm_part(const kas_recorder *r, const kas_tape_op *op, int part)
{
    switch ((kas_norm_part)part) {
    case KAS_NORM_GAMMA:
        return kas_record_parameter(r, op->norm, 0, false);
    case KAS_NORM_BETA:
        return kas_record_parameter(r, op->norm, 1, false);
    case KAS_NORM_MEAN:
        return kas_record_parameter(r, op->norm, 2, false);
    default: /* KAS_NORM_RSTD */
        return (float *)(void *)(r->m->memory + r->m->layout.folded +
                                 kas_folds_find(&r->m->folds, op->layer)->rstd);
    }
}

/* Returns the factor of the layer's output. */
static float *gain(const kas_recorder *r, const kas_tape_op *op)
{
    return kas_params_find(&r->m->params, op->layer, KAS_PARAM_GAIN_SLOT) >= 0
               ? kas_record_parameter(r, op->layer, KAS_PARAM_GAIN_SLOT, false)
               : kas_model_float(r->m, r->m->layout.one, 0);
}

static void fill_addresses(kas_recorder *r, const kas_tape_op *op, float *x, float *y)
{
    const kas_program *p = r->m->programs->program[op->program];
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
            *at = kas_record_slot(r, op->pooled >= 0 ? op->pooled : op->dx.slot);
            break;
        case KAS_ROLE_DY:
            *at = kas_record_slot(r, op->dy.slot);
            break;
        case KAS_ROLE_WEIGHT:
            *at = kas_record_weights(r, op->layer, b->index, b->dtype);
            break;
        case KAS_ROLE_DWEIGHT:
            *at = r->m->training ? kas_record_parameter(r, op->layer, b->index, true) : NULL;
            break;
        case KAS_ROLE_SAVED:
            *at = kas_record_slot(r, op->program_saved + i);
            break;
        case KAS_ROLE_SCRATCH:
            *at = kas_record_slot(r, op->program_scratch + i);
            break;
        case KAS_ROLE_NORM:
            *at = op->epilogue >= 0 ? norm_part(r, op, b->index) : NULL;
            break;
        case KAS_ROLE_RESIDUAL:
            *at = kas_record_slot(r, op->x1.slot);
            break;
        case KAS_ROLE_GAIN:
            *at = gain(r, op);
            break;
        }
    }
}

/* Returns the output of the pool that takes the stride: it has the spatial size of the layer and
 * the channels of its input. */
static kas_tensor pooled_tensor(const kas_recorder *r, int slot, int layer)
{
    const int c = r->m->net->layer[r->m->net->layer[layer].in[0]].c;
    kas_tensor t = kas_record_tensor(
        r, (kas_place){slot, 0, kas_pitch_of(r->m->dtype, c), r->m->dtype}, layer);
    t.c = c;
    return t;
}

kas_status kas_record_replaced_forward(kas_recorder *r, const kas_tape_op *op)
{
    const kas_layer *l = &r->m->net->layer[op->layer];
    float *x = kas_record_slot(r, op->x.slot);
    if (op->pooled >= 0) {
        const kas_pool pool = kas_pool_of_stride(l->stride);
        x = kas_record_slot(r, op->pooled);
        if (op->pools)
            KAS_TRY(kas_op_avg_pool_forward(r->m->ops, r->plan, &pool,
                                            kas_record_tensor(r, op->x, l->in[0]),
                                            pooled_tensor(r, op->pooled, op->layer)));
    }
    fill_addresses(r, op, x, kas_record_slot(r, op->y.slot));
    if (op->epilogue >= 0)
        return kas_loaded_append_epilogue(r->m->programs->loaded[op->program], r->plan,
                                          op->epilogue, r->m->address);
    if (op->norm >= 0)
        return kas_record_folded_program(r, op);
    return kas_loaded_append(r->m->programs->loaded[op->program], r->plan, false, r->m->address);
}

kas_status kas_record_replaced_backward(kas_recorder *r, const kas_tape_op *op)
{
    const kas_layer *l = &r->m->net->layer[op->layer];
    fill_addresses(r, op, kas_record_slot(r, op->x.slot), NULL);
    KAS_TRY(kas_loaded_append(r->m->programs->loaded[op->program], r->plan, true, r->m->address));
    if (op->pooled < 0)
        return KAS_OK;
    const kas_pool pool = kas_pool_of_stride(l->stride);
    return kas_op_avg_pool_backward(r->m->ops, r->plan, &pool,
                                    pooled_tensor(r, op->pooled, op->layer),
                                    kas_record_tensor(r, op->dx, l->in[0]));
}
