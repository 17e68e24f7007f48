/* A small network with a layer of every kind, in the ways that make a difference: fused and alone,
 * read once and several times, concatenations that share a buffer and one that cannot. */
#ifndef KAS_TESTS_UNIT_MODEL_ZOO_NET_H
#define KAS_TESTS_UNIT_MODEL_ZOO_NET_H

#include "support/layers.h"

static int zoo_layer(kas_builder *b, kas_layer_op op, const char *name, int in)
{
    kas_layer l = kas_layer_make(op, name);
    l.inputs = 1;
    l.in = &in;
    return kas_builder_layer(b, l);
}

static int zoo_join(kas_builder *b, kas_layer_op op, const char *name, int inputs, int *in)
{
    kas_layer l = kas_layer_make(op, name);
    l.inputs = inputs;
    l.in = in;
    return kas_builder_layer(b, l);
}

/* Adds a convolution with "same" padding for odd kernels. */
static int zoo_conv(kas_builder *b, const char *name, int in, int c, int kernel_h, int kernel_w,
                    int groups, bool bias)
{
    kas_layer l = kas_layer_make(KAS_LAYER_CONV, name);
    l.inputs = 1;
    l.in = &in;
    l.c = c;
    l.kernel_h = kernel_h;
    l.kernel_w = kernel_w;
    l.pad_h = kernel_h / 2;
    l.pad_w = kernel_w / 2;
    l.groups = groups;
    l.bias = bias;
    return kas_builder_layer(b, l);
}

static int zoo_pool(kas_builder *b, kas_layer_op op, const char *name, int in, int kernel,
                    int stride, int pad, bool ceil_mode, bool counted)
{
    kas_layer l = kas_layer_make(op, name);
    l.inputs = 1;
    l.in = &in;
    l.kernel_h = l.kernel_w = kernel;
    l.stride = stride;
    l.pad_h = l.pad_w = pad;
    l.ceil_mode = ceil_mode;
    l.count_include_pad = counted;
    return kas_builder_layer(b, l);
}

static int zoo_dropout(kas_builder *b, const char *name, int in, double probability)
{
    kas_layer l = kas_layer_make(KAS_LAYER_DROPOUT, name);
    l.inputs = 1;
    l.in = &in;
    l.probability = probability;
    return kas_builder_layer(b, l);
}

static int zoo_adaptive(kas_builder *b, const char *name, int in, int h, int w)
{
    kas_layer l = kas_layer_make(KAS_LAYER_ADAPTIVE_AVG_POOL, name);
    l.inputs = 1;
    l.in = &in;
    l.h = h;
    l.w = w;
    return kas_builder_layer(b, l);
}

static int zoo_linear(kas_builder *b, const char *name, int in, int c, bool bias)
{
    kas_layer l = kas_layer_make(KAS_LAYER_LINEAR, name);
    l.inputs = 1;
    l.in = &in;
    l.c = c;
    l.bias = bias;
    return kas_builder_layer(b, l);
}

/* Adds squeeze-and-excitation: a gate of one value for each channel. */
static int zoo_gate(kas_builder *b, int in)
{
    int squeeze = zoo_layer(b, KAS_LAYER_GLOBAL_AVG_POOL, "se.pool", in);
    int less =
        zoo_layer(b, KAS_LAYER_SILU, "se.silu", zoo_conv(b, "se.fc1", squeeze, 4, 1, 1, 1, true));
    int gate = zoo_layer(b, KAS_LAYER_SIGMOID, "se.sigmoid",
                         zoo_conv(b, "se.fc2", less, 8, 1, 1, 1, true));
    return zoo_join(b, KAS_LAYER_MULTIPLY, "se.scale", 2, (int[]){in, gate});
}

/* Adds three branches and two layers that read all before them, as in DenseNet: "cat2" is the front
 * part of "cat3", and "pair" of "both", which reads it. One branch is written where it belongs, the
 * others are copied. */
