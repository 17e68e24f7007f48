#include "host/model/tape.h"

#include <stdlib.h>

#include "host/core/arena.h"
#include "host/model/tape_impl.h"

/* ---- buffers and operations ------------------------------------------------------------------ */

/* Adds buffers without bytes. */
static int add_slots(kas_tape_builder *b, int count)
{
    kas_tape *t = b->tape;
    if (t->slots + count > t->slot_capacity) {
        int capacity = 2 * (t->slots + count) + 64;
        kas_layout_buffer *grown = realloc(t->buffer, sizeof *grown * (size_t)capacity);
        if (!grown) {
            b->status = kas_fail(KAS_NO_MEMORY, "no memory to plan a step");
            return -1;
        }
        t->buffer = grown;
        t->slot_capacity = capacity;
    }
    for (int i = 0; i < count; i++)
        t->buffer[t->slots + i] = (kas_layout_buffer){.first = 0, .last = -1};
    t->slots += count;
    return t->slots - count;
}

int kas_tape_slot(kas_tape_builder *b, size_t bytes)
{
    int slot = add_slots(b, 1);
    if (slot >= 0)
        b->tape->buffer[slot].bytes = bytes;
    return slot;
}

kas_tensor kas_tape_shape(const kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    const kas_dtype dtype = b->layer[layer].exact ? KAS_F32 : b->dtype;
    return (kas_tensor){NULL, b->batch, l->h, l->w, l->c, kas_pitch_of(dtype, l->c), dtype};
}

kas_place kas_tape_shaped(kas_tape_builder *b, int layer, kas_dtype dtype)
{
    kas_tensor t = kas_tape_shape(b, layer);
    t.pitch = kas_pitch_of(dtype, t.c);
    return (kas_place){kas_tape_slot(b, kas_dtype_size(dtype) * kas_tensor_size(&t)), 0, t.pitch,
                       dtype};
}

kas_place kas_tape_like(kas_tape_builder *b, int layer)
{
    return kas_tape_shaped(b, layer, kas_tape_shape(b, layer).dtype);
}

int kas_tape_program_slots(kas_tape_builder *b, int program, kas_role role)
{
    const kas_program *p = b->programs->program[program];
    int first = add_slots(b, p->buffers);
    for (int i = 0; first >= 0 && i < p->buffers; i++)
        if (p->buffer[i].role == role)
            b->tape->buffer[first + i].bytes = p->buffer[i].bytes;
    return first;
}

static void touch(kas_tape *t, int slot, int op)
{
    if (slot < 0)
        return;
    kas_layout_buffer *s = &t->buffer[slot];
    if (s->first > s->last)
        s->first = op;
    s->last = op;
}

kas_tape_op kas_tape_empty(kas_tape_kind kind, int layer)
{
    return (kas_tape_op){.kind = kind,
                         .layer = layer,
                         .x = kas_no_place,
                         .x1 = kas_no_place,
                         .y = kas_no_place,
                         .dy = kas_no_place,
                         .dx = kas_no_place,
                         .last = layer,
                         .residual = -1,
                         .dx1 = kas_no_place,
                         .dy1 = kas_no_place,
                         .base = kas_no_place,
                         .saved = -1,
                         .work = -1,
                         .pooled = -1,
                         .program = -1,
                         .norm = -1,
                         .epilogue = -1,
                         .program_saved = -1,
                         .program_scratch = -1};
}

void kas_tape_append(kas_tape_builder *b, kas_tape_op op)
{
    kas_tape *t = b->tape;
    if (b->status != KAS_OK)
        return;
    if (!KAS_GROW(t->op, t->ops)) {
        b->status = kas_fail(KAS_NO_MEMORY, "no memory to plan a step");
        return;
    }
    const int slots[] = {op.x.slot,   op.x1.slot,   op.y.slot, op.dy.slot, op.dx.slot, op.dx1.slot,
                         op.dy1.slot, op.base.slot, op.saved,  op.work,    op.pooled};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        touch(t, slots[i], t->ops);
    if (op.kind == KAS_TAPE_LOAD || op.kind == KAS_TAPE_LOSS)
        touch(t, t->labels, t->ops);
    for (int i = 0; op.program >= 0 && i < b->programs->program[op.program]->buffers; i++) {
        touch(t, op.program_saved + i, t->ops);
        touch(t, op.program_scratch + i, t->ops);
    }
    t->op[t->ops++] = op;
}

