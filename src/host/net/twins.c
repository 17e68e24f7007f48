#include "host/net/twins.h"

#include <stdlib.h>

#include "host/net/builder.h"

/* Copies layer `i`, whose inputs get their new numbers; returns its own. */
static int copy_layer(kas_builder *b, const kas_net *net, int i, const int *number, int *in)
{
    kas_layer layer = net->layer[i];
    for (int k = 0; k < layer.inputs; k++)
        in[k] = number[layer.in[k]];
    layer.in = in;
    return kas_builder_layer(b, layer);
}

/* Copies all layers. `number` and `in` are scratch for the numbers of layers, and of inputs. */
static kas_status copy_layers(const kas_net *net, const kas_replacement *r, int *number, int *in,
                              kas_twins *out)
{
    const kas_layer *input = &net->layer[0];
    kas_builder b;
    kas_builder_start(&b, net->name, input->h, input->w, input->c, net->classes);
    number[0] = 0;
    for (int i = 1; i < net->layers; i++) {
        const int t = kas_replacement_at(r, i);
        if (t >= 0) {
            const int twin = copy_layer(&b, net, i, number, in);
            out->twin[twin] = true;
            out->target[t].layer = twin;
            out->count++;
        }
        number[i] = copy_layer(&b, net, i, number, in);
    }
    KAS_TRY(kas_builder_finish(&b, &out->net));
    out->net->file = net->file;
    return KAS_OK;
}

kas_status kas_twins_create(const kas_net *net, const kas_replacement *replacement, kas_twins *out)
{
    const size_t layers = (size_t)net->layers, targets = (size_t)replacement->solution.targets;
    int most = 1; /* inputs of a layer */
    for (int i = 0; i < net->layers; i++)
        most = net->layer[i].inputs > most ? net->layer[i].inputs : most;
    kas_status status = KAS_OK;
    *out = (kas_twins){.twin = calloc(layers + targets, sizeof *out->twin),
                       .target = calloc(targets, sizeof *out->target),
                       .replacement = *replacement};
    int *number = calloc(layers, sizeof *number), *in = calloc((size_t)most, sizeof *in);
    if (!out->twin || !out->target || !number || !in) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for a network of %zu layers", layers + targets);
        goto out;
    }
    for (size_t t = 0; t < targets; t++) {
        out->target[t] = replacement->target[t];
        out->target[t].layer = -1; /* a convolution that stays has no twin */
    }
    out->replacement.target = out->target;
    status = copy_layers(net, replacement, number, in, out);
out:
    free(number);
    free(in);
    return status;
}

void kas_twins_free(kas_twins *twins)
{
    kas_net_free(twins->net);
    free(twins->twin);
    free(twins->target);
    *twins = (kas_twins){0};
}
