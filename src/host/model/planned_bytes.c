#include "host/model/planned_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/model/model_impl.h"

typedef struct counter {
    const kas_model *m;
    const kas_tape *tape;
    kas_tape_mode mode;
    kas_planned_bytes *out;
    int operation;     /* the operation of the tape that is counted now */
    kas_status status; /* the first failure; later calls then do nothing */
} counter;

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Returns the bytes of a tensor with the shape of `layer`. */
static double tensor_of(const counter *c, int layer, kas_dtype dtype)
{
    const kas_layer *l = &c->m->net->layer[layer];
    return (double)kas_dtype_size(dtype) * c->m->batch * l->h * l->w * l->c;
}

/* Returns the bytes of a tensor like the output of `layer`. */
static double tensor(const counter *c, int layer)
{
    return tensor_of(c, layer, c->m->dtype);
}

/* Returns the bytes of a tensor with the shape of `layer` at `place`: 0 when there is no place. */
static double at(const counter *c, kas_place place, int layer)
{
    return place.slot < 0 ? 0 : tensor_of(c, layer, place.dtype);
}

static double slot(const counter *c, int number)
{
    return number < 0 ? 0 : (double)c->tape->buffer[number].bytes;
}

static double weights(const counter *c, int layer, kas_dtype dtype)
{
    return (double)kas_dtype_size(dtype) * kas_layer_params(c->m->net, layer);
}

/* Adds a pass and returns it; NULL after a failure. */
static kas_sweep *pass(counter *c, const char *what, int layer, double bytes)
{
    kas_planned_bytes *t = c->out;
    if (c->status != KAS_OK)
        return NULL;
    if (!KAS_GROW(t->pass, t->passes)) {
        c->status = kas_fail(KAS_NO_MEMORY, "no memory to count the bytes of a step");
        return NULL;
    }
    t->pass[t->passes] = (kas_sweep){
        .what = what, .layer = layer, .operation = c->operation, .bytes = bytes, .seconds = NAN};
    t->bytes += bytes;
    return &t->pass[t->passes++];
}

/* Adds a pass of a layer's convolution; NULL: no memory. */
static kas_sweep *conv_pass(counter *c, kas_conv_pass number, const char *what, int layer,
                            double bytes, kas_dtype dtype)
{
    kas_sweep *s = pass(c, what, layer, bytes);
    if (!s)
        return NULL;
    s->library = true;
    s->conv = kas_layer_conv_desc(c->m->net, layer, c->m->batch, dtype);
    s->conv.tf32 = c->m->tf32;
    s->conv_pass = number;
    return s;
}

/* Adds the pass that combines what a batch norm's chunks of rows found: a thread has the loads of
 * all chunks of its team under way at once. */
static void combine_pass(counter *c, int layer, double bytes)
{
    kas_sweep *s = pass(c, "batch norm combine", layer, bytes);
    if (s)
        s->rounds = 1;
}

/* Returns the bytes of one of the network's own tensors, with all pieces of the batch; 0 of others. */
static double bytes_of_network(const kas_program *p, int buffer)
{
    const kas_buffer *b = &p->buffer[buffer];
    const bool shared = b->role == KAS_ROLE_X || b->role == KAS_ROLE_Y || b->role == KAS_ROLE_DX ||
                        b->role == KAS_ROLE_DY;
    return shared ? (double)b->bytes : 0;
}

kas_sweep kas_sweep_of(const char *what, int layer, const kas_program *p, const kas_operation *op)
{
    kas_sweep s = {.what = what, .layer = layer, .operation = -1, .seconds = NAN, .kernel = op};
    s.bytes = op->bytes * op->times;
    s.far = op->effort.far * op->times;
    s.library = op->kind == KAS_OPERATION_CONV;
    if (s.library)
        s.far =
            bytes_of_network(p, op->x) + bytes_of_network(p, op->w) + bytes_of_network(p, op->y);
    s.far = fmin(s.far, s.bytes);
    s.conv = op->conv;
    s.conv_pass = op->pass;
    s.held = !p->training && s.library && p->buffer[op->w].role == KAS_ROLE_WEIGHT;
    return s;
}