kas_place kas_tape_as(kas_tape_builder *b, int layer, kas_place x, kas_dtype dtype)
{
    if (x.dtype == dtype || b->status != KAS_OK)
        return x;
    kas_tape_op op = kas_tape_empty(KAS_TAPE_CAST, layer);
    op.x = x;
    op.y = kas_tape_shaped(b, layer, dtype);
    kas_tape_append(b, op);
    return op.y;
}

void kas_tape_copy(kas_tape_builder *b, int layer, kas_place x, kas_place y)
{
    kas_tape_op op = kas_tape_empty(KAS_TAPE_COPY, layer);
    op.x = x;
    op.y = y;
    kas_tape_append(b, op);
}

/* ---- facts about the layers ------------------------------------------------------------------ */

bool kas_tape_is_alias(const kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    if (l->op == KAS_LAYER_DROPOUT)
        return b->mode != KAS_TAPE_TRAIN || l->probability == 0;
    const kas_layer *in = l->inputs > 0 ? &b->net->layer[l->in[0]] : l;
    return l->op == KAS_LAYER_FLATTEN && in->h == 1 && in->w == 1;
}

static kas_status describe_layers(kas_tape_builder *b)
{
    const kas_net *net = b->net;
    b->layer = calloc((size_t)net->layers, sizeof *b->layer);
    if (!b->layer)
        return kas_fail(KAS_NO_MEMORY, "no memory to plan a step of %d layers", net->layers);
    for (int i = 0; i < net->layers; i++)
        b->layer[i] = (kas_tape_layer){.activation = kas_no_place,
                                       .again = kas_no_place,
                                       .gradient = kas_no_place,
                                       .second = kas_no_place,
                                       .input = kas_no_place,
                                       .buffer = kas_no_place,
                                       .saved = -1,
                                       .program_saved = -1,
                                       .pooled = -1,
                                       .last = i,
                                       .head = -1,
                                       .epilogue = -1,
                                       .operation = -1,
                                       .child = -1,
                                       .parent = -1,
                                       .home = -1};
    for (int i = 0; i < net->layers; i++) {
        b->layer[i].learns = !b->twin && kas_layer_has_weights(net->layer[i].op);
        for (int k = 0; k < net->layer[i].inputs; k++) {
            b->layer[net->layer[i].in[k]].readers++;
            b->layer[i].learns |= b->layer[net->layer[i].in[k]].learns;
        }
    }
    return KAS_OK;
}

/* Makes groups of batch norms with the sum and the activation behind them. */
static void find_groups(kas_tape_builder *b)
{
    for (int i = 1; i < b->net->layers; i++) {
        if (b->net->layer[i].op != KAS_LAYER_BATCH_NORM)
            continue;
        const kas_norm_group group = kas_net_norm_group(b->net, i);
        b->layer[i].last = group.last;
        if (group.sum >= 0)
            b->layer[group.sum].last = group.last;
        b->layer[group.last].head = i;
    }
}

/* Returns whether layer i includes the group behind it. *epilogue gets that of its program, if it is
 * replaced and a kernel of ours has it; -1 where the group is folded into a library's convolution. */
static bool joins(const kas_tape_builder *b, int i, const kas_norm_group *group, int *epilogue)
{
    const int program = kas_programs_of_layer(b->programs, i);
    *epilogue = -1;
    if (group->norm < 0)
        return false;
    if (program < 0)
        return b->folded && kas_layer_is_linear(&b->net->layer[i]);
    *epilogue = kas_program_epilogue(b->programs->program[program], group->epilogue);
    return *epilogue >= 0 || (b->folded && b->programs->program[program]->fold.operation >= 0);
}

/* Extends groups by the layer in front that includes them. The tensors that such a layer writes and
 * adds have no gaps. */
static void find_joined(kas_tape_builder *b)
{
    for (int i = 1; i < b->net->layers && b->mode != KAS_TAPE_TRAIN && !b->separate; i++) {
        const kas_norm_group group = kas_net_group_behind(b->net, i);
        int epilogue;
        if (!joins(b, i, &group, &epilogue))
            continue;
        b->layer[i].last = group.last;
        b->layer[group.last].head = i;
        b->layer[group.last].epilogue = epilogue;
        b->layer[group.last].dense = true;
        if (group.sum >= 0)
            b->layer[b->net->layer[group.sum].in[1]].dense = true;
    }
}

