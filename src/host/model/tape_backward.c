/* Appends the backward operations of a tape, from the last layer to the first. */
#include "host/model/tape_impl.h"

/* Returns whether the layer adds gradients as it reads them: a batch norm, alone or with a sum,
 * that is followed by nothing or a ReLU. */
static bool adds_gradients(const kas_tape_builder *b, int layer)
{
    const int head = b->layer[layer].head;
    return head >= 0 && (b->net->layer[layer].op == KAS_LAYER_RELU || layer == head ||
                         b->net->layer[layer].op == KAS_LAYER_ADD);
}

/* Adds a contribution to the gradient of a layer's output. */
static void contribute(kas_tape_builder *b, int layer, kas_place place, bool owned)
{
    kas_tape_layer *l = &b->layer[layer];
    if (!l->learns)
        return;
    if (l->gradient.slot < 0) {
        l->gradient = place;
        l->owned = owned;
        return;
    }
    if (l->second.slot < 0 && adds_gradients(b, layer)) {
        l->second = place;
        l->second_owned = owned;
        return;
    }
    kas_tape_op op = kas_tape_empty(KAS_TAPE_SUM, layer);
    op.x = l->gradient;
    op.x1 = place;
    op.y = l->owned ? op.x : owned ? place : kas_tape_like(b, layer);
    kas_tape_append(b, op);
    l->gradient = op.y;
    l->owned = true;
}

static bool is_dense(const kas_tape_builder *b, int layer, kas_place place)
{
    return place.offset == 0 && place.pitch == kas_pitch_of(place.dtype, b->net->layer[layer].c);
}

/* Returns the place for the gradient of input `in`: over the layer's own gradient if no other
 * operation reads that and it need not be copied then. */
static kas_place overwrite(kas_tape_builder *b, int layer, int in)
{
    const kas_tape_layer *l = &b->layer[layer];
    if (l->owned && (is_dense(b, in, l->gradient) || !kas_layer_is_linear(&b->net->layer[in])))
        return l->gradient;
    return kas_tape_like(b, in);
}

/* Returns whether the output of a batch norm [and activation] can be computed again from tensors
 * that are kept anyway. */
static bool can_recompute(const kas_tape_builder *b, int layer)
{
    const kas_tape_layer *l = &b->layer[layer];
    return b->recompute && l->head >= 0 && l->home < 0 && b->tape->op[l->operation].residual < 0;
}

/* Returns the place of a layer's output in the backward pass. */
static kas_place output_of(kas_tape_builder *b, int layer)
{
    kas_tape_layer *l = &b->layer[layer];
    if (b->status != KAS_OK || !can_recompute(b, layer))
        return l->activation;
    if (l->again.slot < 0) {
        kas_tape_op op = b->tape->op[l->operation];
        op.kind = KAS_TAPE_AGAIN;
        op.work = -1;
        op.y = l->again = kas_tape_like(b, layer);
        kas_tape_append(b, op);
    }
    return l->again;
}

static void replaced(kas_tape_builder *b, int layer, kas_tape_op *op)
{
    op->program_saved = b->layer[layer].program_saved;
    op->program_scratch = kas_tape_program_slots(b, op->program, KAS_ROLE_SCRATCH);
    if (b->layer[layer].pooled < 0)
        return;
    const int pooled = b->layer[layer].pooled; /* X of the program */
    op->x = (kas_place){
        pooled, 0, kas_pitch_of(b->dtype, b->net->layer[b->net->layer[layer].in[0]].c), b->dtype};
    op->pooled = kas_tape_slot(b, b->tape->buffer[pooled].bytes);
}

/* Returns the place where a batch norm writes the gradient behind its activation: over one of those
 * that it reads. */
static kas_place behind_activation(kas_tape_builder *b, int last)
{
    const kas_tape_layer *l = &b->layer[last];
    if (l->owned)
        return l->gradient;
    return l->second.slot >= 0 && l->second_owned ? l->second : kas_tape_like(b, last);
}

/* Chooses where a batch norm writes dx: it is added to an existing gradient, or replaces one that
 * no later operation reads, or gets a place of its own. */
