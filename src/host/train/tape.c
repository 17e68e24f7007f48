#include "host/train/tape.h"

#include <stdlib.h>
#include <string.h>

#include "host/train/ops.h"

/* What the builder knows beside the tape itself. */
typedef struct builder {
    const kas_net *net;
    const kas_replaced *replaced;
    int batch;
    kas_tape_mode mode;
    kas_tape *tape;
    int *activation;             /* [layers] buffer of the output */
    int *readers;                /* [layers] how many layers read the output */
    int *gradient;               /* [layers] buffer of the gradient of the output; -1 = none yet */
    bool *owned;                 /* [layers] nobody else reads that buffer: it may be overwritten */
    int *saved;                  /* [layers] of a batch norm */
    int *program_saved, *pooled; /* [layers] of a replaced convolution */
    int *last;                   /* [layers] last layer of the group; itself when alone */
    int *head;                   /* [layers] batch norm of the group whose last layer it is; -1 */
    kas_status status;
} builder;

/* ---- buffers and operations -------------------------------------------------------------------
 */

static int new_slots(builder *b, int count)
{
    kas_tape *t = b->tape;
    if (t->slots + count > t->slot_capacity) {
        int capacity = 2 * (t->slots + count) + 64;
        kas_slot *grown = realloc(t->slot, sizeof *grown * (size_t)capacity);
        if (!grown) {
            b->status = kas_fail(KAS_NO_MEMORY, "no memory to plan a step");
            return -1;
        }
        t->slot = grown;
        t->slot_capacity = capacity;
    }
    for (int i = 0; i < count; i++)
        t->slot[t->slots + i] = (kas_slot){.first = 0, .last = -1};
    t->slots += count;
    return t->slots - count;
}

static int new_slot(builder *b, size_t bytes)
{
    int slot = new_slots(b, 1);
    if (slot >= 0)
        b->tape->slot[slot].bytes = bytes;
    return slot;
}

/* One tensor like the output of a layer. */
static int new_like(builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    return new_slot(b, sizeof(float) * (size_t)b->batch * (size_t)l->h * (size_t)l->w *
                           (size_t)kas_pitch(l->c));
}

static void touch(kas_tape *t, int slot, int op)
{
    if (slot < 0)
        return;
    kas_slot *s = &t->slot[slot];
    if (s->first > s->last)
        s->first = op;
    s->last = op;
}

static kas_tape_op empty(kas_tape_kind kind, int layer)
{
    return (kas_tape_op){.kind = kind,
                         .layer = layer,
                         .x = -1,
                         .x1 = -1,
                         .y = -1,
                         .dy = -1,
                         .dx = -1,
                         .last = layer,
                         .residual = -1,
                         .dx1 = -1,
                         .saved = -1,
                         .work = -1,
                         .pooled = -1,
                         .program = -1,
                         .program_saved = -1,
                         .program_scratch = -1};
}

static void append(builder *b, kas_tape_op op)
{
    kas_tape *t = b->tape;
    if (b->status != KAS_OK)
        return;
    if (t->ops == t->op_capacity) {
        int capacity = 2 * t->ops + 64;
        kas_tape_op *grown = realloc(t->op, sizeof *grown * (size_t)capacity);
        if (!grown) {
            b->status = kas_fail(KAS_NO_MEMORY, "no memory to plan a step");
            return;
        }
        t->op = grown;
        t->op_capacity = capacity;
    }
    const int slots[] = {op.x, op.x1, op.y, op.dy, op.dx, op.dx1, op.saved, op.work, op.pooled};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        touch(t, slots[i], t->ops);
    if (op.kind == KAS_TAPE_LOAD || op.kind == KAS_TAPE_LOSS)
        touch(t, t->labels, t->ops);
    for (int i = 0; op.program >= 0 && i < b->replaced->program[op.program]->buffers; i++) {
        touch(t, op.program_saved + i, t->ops);
        touch(t, op.program_scratch + i, t->ops);
    }
    t->op[t->ops++] = op;
}