/* Finds the convolution or linear layer that gives the logits: it works in float32, and so does a
 * dropout behind it. The layer is the same in all modes, since they share its convolution. */
static void find_exact(kas_tape_builder *b)
{
    int layer = b->net->layers - 1;
    b->tape->exact = -1;
    while (layer > 0 &&
           (kas_tape_is_alias(b, layer) || b->net->layer[layer].op == KAS_LAYER_DROPOUT))
        layer = b->net->layer[layer].in[0];
    if (!kas_layer_is_linear(&b->net->layer[layer]) || b->layer[layer].readers > 1 ||
        kas_programs_of_layer(b->programs, layer) >= 0)
        return;
    b->tape->exact = layer;
    for (int i = b->net->layers - 1; i > layer; i = b->net->layer[i].in[0])
        b->layer[i].exact = true;
    b->layer[layer].exact = true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void build(kas_tape_builder *b)
{
    kas_tape *t = b->tape;
    int last = b->net->layers - 1;
    find_groups(b);
    find_exact(b);
    find_joined(b);
    kas_tape_find_concats(b);
    b->layer[0].activation = kas_tape_like(b, 0);
    t->images = b->layer[0].activation.slot;
    t->labels = kas_tape_slot(b, sizeof(uint16_t) * (size_t)b->batch);
    if (b->mode != KAS_TAPE_INFER) {
        kas_tape_op load = kas_tape_empty(KAS_TAPE_LOAD, -1);
        load.y = b->layer[0].activation;
        kas_tape_append(b, load);
    }
    for (int i = 1; i <= last; i++) {
        kas_tape_forward(b, i);
        if (b->twin && b->twin[i - 1] && b->mode != KAS_TAPE_INFER)
            kas_tape_imitate(b, i - 1);
    }
    t->logits = kas_tape_as(b, last, b->layer[last].activation, KAS_F32);
    if (b->mode == KAS_TAPE_IMITATE)
        kas_tape_append(b, kas_tape_empty(KAS_TAPE_UPDATE, -1));
    if (b->mode == KAS_TAPE_INFER || b->mode == KAS_TAPE_IMITATE)
        return;
    kas_tape_op loss = kas_tape_empty(KAS_TAPE_LOSS, -1);
    loss.x = t->logits;
    loss.work = kas_tape_slot(b, sizeof(float) * 2 * (size_t)b->batch);
    if (b->mode == KAS_TAPE_TRAIN)
        loss.dx = kas_tape_shaped(b, last, KAS_F32);
    kas_tape_append(b, loss);
    if (b->mode == KAS_TAPE_EVALUATE)
        return;
    kas_tape_backward(b, loss.dx);
    kas_tape_append(b, kas_tape_empty(KAS_TAPE_UPDATE, -1));
}

kas_status kas_tape_build(const kas_net *net, const kas_programs *programs,
                          const kas_tape_options *options, kas_tape *out)
{
    *out = (kas_tape){0};
    kas_tape_builder b = {.net = net,
                          .programs = programs,
                          .batch = options->batch,
                          .mode = options->mode,
                          .recompute = options->recompute,
                          .folded = options->folded,
                          .separate = options->separate,
                          .dtype = options->dtype,
                          .norm_ranks = options->norm_ranks > 1 && options->mode == KAS_TAPE_TRAIN
                                            ? options->norm_ranks
                                            : 1,
                          .twin = options->twin,
                          .tape = out};
    kas_status status = describe_layers(&b);
    if (status == KAS_OK) {
        build(&b);
        status = b.status;
    }
    if (status == KAS_OK) {
        /* Logits are read after the step; the images of INFER are given once and used by
         * every run. */
        touch(out, out->logits.slot, out->ops - 1);
        if (b.mode == KAS_TAPE_INFER)
            touch(out, out->images, out->ops - 1);
        status = kas_layout_solve(out->buffer, out->slots, &out->bytes);
    }
    free(b.layer);
    if (status != KAS_OK)
        kas_tape_free(out);
    return status;
}

void kas_tape_free(kas_tape *tape)
{
    free(tape->op);
    free(tape->buffer);
    *tape = (kas_tape){0};
}
