#include "support/layers.h"

static int unary(kas_builder *b, kas_layer layer, int in)
{
    layer.inputs = 1;
    layer.in = &in;
    return kas_builder_layer(b, layer);
}

int kas_builder_conv(kas_builder *b, int in, const char *name, int c_out, int kernel, int stride)
{
    kas_layer layer = kas_layer_make(KAS_LAYER_CONV, name);
    layer.kernel_h = layer.kernel_w = kernel;
    layer.pad_h = layer.pad_w = kernel / 2;
    layer.stride = stride;
    layer.c = c_out;
    return unary(b, layer, in);
}

int kas_builder_batch_norm(kas_builder *b, int in, const char *name)
{
    return unary(b, kas_layer_make(KAS_LAYER_BATCH_NORM, name), in);
}

int kas_builder_relu(kas_builder *b, int in, const char *name)
{
    return unary(b, kas_layer_make(KAS_LAYER_RELU, name), in);
}

int kas_builder_add(kas_builder *b, int in0, int in1, const char *name)
{
    kas_layer layer = kas_layer_make(KAS_LAYER_ADD, name);
    int in[2] = {in0, in1};
    layer.inputs = 2;
    layer.in = in;
    return kas_builder_layer(b, layer);
}

int kas_builder_avg_pool(kas_builder *b, int in, const char *name, int stride)
{
    kas_layer layer = kas_layer_make(KAS_LAYER_AVG_POOL, name);
    layer.kernel_h = layer.kernel_w = layer.stride = stride;
    layer.ceil_mode = true;
    return unary(b, layer, in);
}

int kas_builder_global_avg_pool(kas_builder *b, int in, const char *name)
{
    return unary(b, kas_layer_make(KAS_LAYER_GLOBAL_AVG_POOL, name), in);
}

int kas_builder_linear(kas_builder *b, int in, const char *name, int c_out)
{
    kas_layer layer = kas_layer_make(KAS_LAYER_LINEAR, name);
    layer.bias = true;
    layer.c = c_out;
    return unary(b, layer, in);
}