static int zoo_dense_block(kas_builder *b, int in)
{
    int narrow = zoo_layer(b, KAS_LAYER_GELU, "gelu", zoo_conv(b, "rect", in, 8, 1, 3, 2, false));
    int deep =
        zoo_layer(b, KAS_LAYER_SILU, "silu",
                  kas_builder_batch_norm(b, zoo_conv(b, "dw", in, 8, 3, 3, 8, false), "bn2"));
    int tall =
        zoo_layer(b, KAS_LAYER_HARD_SWISH, "hswish",
                  kas_builder_batch_norm(b, zoo_conv(b, "tall", narrow, 6, 3, 1, 1, true), "bn3"));
    int pool = zoo_pool(b, KAS_LAYER_AVG_POOL, "same", deep, 3, 1, 1, false, true);
    int cat2 = zoo_join(b, KAS_LAYER_CONCAT, "cat2", 2, (int[]){tall, pool});
    int grown =
        zoo_conv(b, "grow", kas_builder_relu(b, kas_builder_batch_norm(b, cat2, "bn4"), "relu4"), 5,
                 3, 3, 1, false);
    int cat3 = zoo_join(b, KAS_LAYER_CONCAT, "cat3", 3, (int[]){tall, pool, grown});
    int again = kas_builder_relu(b, kas_builder_batch_norm(b, cat2, "bn5"), "relu5");
    int wide = kas_builder_relu(b, kas_builder_batch_norm(b, cat3, "bn6"), "relu6");
    int plain = zoo_conv(b, "plain", cat3, 8, 1, 1, 1, false); /* reads a concatenation itself */
    int pair = zoo_join(b, KAS_LAYER_CONCAT, "pair", 2, (int[]){again, wide});
    int side = kas_builder_relu(b, kas_builder_batch_norm(b, pair, "bn7"), "relu8");
    int both = zoo_join(b, KAS_LAYER_CONCAT, "both", 3, (int[]){pair, plain, plain});
    return kas_builder_add(b, zoo_conv(b, "reduce", both, 8, 1, 1, 1, true),
                           zoo_conv(b, "side", side, 8, 1, 1, 1, false), "meet");
}

static kas_net *zoo_net(int h, int w)
{
    kas_net *net = NULL;
    kas_builder b;
    kas_builder_start(&b, "zoo", h, w, 3, 10);
    int stem =
        zoo_layer(&b, KAS_LAYER_RELU6, "relu6",
                  kas_builder_batch_norm(&b, zoo_conv(&b, "stem", 0, 8, 3, 3, 1, true), "bn1"));
    int max = zoo_pool(&b, KAS_LAYER_MAX_POOL, "max", stem, 3, 2, 1, true, false);
    int dense = zoo_dense_block(&b, max);
    int gated = zoo_gate(&b, dense);
    int open = zoo_layer(&b, KAS_LAYER_HARD_SIGMOID, "hsigmoid", gated);
    int product = zoo_join(&b, KAS_LAYER_MULTIPLY, "product", 2, (int[]){open, max});
    int norm =
        zoo_layer(&b, KAS_LAYER_LAYER_NORM, "ln", kas_builder_add(&b, product, dense, "sum"));
    int pool = zoo_pool(&b, KAS_LAYER_AVG_POOL, "shrink", norm, 2, 2, 0, true, false);
    int flat =
        zoo_layer(&b, KAS_LAYER_FLATTEN, "flatten", zoo_adaptive(&b, "adaptive", pool, 2, 3));
    int hidden = kas_builder_relu(
        &b, zoo_linear(&b, "fc1", zoo_dropout(&b, "drop1", flat, 0.3), 12, false), "relu7");
    int last = zoo_layer(&b, KAS_LAYER_FLATTEN, "flat", zoo_dropout(&b, "drop2", hidden, 0.2));
    zoo_linear(&b, "fc2", last, 10, true);
    return kas_builder_finish(&b, &net) == KAS_OK ? net : NULL;
}

#endif