static void place_dx(kas_tape_builder *b, int last, int in, kas_tape_op *op)
{
    const kas_tape_layer *l = &b->layer[last];
    /* Convolutions and programs want dy without gaps. */
    const bool dense = kas_layer_is_linear(&b->net->layer[in]);
    const bool plain = op->activation <= KAS_ACTIVATION_RELU;
    const kas_place candidate[] = {
        op->residual < 0 ? op->dx1 : kas_no_place,
        op->residual < 0 && op->dx1.slot < 0 && l->owned ? l->gradient : kas_no_place,
        l->second_owned && !kas_same_place(l->second, op->dx1) ? l->second : kas_no_place};
    op->base = plain ? b->layer[in].gradient : kas_no_place;
    if (op->base.slot >= 0 && b->layer[in].owned) {
        op->dx = op->base;
        return;
    }
    for (size_t i = 0; i < sizeof candidate / sizeof *candidate; i++)
        if (candidate[i].slot >= 0 && (!dense || is_dense(b, in, candidate[i]))) {
            op->dx = candidate[i];
            return;
        }
    op->dx = kas_tape_like(b, in);
}

/* Appends the backward operation of the group that ends at layer `last`. */
static void batch_norm(kas_tape_builder *b, int last)
{
    const int head = b->layer[last].head, in = b->net->layer[head].in[0];
    const kas_tape_layer *l = &b->layer[last];
    if (b->status != KAS_OK)
        return;
    kas_tape_op op = b->tape->op[l->operation]; /* as in the forward pass */
    const bool masked = op.residual >= 0 && op.activation != KAS_ACTIVATION_NONE;
    op.kind = KAS_TAPE_BACKWARD;
    op.x1 = kas_no_place;
    op.y = masked ? l->activation : kas_no_place;
    op.dy = l->gradient;
    op.dy1 = l->second;
    op.work = kas_tape_slot(b, b->tape->buffer[op.work].bytes);
    if (masked || op.dy1.slot >= 0)
        op.dx1 = behind_activation(b, last);
    place_dx(b, last, in, &op);
    kas_tape_append(b, op);
    if (op.base.slot >= 0) {
        b->layer[in].gradient = op.dx;
        b->layer[in].owned = true;
    } else {
        contribute(b, in, op.dx, true);
    }
    /* Without a ReLU the other input's gradient is dy itself, which then has two readers. */
    if (op.residual >= 0 && op.dx1.slot >= 0)
        contribute(b, op.residual, op.dx1, true);
    else if (op.residual >= 0)
        contribute(b, op.residual, op.dy, false);
}

/* Passes on parts of dy: the front part to the concatenation that shares the buffer, the rest to
 * the inputs behind it. The parts do not overlap, so each has the owner of the whole. */
static void concat(kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    const kas_place dy = b->layer[layer].gradient;
    const bool owned = b->layer[layer].owned;
    const int child = b->layer[layer].child;
    if (child >= 0)
        contribute(b, child, dy, owned);
    for (int k = b->layer[layer].covered; k < l->inputs; k++) {
        kas_place part = dy;
        part.offset += kas_tape_first_channel(b, layer, k);
        contribute(b, l->in[k], part, owned);
    }
}

/* Computes dx1 first, so that dx may lie in place of dy. */
static void multiply(kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    kas_tape_op op = kas_tape_empty(KAS_TAPE_BACKWARD, layer);
    op.dy = b->layer[layer].gradient;
    op.x = output_of(b, l->in[0]);
    op.x1 = output_of(b, l->in[1]);
    op.dx = overwrite(b, layer, l->in[0]);
    op.dx1 = kas_tape_like(b, l->in[1]);
    kas_tape_append(b, op);
    contribute(b, l->in[0], op.dx, true);
    contribute(b, l->in[1], op.dx1, true);
}

static kas_place dense_gradient(kas_tape_builder *b, int layer)
{
    const kas_place dy = b->layer[layer].gradient;
    if (is_dense(b, layer, dy))
        return dy;
    const kas_place copy = kas_tape_like(b, layer);
    kas_tape_copy(b, layer, dy, copy);
    return copy;
}

