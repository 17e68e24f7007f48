#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/interpret/engine.h"
#include "host/model/params.h"

void kas_interpret_memory_free(kas_interpret_memory *memory)
{
    free(memory->block);
    *memory = (kas_interpret_memory){0};
}

size_t kas_interpret_elements(const kas_interpreter *p, int layer)
{
    const kas_layer *l = &p->options.net->layer[layer];
    return (size_t)p->options.batch * (size_t)l->c * (size_t)l->h * (size_t)l->w;
}

/* ---- weights --------------------------------------------------------------------------------- */

static void add_weight(kas_interpreter *p, kas_interpret_weight weight)
{
    weight.at = p->values;
    p->values += weight.size;
    p->weight[p->weights++] = weight;
}

/* The initial values are those of model/params.c: He's for convolutions, PyTorch's for linear
 * layers, unit gain for kernels. */
static void add_linear(kas_interpreter *p, int i)
{
    const kas_layer *l = &p->options.net->layer[i];
    const bool conv = l->op == KAS_LAYER_CONV;
    const size_t in = (size_t)(p->options.net->layer[l->in[0]].c / (conv ? l->groups : 1));
    const size_t taps = conv ? (size_t)(l->kernel_h * l->kernel_w) : 1;
    const double bound = 1 / sqrt((double)in);
    add_weight(
        p, (kas_interpret_weight){.layer = i,
                                  .uniform = !conv,
                                  .scale = conv ? sqrt(2 / (double)((size_t)l->c * taps)) : bound,
                                  .size = (size_t)l->c * in * taps});
    if (l->bias)
        add_weight(p, (kas_interpret_weight){.layer = i,
                                             .slot = 1,
                                             .bias = true,
                                             .uniform = true,
                                             .scale = conv ? 0 : bound,
                                             .size = (size_t)l->c});
}

static kas_status add_kernel(kas_interpreter *p, int i)
{
    const kas_target *t = &p->options.replacement->target[p->target[i]];
    const kas_steps *steps = &p->steps[p->target[i]];
    for (int k = 0; k < steps->count; k++) {
        const kas_step *s = &steps->step[k];
        if (s->weight < 0)
            continue;
        const bool factor = s->op == KAS_OP_SCALE;
        add_weight(p, (kas_interpret_weight){.layer = i,
                                             .slot = s->weight,
                                             .factor = factor,
                                             .scale = factor ? 1 : 1 / sqrt((double)s->fan_in),
                                             .size = (size_t)t->parts_in * t->parts_out *
                                                     s->groups * s->fan_out * s->fan_in});
    }
    return KAS_OK;
}

static kas_status find_weights(kas_interpreter *p)
{
    const kas_net *net = p->options.net;
    size_t most = 2 * (size_t)net->layers;
    const int targets = p->options.replacement ? p->options.replacement->solution.targets : 0;
    for (int t = 0; t < targets; t++)
        most += (size_t)p->steps[t].weights;
    p->weight = calloc(most, sizeof *p->weight);
    p->first = calloc((size_t)net->layers + 1, sizeof *p->first);
    if (!p->weight || !p->first)
        return kas_fail(KAS_NO_MEMORY, "no memory for the weights of %s", net->name);
    for (int i = 0; i < net->layers; i++) {
        p->first[i] = p->weights;
        if (p->target[i] >= 0)
            KAS_TRY(add_kernel(p, i));
        else if (kas_layer_is_linear(&net->layer[i]))
            add_linear(p, i);
    }
    p->first[net->layers] = p->weights;
    return KAS_OK;
}

/* The values of linear layers and factors, of which there are few. */
static kas_status draw_others(kas_interpreter *p, const kas_interpret_weight *w, uint64_t seed)
{
    const kas_param param = {.layer = w->layer,
                             .slot = w->slot,
                             .size = w->size,
                             .init =
                                 w->uniform && w->scale > 0 ? KAS_INIT_UNIFORM : KAS_INIT_CONSTANT,
                             .scale = w->scale};
    float *values = malloc(sizeof *values * w->size);
    if (!values)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu weights", w->size);
    kas_param_init(&param, seed, values);
    p->engine->store((char *)p->value + w->at * p->engine->size, values, w->size, 1);
    free(values);
    return KAS_OK;
}

