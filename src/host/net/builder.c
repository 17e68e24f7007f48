#include "host/net/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/core/intern.h"
#include "host/net/layer_shape.h"

kas_layer kas_layer_make(kas_layer_op op, const char *name)
{
    kas_layer layer = {.op = op, .stride = 1, .groups = 1, .eps = 1e-5, .momentum = 0.1};
    snprintf(layer.name, sizeof layer.name, "%s", name);
    return layer;
}

static kas_status fail_memory(const kas_net *net)
{
    return kas_fail(KAS_NO_MEMORY, "no memory for network \"%s\"", net->name);
}

static kas_status append(kas_builder *b, kas_layer layer)
{
    kas_net *net = b->net;
    if (!KAS_GROW(net->layer, net->layers))
        return fail_memory(net);
    int *in = KAS_ARENA_NEW(net->inputs, int, layer.inputs);
    if (!in)
        return fail_memory(net);
    for (int k = 0; k < layer.inputs; k++)
        in[k] = layer.in[k];
    layer.in = in;
    KAS_TRY(kas_layer_shape(net, &layer));
    layer.stem = layer.op == KAS_LAYER_CONV && net->layer[in[0]].op == KAS_LAYER_INPUT;
    net->layer[net->layers++] = layer;
    return KAS_OK;
}

int kas_builder_layer(kas_builder *b, kas_layer layer)
{
    if (b->status == KAS_OK)
        b->status = append(b, layer);
    return b->status == KAS_OK ? b->net->layers - 1 : 0;
}

void kas_builder_start(kas_builder *b, const char *name, int h, int w, int c, int classes)
{
    *b = (kas_builder){.net = calloc(1, sizeof *b->net)};
    if (b->net)
        b->net->inputs = kas_arena_create();
    if (!b->net || !b->net->inputs) {
        b->status = kas_fail(KAS_NO_MEMORY, "no memory for network \"%s\"", name);
        return;
    }
    snprintf(b->net->name, sizeof b->net->name, "%s", name);
    b->net->file = kas_intern(name);
    if (!b->net->file)
        b->status = kas_fail(KAS_NO_MEMORY, "no memory for network \"%s\"", name);
    b->net->classes = classes;
    kas_layer input = kas_layer_make(KAS_LAYER_INPUT, "input");
    input.h = h;
    input.w = w;
    input.c = c;
    kas_builder_layer(b, input);
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