/* Buffers of a program that have `role`; the others keep size 0 and are never placed. */
static int new_program_slots(builder *b, int program, kas_role role)
{
    const kas_program *p = b->replaced->program[program];
    int first = new_slots(b, p->buffers);
    for (int i = 0; first >= 0 && i < p->buffers; i++)
        if (p->buffer[i].role == role)
            b->tape->slot[first + i].bytes = p->buffer[i].bytes;
    return first;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

static void forward_replaced(builder *b, int layer, kas_tape_op *op)
{
    const kas_layer *l = &b->net->layer[layer], *in = &b->net->layer[l->in[0]];
    op->program_saved = new_program_slots(b, op->program, KAS_ROLE_SAVED);
    op->program_scratch = new_program_slots(b, op->program, KAS_ROLE_SCRATCH);
    b->program_saved[layer] = op->program_saved;
    if (l->stride > 1)
        op->pooled = new_slot(b, sizeof(float) * (size_t)b->batch * (size_t)l->h * (size_t)l->w *
                                     (size_t)kas_pitch(in->c));
    b->pooled[layer] = op->pooled;
}

/* ReLU overwrites its input where nothing else needs that: a sum's gradient uses nothing. */
static bool in_place(const builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    return l->op == KAS_LAYER_RELU && b->readers[l->in[0]] == 1 &&
           b->net->layer[l->in[0]].op == KAS_LAYER_ADD;
}

static void forward_batch_norm(builder *b, int head, int last)
{
    const kas_net *net = b->net;
    kas_tensor x = {.n = b->batch,
                    .h = net->layer[head].h,
                    .w = net->layer[head].w,
                    .c = net->layer[head].c,
                    .pitch = kas_pitch(net->layer[head].c)};
    kas_tape_op op = empty(KAS_TAPE_FORWARD, head);
    op.x = b->activation[net->layer[head].in[0]];
    op.last = last;
    op.relu = net->layer[last].op == KAS_LAYER_RELU;
    for (int i = head + 1; i <= last; i++)
        if (net->layer[i].op == KAS_LAYER_ADD && net->layer[i].in[0] == head)
            op.residual = net->layer[i].in[1];
    if (op.residual >= 0)
        op.x1 = b->activation[op.residual];
    op.y = b->activation[last] = new_like(b, last);
    op.saved = b->saved[head] = new_slot(b, sizeof(float) * 2 * (size_t)x.pitch);
    if (b->mode == KAS_TAPE_TRAIN)
        op.work = new_slot(b, sizeof(float) * kas_batch_norm_scratch(&x));
    append(b, op);
}

static void forward(builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    if (b->last[layer] != layer)
        return; /* part of a group that ends later */
    if (b->head[layer] >= 0) {
        forward_batch_norm(b, b->head[layer], layer);
        return;
    }
    kas_tape_op op = empty(KAS_TAPE_FORWARD, layer);
    op.x = b->activation[l->in[0]];
    op.x1 = l->inputs > 1 ? b->activation[l->in[1]] : -1;
    op.y = in_place(b, layer) ? op.x : new_like(b, layer);
    b->activation[layer] = op.y;
    op.program = kas_replaced_program_of_layer(b->replaced, layer);
    if (op.program >= 0)
        forward_replaced(b, layer, &op);
    append(b, op);
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* One more gradient of the output of `layer`. */
static void contribute(builder *b, int layer, int slot, bool owned)
{
    if (b->gradient[layer] < 0) {
        b->gradient[layer] = slot;
        b->owned[layer] = owned;
        return;
    }
    kas_tape_op op = empty(KAS_TAPE_SUM, layer);
    op.x = b->gradient[layer];
    op.x1 = slot;
    op.y = owned ? slot : b->owned[layer] ? op.x : new_like(b, layer);
    append(b, op);
    b->gradient[layer] = op.y;
    b->owned[layer] = true;
}

/* Gradients with respect to the images are not needed, except by programs, which always write
 * theirs. */
static bool wants_dx(const builder *b, int layer, int program)
{
    return program >= 0 || b->net->layer[b->net->layer[layer].in[0]].op != KAS_LAYER_INPUT;
}

static void backward_replaced(builder *b, int layer, kas_tape_op *op)
{
    op->program_saved = b->program_saved[layer];
    op->program_scratch = new_program_slots(b, op->program, KAS_ROLE_SCRATCH);
    if (b->pooled[layer] < 0)
        return;
    op->x = b->pooled[layer]; /* X of the program */
    op->pooled = new_slot(b, b->tape->slot[op->x].bytes);
}

/* The group of batch norm `head`, whose output is that of layer `last`. */
static void backward_batch_norm(builder *b, int head, int last)
{
    kas_tape_op op = empty(KAS_TAPE_BACKWARD, head);
    int in = b->net->layer[head].in[0];
    for (int i = 0; i < b->tape->ops; i++) /* what the forward operation found out */
        if (b->tape->op[i].kind == KAS_TAPE_FORWARD && b->tape->op[i].layer == head)
            op = b->tape->op[i];
    op.kind = KAS_TAPE_BACKWARD;
    op.x1 = -1;
    op.y = op.relu ? op.y : -1; /* for the mask */
    op.dy = b->gradient[last];
    op.work = new_slot(b, b->tape->slot[op.work].bytes);
    bool masked = op.residual >= 0 && op.relu, owned = b->owned[last];
    if (masked)
        op.dx1 = owned ? op.dy : new_like(b, last);
    /* Without a ReLU the other input's gradient is dy itself, which then has two readers. */
    op.dx = owned && op.residual < 0 ? op.dy : new_like(b, in);
    append(b, op);
    contribute(b, in, op.dx, true);
    if (masked)
        contribute(b, op.residual, op.dx1, true);
    else if (op.residual >= 0)
        contribute(b, op.residual, op.dy, false);
}

static void backward(builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    kas_tape_op op = empty(KAS_TAPE_BACKWARD, layer);
    op.dy = b->gradient[layer];
    if (op.dy < 0)
        return; /* nothing that is learned reads it, or part of a group */
    if (b->head[layer] >= 0) {
        backward_batch_norm(b, b->head[layer], layer);
        return;
    }
    if (l->op == KAS_LAYER_ADD) {
        contribute(b, l->in[0], op.dy, false);
        contribute(b, l->in[1], op.dy, false);
        return;
    }
    op.program = kas_replaced_program_of_layer(b->replaced, layer);
    if (l->op == KAS_LAYER_RELU)
        op.y = b->activation[layer];
    if (l->op == KAS_LAYER_CONV || l->op == KAS_LAYER_LINEAR)
        op.x = b->activation[l->in[0]];
    if (op.program >= 0)
        backward_replaced(b, layer, &op);
    bool reuse = l->op == KAS_LAYER_RELU && b->owned[layer];
    if (wants_dx(b, layer, op.program))
        op.dx = reuse ? op.dy : new_like(b, l->in[0]);
    append(b, op);
    if (op.dx >= 0)
        contribute(b, l->in[0], op.dx, true);
}

/* ---- the whole --------------------------------------------------------------------------------
 */

enum { ARRAYS = 8 };

static kas_status allocate(builder *b)
{
    size_t n = (size_t)b->net->layers;
    int *numbers = malloc(sizeof *numbers * n * ARRAYS);
    b->owned = calloc(n, sizeof *b->owned);
    b->activation = numbers; /* the first of several arrays in one allocation */
    if (!numbers || !b->owned)
        return kas_fail(KAS_NO_MEMORY, "no memory to plan a step of %d layers", b->net->layers);
    for (size_t i = 0; i < ARRAYS * n; i++)
        numbers[i] = -1;
    b->readers = numbers + n;
    b->gradient = numbers + 2 * n;
    b->saved = numbers + 3 * n;
    b->program_saved = numbers + 4 * n;
    b->pooled = numbers + 5 * n;
    b->last = numbers + 6 * n;
    b->head = numbers + 7 * n;
    memset(b->readers, 0, sizeof *b->readers * n);
    for (int i = 1; i < b->net->layers; i++)
        for (int k = 0; k < b->net->layer[i].inputs; k++)
            b->readers[b->net->layer[i].in[k]]++;
    return KAS_OK;
}

/* The only reader of layer i's output, if it is of kind `op` and has it as first input; or -1. */
static int only_reader(const builder *b, int i, kas_layer_op op)
{
    if (b->readers[i] != 1)
        return -1;
    for (int r = i + 1; r < b->net->layers; r++)
        if (b->net->layer[r].op == op && b->net->layer[r].in[0] == i)
            return r;
    return -1;
}

/* Batch norm [+ sum] [+ ReLU] become groups. */
static void find_groups(builder *b)
{
    for (int i = 0; i < b->net->layers; i++)
        b->last[i] = i;
    for (int i = 1; i < b->net->layers; i++) {
        if (b->net->layer[i].op != KAS_LAYER_BATCH_NORM)
            continue;
        int sum = only_reader(b, i, KAS_LAYER_ADD);
        int relu = only_reader(b, sum >= 0 ? sum : i, KAS_LAYER_RELU);
        int last = relu >= 0 ? relu : sum >= 0 ? sum : i;
        b->last[i] = last;
        if (sum >= 0)
            b->last[sum] = last;
        b->head[last] = i;
    }
}

static void build(builder *b)
{
    kas_tape *t = b->tape;
    int last = b->net->layers - 1;
    find_groups(b);
    t->images = b->activation[0] = new_like(b, 0);
    t->labels = new_slot(b, sizeof(uint16_t) * (size_t)b->batch);
    if (b->mode != KAS_TAPE_INFER) {
        kas_tape_op load = empty(KAS_TAPE_LOAD, -1);
        load.y = t->images;
        append(b, load);
    }
    for (int i = 1; i <= last; i++)
        forward(b, i);
    t->logits = b->activation[last];
    if (b->mode == KAS_TAPE_INFER)
        return;
    kas_tape_op loss = empty(KAS_TAPE_LOSS, -1);
    loss.x = t->logits;
    loss.work = new_slot(b, sizeof(float) * 2 * (size_t)b->batch);
    if (b->mode == KAS_TAPE_TRAIN)
        loss.dx = new_like(b, last);
    append(b, loss);
    if (b->mode == KAS_TAPE_EVALUATE)
        return;
    contribute(b, last, loss.dx, true);
    for (int i = last; i > 0; i--)
        backward(b, i);
    append(b, empty(KAS_TAPE_UPDATE, -1));
}

kas_status kas_tape_build(const kas_net *net, const kas_replaced *replaced, int batch,
                          kas_tape_mode mode, kas_tape *out)
{
    *out = (kas_tape){0};
    builder b = {.net = net, .replaced = replaced, .batch = batch, .mode = mode, .tape = out};
    KAS_TRY(kas_net_runnable(net));
    kas_status status = allocate(&b);
    if (status == KAS_OK) {
        build(&b);
        status = b.status;
    }
    if (status == KAS_OK) {
        /* Logits are read after the step; images of INFER are given once and used by every run. */
        touch(out, out->logits, out->ops - 1);
        if (mode == KAS_TAPE_INFER)
            touch(out, out->images, out->ops - 1);
        status = kas_layout_solve(out->slot, out->slots, &out->bytes);
    }
    free(b.activation);
    free(b.owned);
    if (status != KAS_OK)
        kas_tape_free(out);
    return status;
}

void kas_tape_free(kas_tape *tape)
{
    free(tape->op);
    free(tape->slot);
    *tape = (kas_tape){0};
}