kas_status kas_interpret_draw(kas_interpreter *p, uint64_t seed, kas_interpret_init how,
                              kas_normals *normals)
{
    for (int i = 0; i < p->weights; i++) {
        const kas_interpret_weight *w = &p->weight[i];
        const float *drawn;
        if (w->uniform || w->factor) {
            KAS_TRY(draw_others(p, w, seed));
            continue;
        }
        KAS_TRY(kas_normals_get(normals, seed, w->layer, w->slot, w->size, &drawn));
        p->engine->store((char *)p->value + w->at * p->engine->size, drawn, w->size,
                         how == KAS_INTERPRET_UNIT ? 1 : w->scale);
    }
    if (how == KAS_INTERPRET_POSITIVE)
        p->engine->positive(p->value, p->values);
    return KAS_OK;
}

static bool is_norm(const kas_layer *l)
{
    return l->op == KAS_LAYER_BATCH_NORM || l->op == KAS_LAYER_LAYER_NORM;
}

/* Copies the tensor of a parameter to `at`, if the file has it in the same shape; else the values that
 * a training begins with, if `begin`. */
static kas_status load(const kas_interpreter *p, const kas_safetensors *file,
                       const kas_param *param, bool begin, void *at)
{
    const kas_named_tensor *t = kas_safetensors_find(file, param->name);
    bool fits = t && kas_dtype_is_real(t->dtype) && t->rank == param->rank;
    for (int i = 0; fits && i < param->rank; i++)
        fits = t->shape[i] == param->shape[i];
    if (!fits && !begin)
        return KAS_OK;
    float *values = malloc(sizeof *values * param->size);
    if (!values)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu weights", param->size);
    if (!fits)
        kas_param_init(param, 0, values);
    for (size_t i = 0; fits && i < param->size; i++)
        values[i] = (float)kas_named_tensor_get(t, i);
    p->engine->store(at, values, param->size, 1);
    free(values);
    return KAS_OK;
}

static kas_status load_all(kas_interpreter *p, const kas_safetensors *file,
                           const kas_params *params)
{
    const size_t size = p->engine->size;
    for (int i = 0; i < p->weights; i++) {
        const kas_interpret_weight *w = &p->weight[i];
        if (p->target[w->layer] >= 0)
            continue;
        const kas_param *param = &params->param[kas_params_find(params, w->layer, w->slot)];
        KAS_TRY(load(p, file, param, false, (char *)p->value + w->at * size));
    }
    for (int i = 0; i < p->options.net->layers; i++) {
        const size_t at = p->norm[i] * size;
        if (!is_norm(&p->options.net->layer[i]))
            continue;
        const kas_param *factor = &params->param[kas_params_find(params, i, 0)];
        const kas_param *offset = &params->param[kas_params_find(params, i, 1)];
        KAS_TRY(load(p, file, factor, true, (char *)p->factor + at));
        KAS_TRY(load(p, file, offset, true, (char *)p->offset + at));
    }
    p->loaded = true;
    return KAS_OK;
}