/* Adds a launch of a program in the place of `layer`; NULL: no memory. */
static kas_sweep *kernel_pass(counter *c, const char *what, int layer, const kas_program *p,
                              const kas_operation *op)
{
    kas_sweep *s = pass(c, what, layer, op->bytes * op->times);
    if (!s)
        return NULL;
    *s = kas_sweep_of(what, layer, p, op);
    s->operation = c->operation;
    return s;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Adds the library's convolution of a program with the group behind it. */
static void folded_pass(counter *c, const kas_tape_op *op, const kas_program *p)
{
    kas_sweep *s =
        kernel_pass(c, "kernel forward with norm", op->layer, p, &p->forward[p->fold.operation]);
    if (!s)
        return;
    const double residual = at(c, op->x1, op->residual);
    s->bytes += residual;
    s->far += residual;
    c->out->bytes += residual;
    s->activated = op->activation != KAS_ACTIVATION_NONE;
    s->held = true;
}

/* Counts a kernel in the place of a convolution, and the pool in front of it that takes
 * the stride. */
static void program(counter *c, const kas_tape_op *op, bool backward, double x)
{
    const kas_program *p = c->m->programs->program[op->program];
    const int count = backward ? p->backwards : p->forwards;
    if (!backward && op->pools)
        pass(c, "stride pool forward", op->layer, x + slot(c, op->pooled));
    for (int i = 0; i < count; i++)
        if (op->epilogue >= 0 && i == p->written_by)
            kernel_pass(c, "kernel forward with norm", op->layer, p,
                        &p->epilogue_kernel[op->epilogue]);
        else if (!backward && op->norm >= 0 && op->epilogue < 0 && i == p->fold.operation)
            folded_pass(c, op, p);
        else if (!backward && op->norm >= 0 && op->epilogue < 0 && i == p->fold.scaling)
            continue; /* the folded weights have the gain */
        else
            kernel_pass(c, backward ? "kernel backward" : "kernel forward", op->layer, p,
                        &(backward ? p->backward : p->forward)[i]);
    if (backward && op->pooled >= 0)
        pass(c, "stride pool backward", op->layer, x + slot(c, op->pooled));
}

static void conv_forward(counter *c, const kas_tape_op *op, double bytes)
{
    const char *what = op->norm >= 0 ? "convolution forward with norm" : "convolution forward";
    kas_sweep *s = conv_pass(c, KAS_CONV_FORWARD, what, op->layer, bytes, op->y.dtype);
    if (s)
        s->activated = op->norm >= 0 && op->activation != KAS_ACTIVATION_NONE;
}

static void forward(counter *c, const kas_tape_op *op)
{
    const kas_layer *l = &c->m->net->layer[op->layer];
    const double x = at(c, op->x, l->in[0]), y = at(c, op->y, op->last);
    const double x1 = at(c, op->x1, op->residual >= 0 ? op->residual : l->in[l->inputs - 1]);
    if (op->program >= 0) {
        program(c, op, false, x);
        return;
    }
    switch (l->op) {
    case KAS_LAYER_CONV:
    case KAS_LAYER_LINEAR:
        conv_forward(c, op, x + weights(c, op->layer, op->y.dtype) + x1 + y);
        if (l->bias && op->norm < 0)
            pass(c, "bias forward", op->layer, 2 * y);
        break;
    case KAS_LAYER_BATCH_NORM:
        if (c->mode == KAS_TAPE_TRAIN) {
            pass(c, "batch norm statistics", op->layer, x + slot(c, op->work));
            combine_pass(c, op->layer, slot(c, op->work));
        }
        pass(c, "batch norm normalise", op->layer, x + x1 + y);
        break;
    case KAS_LAYER_LAYER_NORM:
        pass(c, "layer norm forward", op->layer, x + y + slot(c, op->saved));
        break;
    case KAS_LAYER_MAX_POOL:
        pass(c, "pool forward", op->layer, x + y + slot(c, op->saved));
        break;
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
        pass(c, "pool forward", op->layer, x + y);
        break;
    case KAS_LAYER_SHORTCUT_A: /* only the pixels that are kept are read */
        pass(c, "shortcut forward", op->layer, x / ((double)l->stride * l->stride) + y);
        break;
    default:
        pass(c, "element-wise forward", op->layer, x + x1 + y);
    }
}

static void conv_backward(counter *c, const kas_tape_op *op, double x, double dy)
{
    const kas_layer *l = &c->m->net->layer[op->layer];
    const double w = weights(c, op->layer, op->dy.dtype);
    if (l->bias)
        pass(c, "bias backward", op->layer, dy + 2 * slot(c, op->work));
    conv_pass(c, KAS_CONV_BACKWARD_WEIGHTS, "convolution backward, weights", op->layer,
              x + dy + weights(c, op->layer, KAS_F32), op->dy.dtype);
    if (op->dx.slot >= 0)
        conv_pass(c, KAS_CONV_BACKWARD_DATA, "convolution backward, data", op->layer, dy + w + x,
                  op->dy.dtype);
}

static void norm_backward(counter *c, const kas_tape_op *op, double x, double dy)
{
    const bool batch = c->m->net->layer[op->layer].op == KAS_LAYER_BATCH_NORM;
    const double y = at(c, op->y, op->last), dy1 = at(c, op->dy1, op->last),
                 g = at(c, op->dx1, op->last);
    if (!batch) {
        pass(c, "layer norm backward", op->layer, 2 * x + dy + slot(c, op->saved));
        pass(c, "layer norm reduction", op->layer, x + dy + slot(c, op->work));
        return;
    }
    pass(c, "batch norm reduction", op->layer, x + dy + dy1 + y + g + slot(c, op->work));
    combine_pass(c, op->layer, slot(c, op->work));
    pass(c, "batch norm backward", op->layer, 2 * x + dy + at(c, op->base, op->layer));
}

static void backward(counter *c, const kas_tape_op *op)
{
    const kas_layer *l = &c->m->net->layer[op->layer];
    const double x = tensor_of(c, l->in[0], op->dy.dtype), dy = at(c, op->dy, op->last);
    if (op->program >= 0) {
        program(c, op, true, x);
        return;
    }
    switch (l->op) {
    case KAS_LAYER_CONV:
    case KAS_LAYER_LINEAR:
        conv_backward(c, op, x, dy);
        break;
    case KAS_LAYER_BATCH_NORM:
    case KAS_LAYER_LAYER_NORM:
        norm_backward(c, op, x, dy);
        break;
    case KAS_LAYER_MULTIPLY: { /* the other factor's gradient, then this one's */
        const double x1 = tensor(c, l->in[1]);
        pass(c, "element-wise backward", op->layer, dy + x + x1);
        pass(c, "element-wise backward", op->layer, dy + x1 + x);
        break;
    }
    case KAS_LAYER_MAX_POOL:
        pass(c, "pool backward", op->layer, dy + x + slot(c, op->saved));
        break;
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
        pass(c, "pool backward", op->layer, dy + x);
        break;
    case KAS_LAYER_SHORTCUT_A:
        pass(c, "shortcut backward", op->layer, dy + x);
        break;
    default: /* activations read the tensor that they kept */
        pass(c, "element-wise backward", op->layer,
             dy + x + at(c, op->x, l->in[0]) + at(c, op->y, op->last));
    }
}

/* Returns the bytes of the optimiser: everything that it keeps is read and written, the gradient
 * is read. */
static double optimiser(const counter *c)
{
    const kas_model *m = c->m;
    const double learned = sizeof(float) * (double)m->params.learned,
                 statistics = sizeof(float) * (double)m->params.statistics;
    double bytes = learned * (1 + 2 * (m->adamw ? 3 : 2)) + learned / KAS_UPDATE_GROUP;
    if (m->dtype != KAS_F32)
        bytes += (double)kas_dtype_size(m->dtype) * (double)m->params.learned;
    if (m->averaged)
        bytes += 3 * (learned + statistics);
    return bytes;
}

static void operation(counter *c, const kas_tape_op *op)
{
    const int last = c->m->net->layers - 1;
    const kas_layer *in = &c->m->net->layer[0];
    switch (op->kind) {
    case KAS_TAPE_LOAD:
        pass(c, "load", -1, (double)c->m->batch * in->h * in->w * in->c + at(c, op->y, 0));
        break;
    case KAS_TAPE_FORWARD:
        forward(c, op);
        break;
    case KAS_TAPE_AGAIN:
        pass(c, "batch norm again", op->layer, tensor(c, op->layer) + tensor(c, op->last));
        break;
    case KAS_TAPE_COMPARE: {
        const double y = at(c, op->x, op->layer);
        pass(c, "difference", op->layer, 3 * y);
        pass(c, "statistics of the difference", op->layer, y);
        pass(c, "statistics of the target", op->layer, y);
        if (op->dx.slot >= 0)
            pass(c, "gradient of the difference", op->layer, 2 * y);
        break;
    }
    case KAS_TAPE_LOSS:
        pass(c, "loss", -1, at(c, op->x, last) + at(c, op->dx, last) + 2 * slot(c, op->work));
        break;
    case KAS_TAPE_BACKWARD:
        backward(c, op);
        break;
    case KAS_TAPE_SUM:
        pass(c, "sum of gradients", op->layer, 3 * at(c, op->x, op->layer));
        break;
    case KAS_TAPE_COPY:
        pass(c, "copy", op->layer, 2 * at(c, op->x, op->layer));
        break;
    case KAS_TAPE_CAST:
        pass(c, "cast", op->layer, at(c, op->x, op->layer) + at(c, op->y, op->layer));
        break;
    case KAS_TAPE_UPDATE:
        if (c->m->clipped || kas_model_scales(c->m))
            pass(c, "length of the gradient", -1, sizeof(float) * (double)c->m->params.learned);
        pass(c, "optimiser", -1, optimiser(c));
        break;
    }
}

/* ---- the floor ------------------------------------------------------------------------------- */

/* Returns the bytes of a buffer that a program shares with the rest of the step; 0 for its
 * own buffers. */
static double shared_bytes(const kas_program *p, const kas_buffer *b, kas_dtype dtype)
{
    const kas_target *t = &p->target;
    const double images = (double)kas_dtype_size(dtype) * p->batch, pixels = images * t->h * t->w;
    switch (b->role) {
    case KAS_ROLE_X:
    case KAS_ROLE_DX:
        return images * p->x_h * p->x_w * t->c_in;
    case KAS_ROLE_Y:
    case KAS_ROLE_DY:
        return pixels * t->c_out;
    case KAS_ROLE_WEIGHT:
    case KAS_ROLE_DWEIGHT:
        return (double)kas_dtype_size(b->dtype) * (double)p->weight[b->index].elements;
    default:
        return 0;
    }
}

static bool operation_touches(const kas_operation *op, int buffer)
{
    if (op->kind == KAS_OPERATION_CONV)
        return op->x == buffer || op->w == buffer || op->y == buffer;
    for (int i = 0; i < op->args; i++)
        if (op->arg[i] == buffer)
            return true;
    return false;
}

/* Adds the floor of a kernel's pass in a convolution's place: the shared tensors that
 * it touches. */
static void program_floor(counter *c, const kas_program *p, bool backward)
{
    const kas_operation *op = backward ? p->backward : p->forward;
    const int count = backward ? p->backwards : p->forwards;
    for (int b = 0; b < p->buffers; b++) {
        bool touched = false;
        for (int i = 0; i < count && !touched; i++)
            touched = operation_touches(&op[i], b);
        if (touched)
            c->out->floor_bytes += shared_bytes(p, &p->buffer[b], c->m->dtype);
    }
    for (int i = 0; i < count; i++)
        c->out->floor_flops += op[i].flops * op[i].times;
}

/* Returns the bytes of a layer's input. Images are stored as bytes, except that inference is
 * given numbers. */
static double input_of(const counter *c, int layer)
{
    const kas_layer *in = &c->m->net->layer[0];
    const int from = c->m->net->layer[layer].in[0];
    if (from == 0 && c->mode != KAS_TAPE_INFER)
        return (double)c->m->batch * in->h * in->w * in->c;
    return tensor(c, from);
}

static void map_floor(counter *c, int layer, bool gradient_of_x)
{
    const int number = kas_programs_of_layer(c->m->programs, layer);
    const bool training = c->mode == KAS_TAPE_TRAIN;
    if (number >= 0) {
        const kas_program *p = c->m->programs->program[number];
        program_floor(c, p, false);
        if (training)
            program_floor(c, p, true);
        return;
    }
    const double x = input_of(c, layer), y = tensor(c, layer);
    const double w = weights(c, layer, c->m->dtype);
    c->out->floor_bytes += x + w + y;
    if (training)
        c->out->floor_bytes += x + y + w + weights(c, layer, KAS_F32) + (gradient_of_x ? x : 0);
    c->out->floor_flops += kas_layer_multiply_adds(c->m->net, layer) * c->m->batch *
                           (training ? 2 + gradient_of_x : 1);
}

/* Adds the floors of all layers. learns[i] says that there are parameters before layer i's output,
 * so that its gradient is needed. */
static void floors(counter *c, bool *learns, int *readers)
{
    const kas_net *net = c->m->net;
    const bool training = c->mode == KAS_TAPE_TRAIN;
    for (int i = 1; i < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        const bool norm = l->op == KAS_LAYER_BATCH_NORM || l->op == KAS_LAYER_LAYER_NORM;
        learns[i] = kas_layer_is_linear(l) || norm;
        for (int k = 0; k < l->inputs; k++) {
            learns[i] |= learns[l->in[k]];
            readers[l->in[k]]++;
        }
        if (kas_layer_is_linear(l))
            map_floor(c, i, learns[l->in[0]]);
        if (l->op == KAS_LAYER_ADD || l->op == KAS_LAYER_MULTIPLY)
            c->out->floor_bytes += tensor(c, l->in[1]);
        if (norm && training)
            c->out->floor_bytes += input_of(c, i);
    }
    for (int i = 1; i < net->layers; i++)
        if (training && learns[i] && readers[i] > 1)
            c->out->floor_bytes += (readers[i] - 1) * tensor(c, i);
    if (training)
        c->out->floor_bytes += optimiser(c);
}

static void count_floor(counter *c)
{
    const size_t layers = (size_t)c->m->net->layers;
    bool *learns = calloc(layers, sizeof *learns);
    int *readers = calloc(layers, sizeof *readers);
    if (learns && readers)
        floors(c, learns, readers);
    else if (c->status == KAS_OK)
        c->status = kas_fail(KAS_NO_MEMORY, "no memory to count the bytes of a step");
    free(learns);
    free(readers);
}

/* ---- the whole ------------------------------------------------------------------------------- */

kas_status kas_planned_bytes_count(const kas_model *model, kas_tape_mode mode,
                                   kas_planned_bytes *out)
{
    *out = (kas_planned_bytes){0};
    counter c = {.m = model, .tape = &model->tape[mode], .mode = mode, .out = out};
    if (mode == KAS_TAPE_TRAIN && !model->training)
        return kas_fail(KAS_FAILURE, "a model for inference has no training step");
    for (c.operation = 0; c.operation < c.tape->ops; c.operation++)
        operation(&c, &c.tape->op[c.operation]);
    count_floor(&c);
    if (c.status != KAS_OK)
        kas_planned_bytes_free(out);
    return c.status;
}

kas_status kas_planned_bytes_plan(const kas_model_options *options, kas_tape_mode mode,
                                  kas_planned_bytes *out)
{
    kas_model model = {0};
    *out = (kas_planned_bytes){0};
    kas_status status = kas_model_describe(&model, options);
    if (status == KAS_OK)
        status = kas_planned_bytes_count(&model, mode, out);
    kas_model_forget(&model);
    return status;
}

void kas_planned_bytes_free(kas_planned_bytes *planned)
{
    free(planned->pass);
    *planned = (kas_planned_bytes){0};
}

/* ---- measured times -------------------------------------------------------------------------- */

static bool is_bias(const kas_sweep *pass)
{
    return strncmp(pass->what, "bias", 4) == 0;
}

static int times_of(const kas_sweep *pass)
{
    return pass->kernel ? pass->kernel->times : 1;
}

/* Gives each pass its launches: those of a batch in pieces come piece by piece. */
static void give_each(kas_sweep *pass, int passes, const double *seconds)
{
    for (int i = 0, end; i < passes; i = end) {
        const int times = times_of(&pass[i]);
        for (end = i; end < passes && times_of(&pass[end]) == times; end++)
            pass[end].seconds = 0;
        for (int t = 0; t < times; t++)
            for (int k = i; k < end; k++)
                pass[k].seconds += *seconds++;
    }
}

/* Gives the passes of one operation the times of its launches. */
static void give(kas_sweep *pass, int passes, const double *seconds, int launches)
{
    double sum = 0;
    int biases = 0, largest = 0, all = 0;
    for (int i = 0; i < launches; i++)
        sum += seconds[i];
    for (int i = 0; i < passes; i++) {
        biases += is_bias(&pass[i]);
        all += times_of(&pass[i]);
        largest = pass[i].bytes > pass[largest].bytes ? i : largest;
    }
    if (launches == all) {
        give_each(pass, passes, seconds);
    } else if (launches == passes - biases) {
        for (int i = 0, next = 0; i < passes; i++)
            if (!is_bias(&pass[i]))
                pass[i].seconds = seconds[next++];
    } else if (launches > 0) {
        pass[largest].seconds = sum;
    }
}

/* Passes of one operation are adjacent, and so are its launches. */
double kas_planned_bytes_give(kas_planned_bytes *t, const int *mark, const double *seconds)
{
    double given = 0;
    for (int i = 0; i < t->passes;) {
        const int operation = t->pass[i].operation, begin = mark[operation];
        int end = i;
        while (end < t->passes && t->pass[end].operation == operation)
            end++;
        give(&t->pass[i], end - i, &seconds[begin], mark[operation + 1] - begin);
        for (; i < end; i++)
            given += isnan(t->pass[i].seconds) ? 0 : t->pass[i].seconds;
    }
    return given;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static int larger_first(const void *a, const void *b)
{
    const kas_sweep_kind *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

int kas_planned_bytes_kinds(const kas_planned_bytes *planned, kas_sweep_kind kinds[KAS_SWEEP_KINDS])
{
    int count = 0;
    for (int i = 0; i < planned->passes; i++) {
        const kas_sweep *p = &planned->pass[i];
        int k = 0;
        while (k < count && strcmp(kinds[k].what, p->what) != 0)
            k++;
        if (k == KAS_SWEEP_KINDS)
            continue; /* there are far fewer kinds */
        if (k == count)
            kinds[count++] = (kas_sweep_kind){p->what, 0, 0, 0};
        kinds[k].passes++;
        kinds[k].bytes += p->bytes;
        kinds[k].seconds += isnan(p->seconds) ? 0 : p->seconds;
    }
    qsort(kinds, (size_t)count, sizeof *kinds, larger_first);
    return count;
}