static void convolution(kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    kas_tape_op op = kas_tape_empty(KAS_TAPE_BACKWARD, layer);
    op.program = kas_programs_of_layer(b->programs, layer);
    op.dy = dense_gradient(b, layer);
    if (op.program < 0 || b->layer[layer].pooled < 0)
        op.x = b->layer[layer].input.slot >= 0 ? b->layer[layer].input : output_of(b, l->in[0]);
    if (op.program >= 0)
        replaced(b, layer, &op);
    const kas_tensor dy = kas_tape_shape(b, layer);
    if (op.program < 0 && l->bias && kas_bias_scratch(&dy) > 0)
        op.work = kas_tape_slot(b, sizeof(float) * kas_bias_scratch(&dy));
    /* A gradient that is not needed is not computed, except by programs, which always write it. */
    if (op.program >= 0 || b->layer[l->in[0]].learns)
        op.dx = kas_tape_shaped(b, l->in[0], op.dy.dtype);
    kas_tape_append(b, op);
    if (op.dx.slot >= 0 && b->layer[l->in[0]].learns)
        contribute(b, l->in[0], kas_tape_as(b, l->in[0], op.dx, kas_tape_shape(b, l->in[0]).dtype),
                   true);
}

/* Appends the backward operation of a layer with one input. */
static void single(kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    const kas_activation activation = kas_layer_activation(l->op);
    kas_tape_op op = kas_tape_empty(KAS_TAPE_BACKWARD, layer);
    bool in_place = l->op == KAS_LAYER_DROPOUT || l->op == KAS_LAYER_LAYER_NORM;
    op.dy = b->layer[layer].gradient;
    op.saved = b->layer[layer].saved;
    if (activation != KAS_ACTIVATION_NONE) {
        in_place = true;
        if (kas_activation_keeps_output(activation))
            op.y = output_of(b, layer);
        else
            op.x = output_of(b, l->in[0]);
    }
    if (l->op == KAS_LAYER_LAYER_NORM) {
        const kas_tensor x = kas_tape_shape(b, layer);
        op.x = output_of(b, l->in[0]);
        op.work = kas_tape_slot(b, sizeof(float) * kas_batch_norm_scratch(&x));
    }
    op.dx = in_place ? overwrite(b, layer, l->in[0]) : kas_tape_like(b, l->in[0]);
    kas_tape_append(b, op);
    contribute(b, l->in[0], op.dx, true);
}

static void backward(kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    const kas_tape_layer *known = &b->layer[layer];
    if (known->gradient.slot < 0)
        return; /* no parameters depend on it, or it is part of a group */
    if (known->head >= 0) {
        batch_norm(b, layer);
        return;
    }
    if (kas_tape_is_alias(b, layer)) {
        contribute(b, l->in[0], known->gradient, known->owned);
        return;
    }
    switch (l->op) {
    case KAS_LAYER_ADD:
        contribute(b, l->in[0], known->gradient, false);
        contribute(b, l->in[1], known->gradient, false);
        break;
    case KAS_LAYER_CONCAT:
        concat(b, layer);
        break;
    case KAS_LAYER_MULTIPLY:
        multiply(b, layer);
        break;
    case KAS_LAYER_CONV:
    case KAS_LAYER_LINEAR:
        convolution(b, layer);
        break;
    default:
        single(b, layer);
    }
}

void kas_tape_backward(kas_tape_builder *b, kas_place dlogits)
{
    const int last = b->net->layers - 1;
    contribute(b, last, kas_tape_as(b, last, dlogits, kas_tape_shape(b, last).dtype), true);
    for (int i = last; i > 0; i--)
        backward(b, i);
}

void kas_tape_imitate(kas_tape_builder *b, int twin)
{
    const int original = twin + 1;
    const kas_tensor y = kas_tape_shape(b, original);
    kas_tape_op op = kas_tape_empty(KAS_TAPE_COMPARE, twin);
    if (b->status != KAS_OK)
        return;
    op.x = b->layer[twin].activation;
    op.x1 = b->layer[original].activation;
    op.norm = kas_net_group_behind(b->net, original).norm;
    op.work = kas_tape_slot(b, sizeof(float) * kas_imitation_scratch(&y));
    if (b->mode == KAS_TAPE_IMITATE)
        op.dx = op.x;
    kas_tape_append(b, op);
    b->layer[twin].gradient = op.dx;
    if (b->mode == KAS_TAPE_IMITATE)
        convolution(b, twin);
}