kas_status kas_interpret_load(kas_interpreter *p, const kas_safetensors *file)
{
    kas_params params;
    KAS_TRY(kas_params_build(p->options.net, NULL, &params));
    const kas_status status = load_all(p, file, &params);
    kas_params_free(&params);
    return status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Gives places in a block: first counted, then handed out. */
typedef struct placer {
    char *block;
    size_t bytes, size; /* size: of a number */
} placer;

static void *give_bytes(placer *at, size_t bytes)
{
    void *given = at->block ? at->block + at->bytes : NULL;
    at->bytes += (bytes + 63) & ~(size_t)63;
    return given;
}

static void *give(placer *at, size_t numbers)
{
    return give_bytes(at, numbers * at->size);
}

/* The elements that a convolution of the network needs of kas_interpreter.work, half of it for
 * gradients of weights. */
static size_t conv_work(const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i];
    const size_t in = (size_t)net->layer[l->inputs ? l->in[0] : 0].c;
    const size_t area = (size_t)l->h * (size_t)l->w;
    if (l->op == KAS_LAYER_LINEAR)
        return in * (size_t)l->c;
    if (l->op == KAS_LAYER_LAYER_NORM)
        return 4 * area;
    return l->op == KAS_LAYER_CONV
               ? 2 * in / (size_t)l->groups * (size_t)(l->kernel_h * l->kernel_w) * area
               : 0;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void give_kernels(kas_interpreter *p, placer *at)
{
    const kas_replacement *r = p->options.replacement;
    size_t scratch = 0, pooled = 0, work = 0;
    for (int i = 0; i < p->options.net->layers; i++) {
        work = larger(work, conv_work(p->options.net, i));
        if (p->target[i] < 0)
            continue;
        const kas_steps *steps = &p->steps[p->target[i]];
        const kas_target *t = &r->target[p->target[i]];
        scratch = larger(scratch, steps->elements);
        work = larger(work, 2 * steps->work);
        if (t->stride > 1)
            pooled =
                larger(pooled, (size_t)p->options.batch * t->parts_in * steps->step[0].elements);
    }
    p->scratch = give(at, scratch);
    p->scratch_grad = p->options.backward ? give(at, scratch) : NULL;
    p->pooled = give(at, 2 * pooled);
    p->work = give(at, work);
}

static void give_layers(kas_interpreter *p, placer *at)
{
    const kas_net *net = p->options.net;
    size_t largest = 0, channels = 0;
    for (int i = 0; i < net->layers; i++) {
        const size_t size = kas_interpret_elements(p, i);
        largest = larger(largest, size);
        p->act[i] = give(at, size);
        p->grad[i] = p->options.backward ? give(at, size) : NULL;
        p->norm[i] = channels;
        channels += is_norm(&net->layer[i]) ? (size_t)net->layer[i].c : 0;
    }
    p->mean = give(at, channels);
    p->rstd = give(at, channels);
    p->factor = give(at, channels);
    p->offset = give(at, channels);
    p->pieces = p->options.backward ? give(at, largest) : NULL;
    p->value = give(at, p->values);
    p->slope = p->options.weight_gradients ? give(at, p->values) : NULL;
}

static void give_signs(kas_interpreter *p, placer *at)
{
    const kas_net *net = p->options.net;
    p->neurons = 0;
    for (int i = 0; i < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        const int t = p->target[i];
        p->sign_at[i] = p->neurons;
        if (t >= 0)
            p->neurons += (size_t)p->options.replacement->target[t].parts_in *
                          p->options.replacement->target[t].parts_out * p->steps[t].neurons;
        else if (l->op == KAS_LAYER_RELU || l->op == KAS_LAYER_RELU6)
            p->neurons += (size_t)l->c * (size_t)l->h * (size_t)l->w;
    }
    p->sign_words = (p->neurons + 63) / 64;
    p->sign = p->options.signs
                  ? give_bytes(at, sizeof *p->sign * p->sign_words * (size_t)p->options.batch)
                  : NULL;
}

static kas_status give_all(kas_interpreter *p)
{
    placer at = {.size = p->engine->size};
    for (int turn = 0; turn < 2; turn++) {
        give_layers(p, &at);
        give_kernels(p, &at);
        give_signs(p, &at);
        if (turn == 1)
            return KAS_OK;
        if (at.bytes > p->memory->bytes) {
            /* Networks often come in the order of their sizes. Pages that nothing touches cost
             * nothing. */
            const size_t bytes = at.bytes + at.bytes / 256 * 64;
            kas_interpret_memory_free(p->memory);
            p->memory->block = aligned_alloc(64, bytes);
            if (!p->memory->block)
                return kas_fail(KAS_NO_MEMORY, "no memory for a pass of %d images: %zu MiB",
                                p->options.batch, bytes >> 20);
            p->memory->bytes = bytes;
        }
        at = (placer){.block = p->memory->block, .size = p->engine->size};
    }
    return KAS_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static kas_status make_kernels(kas_interpreter *p)
{
    const kas_replacement *r = p->options.replacement;
    const int layers = p->options.net->layers, targets = r ? r->solution.targets : 0;
    p->target = malloc(sizeof *p->target * (size_t)layers);
    p->steps = calloc((size_t)targets + 1, sizeof *p->steps);
    if (!p->target || !p->steps)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d layers", layers);
    for (int i = 0; i < layers; i++)
        p->target[i] = -1;
    for (int t = 0; t < targets; t++) {
        const kas_kernel *kernel = kas_replacement_kernel(r, t);
        if (!kernel)
            continue;
        p->target[r->target[t].layer] = t;
        kas_binding at = r->solution.binding[t];
        if (kernel->stride_inside) { /* computed at every pixel; most are left out */
            at.value[KAS_SYM_H] *= r->target[t].stride;
            at.value[KAS_SYM_W] *= r->target[t].stride;
        }
        KAS_TRY(kas_steps_make(kernel, &at, p->options.weight_gradients, &p->steps[t]));
    }
    return KAS_OK;
}

kas_status kas_interpret_create(const kas_interpret_options *options, kas_interpret_memory *memory,
                                kas_interpreter **out)
{
    const size_t layers = (size_t)options->net->layers;
    kas_status status = KAS_OK;
    kas_interpreter *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return kas_fail(KAS_NO_MEMORY, "no memory for a pass");
    p->options = *options;
    p->options.backward |= options->weight_gradients;
    p->engine = options->exact ? &kas_engine_f64 : &kas_engine_f32;
    p->memory = memory;
    p->act = calloc(layers, sizeof *p->act);
    p->grad = calloc(layers, sizeof *p->grad);
    p->claimed = calloc(layers, sizeof *p->claimed);
    p->norm = calloc(layers, sizeof *p->norm);
    p->sign_at = calloc(layers, sizeof *p->sign_at);
    if (!p->act || !p->grad || !p->claimed || !p->norm || !p->sign_at) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for %zu layers", layers);
        goto fail;
    }
    KAS_TRY_GOTO(make_kernels(p), fail);
    KAS_TRY_GOTO(find_weights(p), fail);
    KAS_TRY_GOTO(give_all(p), fail);
    *out = p;
    return KAS_OK;
fail:
    kas_interpret_free(p);
    return status;
}

void kas_interpret_free(kas_interpreter *p)
{
    if (!p)
        return;
    const int targets = p->options.replacement ? p->options.replacement->solution.targets : 0;
    for (int t = 0; p->steps && t < targets; t++)
        kas_steps_free(&p->steps[t]);
    free(p->steps);
    free(p->target);
    free(p->weight);
    free(p->first);
    free(p->act);
    free(p->grad);
    free(p->claimed);
    free(p->norm);
    free(p->sign_at);
    free(p);
}

/* ---- passes ---------------------------------------------------------------------------------- */

void kas_interpret_forward(kas_interpreter *p, const float *images)
{
    if (p->sign)
        memset(p->sign, 0, sizeof *p->sign * p->sign_words * (size_t)p->options.batch);
    if (images)
        p->engine->store(p->act[0], images, kas_interpret_elements(p, 0), 1);
    else
        p->engine->fill(p->act[0], kas_interpret_elements(p, 0), 1);
    for (int i = 1; i < p->options.net->layers; i++)
        p->engine->forward(p, i);
}

int kas_interpret_not_finite(const kas_interpreter *p)
{
    for (int i = 0; i < p->options.net->layers; i++)
        for (size_t k = 0; k < kas_interpret_elements(p, i); k++)
            if (!isfinite(kas_interpret_get(p, p->act[i], k)))
                return i;
    return -1;
}

double kas_interpret_loss(kas_interpreter *p, const uint16_t *labels)
{
    return p->engine->loss(p, labels);
}

void kas_interpret_set_gradient(kas_interpreter *p, int layer, double value)
{
    p->engine->fill(p->grad[layer], kas_interpret_elements(p, layer), value);
}

void kas_interpret_backward(kas_interpreter *p, int from, int to, bool weights)
{
    void *slope = p->slope;
    memset(p->claimed, 0, sizeof *p->claimed * (size_t)p->options.net->layers);
    p->claimed[from] = true;
    if (!weights)
        p->slope = NULL;
    if (p->slope)
        p->engine->fill(p->slope, p->values, 0);
    for (int i = from; i > to; i--)
        if (p->claimed[i])
            p->engine->backward(p, i, to);
    p->slope = slope;
}

double kas_interpret_get(const kas_interpreter *p, const void *tensor, size_t i)
{
    return p->engine->get(tensor, i);
}

/* ---- a target alone -------------------------------------------------------------------------- */

/* What a layer has of its own while it works on the input of another pass. */
typedef struct lent {
    void *input;
    int batch;
} lent;

static lent lend(kas_interpreter *p, int layer, const kas_interpreter *inputs, int images)
{
    const int in = p->options.net->layer[layer].in[0];
    const lent own = {p->act[in], p->options.batch};
    p->act[in] = inputs->act[in];
    p->options.batch = images;
    return own;
}

static void give_back(kas_interpreter *p, int layer, lent own)
{
    p->act[p->options.net->layer[layer].in[0]] = own.input;
    p->options.batch = own.batch;
}

void kas_interpret_target(kas_interpreter *p, int layer, const kas_interpreter *inputs, int images)
{
    const lent own = lend(p, layer, inputs, images);
    p->engine->forward(p, layer);
    give_back(p, layer, own);
}

void kas_interpret_target_backward(kas_interpreter *p, int layer, const kas_interpreter *inputs,
                                   int images)
{
    const lent own = lend(p, layer, inputs, images);
    p->engine->backward(p, layer, layer); /* the gradient of the input is not wanted */
    give_back(p, layer, own);
}
