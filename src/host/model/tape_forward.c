/* Appends the forward operations of a tape. */
#include "host/model/tape_impl.h"

/* Returns the buffer with a layer's input, averaged over its stride, that an earlier operation made; -1:
 * none. A residual block's first layer and its shortcut read the same. */
static int pooled_before(const kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    for (int i = 1; i < b->net->layers; i++) {
        const kas_layer *other = &b->net->layer[i];
        if (b->layer[i].pooled >= 0 && other->in[0] == l->in[0] && other->stride == l->stride &&
            other->h == l->h && other->w == l->w)
            return b->layer[i].pooled;
    }
    return -1;
}

static void replaced(kas_tape_builder *b, int layer, kas_tape_op *op)
{
    const kas_layer *l = &b->net->layer[layer], *in = &b->net->layer[l->in[0]];
    op->program_saved = kas_tape_program_slots(b, op->program, KAS_ROLE_SAVED);
    op->program_scratch = kas_tape_program_slots(b, op->program, KAS_ROLE_SCRATCH);
    b->layer[layer].program_saved = op->program_saved;
    const kas_program *p = b->programs->program[op->program];
    if (l->stride > 1 && p->x_h == p->target.h && p->x_w == p->target.w) {
        op->pooled = pooled_before(b, layer);
        op->pools = op->pooled < 0;
        if (op->pools)
            op->pooled =
                kas_tape_slot(b, kas_dtype_size(b->dtype) * (size_t)b->batch * (size_t)l->h *
                                     (size_t)l->w * (size_t)kas_pitch_of(b->dtype, in->c));
    }
    b->layer[layer].pooled = op->pooled;
}

/* Returns whether a ReLU overwrites its input: it does when no other operation needs the input; a
 * sum's gradient needs none. */
static bool in_place(const kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    return l->op == KAS_LAYER_RELU && b->layer[l->in[0]].readers == 1 &&
           b->net->layer[l->in[0]].op == KAS_LAYER_ADD && b->layer[layer].home < 0;
}

/* Returns the bytes that a norm or a max pool keeps for the backward pass. */
static size_t saved_bytes(const kas_tape_builder *b, int layer)
{
    const kas_tensor y = kas_tape_shape(b, layer);
    switch (b->net->layer[layer].op) {
    case KAS_LAYER_BATCH_NORM:
        return sizeof(float) * 2 * (size_t)y.pitch;
    case KAS_LAYER_LAYER_NORM:
        return sizeof(float) * 2 * (size_t)y.n * (size_t)y.h * (size_t)y.w;
    case KAS_LAYER_MAX_POOL: /* one byte for each float */
        return kas_tensor_size(&y);
    default:
        return 0;
    }
}

static void append(kas_tape_builder *b, kas_tape_op op)
{
    const size_t saved = saved_bytes(b, op.layer);
    if (saved)
        op.saved = b->layer[op.layer].saved = kas_tape_slot(b, saved);
    b->layer[op.last].operation = b->tape->ops;
    kas_tape_append(b, op);
}

/* Sets the members of an operation that concern its group. */
static void group(kas_tape_builder *b, const kas_norm_group *g, kas_tape_op *op)
{
    op->last = g->last;
    op->activation = g->epilogue.activation;
    if (g->sum >= 0) {
        op->residual = b->net->layer[g->sum].in[1];
        op->x1 = b->layer[op->residual].activation;
    }
    op->y = b->layer[g->last].activation = kas_tape_output(b, g->last);
}

static void batch_norm(kas_tape_builder *b, int head)
{
    const kas_norm_group g = kas_net_norm_group(b->net, head);
    const kas_tensor x = kas_tape_shape(b, head);
    kas_tape_op op = kas_tape_empty(KAS_TAPE_FORWARD, head);
    op.x = b->layer[b->net->layer[head].in[0]].activation;
    group(b, &g, &op);
    if (b->mode == KAS_TAPE_TRAIN || b->separate)
        op.work =
            kas_tape_slot(b, sizeof(float) * kas_batch_norm_shared_scratch(&x, b->norm_ranks));
    append(b, op);
}

/* Appends a convolution, or the kernel in its place, with the group behind it. */
static void joined(kas_tape_builder *b, int head, int epilogue)
{
    const kas_norm_group g = kas_net_group_behind(b->net, head);
    kas_tape_op op = kas_tape_empty(KAS_TAPE_FORWARD, head);
    op.x = b->layer[b->net->layer[head].in[0]].activation;
    op.norm = g.norm;
    op.epilogue = epilogue;
    op.program = kas_programs_of_layer(b->programs, head);
    group(b, &g, &op);
    if (epilogue < 0) /* for a device that folds nothing, the saved statistics of a batch norm */
        op.work = kas_tape_slot(b, 2 * sizeof(float) * (size_t)kas_pitch(b->net->layer[head].c));
    if (op.program >= 0)
        replaced(b, head, &op);
    append(b, op);
}

/* Returns the place of the layer's input. For the layer that works in float32 it is a copy, kept
 * for the backward pass. */
static kas_place input(kas_tape_builder *b, int layer)
{
    const int in = b->net->layer[layer].in[0];
    const kas_place x = b->layer[in].activation;
    if (x.dtype == KAS_F32 || layer != b->tape->exact)
        return x;
    return b->layer[layer].input = kas_tape_as(b, in, x, KAS_F32);
}

void kas_tape_forward(kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    kas_tape_layer *known = &b->layer[layer];
    if (known->last != layer)
        return; /* it is part of a group that ends later */
    if (known->head >= 0) {
        if (b->net->layer[known->head].op == KAS_LAYER_BATCH_NORM)
            batch_norm(b, known->head);
        else
            joined(b, known->head, known->epilogue);
        return;
    }
    if (kas_tape_is_alias(b, layer)) {
        known->activation = b->layer[l->in[0]].activation;
        return;
    }
    if (l->op == KAS_LAYER_CONCAT) {
        kas_tape_concat_forward(b, layer);
        return;
    }
    kas_tape_op op = kas_tape_empty(KAS_TAPE_FORWARD, layer);
    op.x = input(b, layer);
    if (l->inputs > 1)
        op.x1 = b->layer[l->in[1]].activation;
    op.y = known->activation = in_place(b, layer) ? op.x : kas_tape_output(b, layer);
    op.program = kas_programs_of_layer(b->programs, layer);
    if (op.program >= 0)
        replaced(b, layer, &op);
    append(b, op);
}
