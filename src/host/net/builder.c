#include "host/net/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A new layer with the shape of layer `in` (all zero for the first one), or NULL after a failure.
 */
static kas_layer *append(kas_builder *b, kas_layer_op op, int in, const char *name)
{
    if (b->status != KAS_OK)
        return NULL;
    kas_net *net = b->net;
    if (net->layers == b->capacity) {
        int capacity = b->capacity ? 2 * b->capacity : 64;
        kas_layer *grown = realloc(net->layer, sizeof *grown * (size_t)capacity);
        if (!grown) {
            b->status = kas_fail(KAS_NO_MEMORY, "no memory for network \"%s\"", net->name);
            return NULL;
        }
        net->layer = grown;
        b->capacity = capacity;
    }
    kas_layer *layer = &net->layer[net->layers];
    *layer = (kas_layer){.op = op, .in = {in, -1}, .stride = 1, .groups = 1};
    if (in >= 0) {
        layer->h = net->layer[in].h;
        layer->w = net->layer[in].w;
        layer->c = net->layer[in].c;
    }
    int length = snprintf(layer->name, sizeof layer->name, "%s", name);
    if (length >= (int)sizeof layer->name) {
        b->status = kas_fail(KAS_FAILURE, "layer name \"%s\" is too long", name);
        return NULL;
    }
    net->layers++;
    return layer;
}

static int last(const kas_builder *b)
{
    return b->status == KAS_OK ? b->net->layers - 1 : 0;
}

void kas_builder_start(kas_builder *b, const char *name, int h, int w, int c, int classes)
{
    *b = (kas_builder){.net = calloc(1, sizeof *b->net)};
    if (!b->net) {
        b->status = kas_fail(KAS_NO_MEMORY, "no memory for network \"%s\"", name);
        return;
    }
    snprintf(b->net->name, sizeof b->net->name, "%s", name);
    b->net->classes = classes;
    kas_layer *input = append(b, KAS_LAYER_INPUT, -1, "input");
    if (input) {
        input->h = h;
        input->w = w;
        input->c = c;
    }
}

kas_status kas_builder_finish(kas_builder *b, kas_net **out)
{
    if (b->status != KAS_OK) {
        kas_net_free(b->net);
        return b->status;
    }
    *out = b->net;
    return KAS_OK;
}

int kas_builder_conv(kas_builder *b, int in, const char *name, int c_out, int kernel, int stride)
{
    kas_layer *layer = append(b, KAS_LAYER_CONV, in, name);
    if (layer) {
        layer->kernel_h = layer->kernel_w = kernel;
        layer->pad_h = layer->pad_w = kernel / 2;
        layer->stride = stride;
        layer->h = (layer->h + 2 * layer->pad_h - kernel) / stride + 1;
        layer->w = (layer->w + 2 * layer->pad_w - kernel) / stride + 1;
        layer->c = c_out;
        layer->stem = b->net->layer[in].op == KAS_LAYER_INPUT;
    }
    return last(b);
}

int kas_builder_batch_norm(kas_builder *b, int in, const char *name)
{
    append(b, KAS_LAYER_BATCH_NORM, in, name);
    return last(b);
}

int kas_builder_relu(kas_builder *b, int in, const char *name)
{
    append(b, KAS_LAYER_RELU, in, name);
    return last(b);
}

int kas_builder_add(kas_builder *b, int in0, int in1, const char *name)
{
    kas_layer *layer = append(b, KAS_LAYER_ADD, in0, name);
    if (layer) {
        const kas_layer *other = &b->net->layer[in1];
        layer->in[1] = in1;
        if (layer->h != other->h || layer->w != other->w || layer->c != other->c)
            b->status = kas_fail(KAS_FAILURE, "%s: [%d, %d, %d] and [%d, %d, %d] cannot be added",
                                 name, layer->h, layer->w, layer->c, other->h, other->w, other->c);
    }
    return last(b);
}

/* Ceil mode: every stride-th pixel starts a window, a last one may be cut off by the border. */
static void shrink(kas_layer *layer, int stride)
{
    layer->stride = stride;
    layer->h = (layer->h + stride - 1) / stride;
    layer->w = (layer->w + stride - 1) / stride;
}

int kas_builder_avg_pool(kas_builder *b, int in, const char *name, int stride)
{
    kas_layer *layer = append(b, KAS_LAYER_AVG_POOL, in, name);
    if (layer)
        shrink(layer, stride);
    return last(b);
}

int kas_builder_global_avg_pool(kas_builder *b, int in, const char *name)
{
    kas_layer *layer = append(b, KAS_LAYER_GLOBAL_AVG_POOL, in, name);
    if (layer)
        layer->h = layer->w = 1;
    return last(b);
}

int kas_builder_shortcut_a(kas_builder *b, int in, const char *name, int c_out, int stride)
{
    kas_layer *layer = append(b, KAS_LAYER_SHORTCUT_A, in, name);
    if (layer) {
        shrink(layer, stride);
        layer->c = c_out;
    }
    return last(b);
}

int kas_builder_linear(kas_builder *b, int in, const char *name, int c_out)
{
    kas_layer *layer = append(b, KAS_LAYER_LINEAR, in, name);
    if (layer)
        layer->c = c_out;
    return last(b);
}
