#include "host/assemble/supernet.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/net/builder.h"

typedef struct build {
    const kas_choices *choices;
    kas_supernet *out;
    kas_builder b;
    int kernels; /* targets of the supernet so far */
} build;

/* Names a layer of an option other than the convolution. */
static void name(char out[KAS_LAYER_NAME], int t, int option, const char *what)
{
    snprintf(out, KAS_LAYER_NAME, "%d@%d%s", t, option, what);
}

static int add_gate(build *s, const kas_layer *layer, int t, int from, int option)
{
    char text[KAS_LAYER_NAME];
    name(text, t, option, ".gate");
    kas_layer gate = kas_layer_make(KAS_LAYER_CONV, text);
    gate.inputs = 1;
    gate.in = &from;
    gate.kernel_h = gate.kernel_w = 1;
    gate.c = gate.groups = layer->c;
    return kas_builder_layer(&s->b, gate);
}

static int add_sum(build *s, int t, int one, int other, int option)
{
    char text[KAS_LAYER_NAME];
    int in[2] = {one, other};
    name(text, t, option, ".sum");
    kas_layer sum = kas_layer_make(KAS_LAYER_ADD, text);
    sum.inputs = 2;
    sum.in = in;
    return kas_builder_layer(&s->b, sum);
}

/* Notes that the kernel of option `o` stands at a layer of the supernet, with its sizes at target
 * `t`. */
static void place_kernel(build *s, int t, int o, int layer)
{
    kas_replacement *r = &s->out->replacement;
    s->out->target[s->kernels] = s->choices->target[t];
    s->out->target[s->kernels].layer = layer;
    s->out->target[s->kernels].epilogue = (kas_epilogue){0};
    r->kernel_of[s->kernels] = o - 1;
    r->solution.binding[s->kernels] = s->choices->everywhere[o - 1].solution.binding[t];
    snprintf(s->out->target[s->kernels].name, sizeof s->out->target->name, "%s",
             s->b.net->layer[layer].name);
    s->kernels++;
}

/* Adds the options of target `t`, at the convolution `layer`, whose inputs have their new numbers;
 * returns the sum. */
static int add_options(build *s, kas_layer layer, int t)
{
    const int options = s->out->options;
    const kas_layer first = layer;
    int sum = -1;
    for (int o = 0; o < options; o++) {
        if (!kas_choices_has(s->choices, t, o))
            continue;
        if (o)
            name(layer.name, t, o, "");
        layer.bias = o == 0 && first.bias;
        const int option = kas_builder_layer(&s->b, layer);
        if (o && s->b.status == KAS_OK)
            place_kernel(s, t, o, option);
        const int gate = add_gate(s, &first, t, option, o);
        s->out->gate[t * options + o] = gate;
        sum = sum < 0 ? gate : add_sum(s, t, sum, gate, o);
    }
    return sum;
}

static kas_status copy_layers(build *s, int *number, int *in)
{
    const kas_net *net = s->choices->net;
    const kas_layer *input = &net->layer[0];
    kas_builder_start(&s->b, net->name, input->h, input->w, input->c, net->classes);
    number[0] = 0;
    for (int i = 1; i < net->layers; i++) {
        kas_layer layer = net->layer[i];
        const int t = kas_target_at(s->choices->target, s->choices->targets, i);
        for (int k = 0; k < layer.inputs; k++)
            in[k] = number[layer.in[k]];
        layer.in = in;
        number[i] = t < 0 ? kas_builder_layer(&s->b, layer) : add_options(s, layer, t);
    }
    KAS_TRY(kas_builder_finish(&s->b, &s->out->net));
    s->out->net->file = net->file;
    return KAS_OK;
}

kas_status kas_supernet_create(const kas_choices *c, kas_supernet *out)
{
    const size_t options = (size_t)kas_choices_options(c), targets = (size_t)c->targets,
                 most = targets * options;
    int inputs = 1;
    for (int i = 0; i < c->net->layers; i++)
        inputs = c->net->layer[i].inputs > inputs ? c->net->layer[i].inputs : inputs;
    build s = {.choices = c, .out = out};
    int *number = calloc((size_t)c->net->layers, sizeof *number),
        *in = calloc((size_t)inputs, sizeof *in);
    *out =
        (kas_supernet){.gate = malloc(sizeof *out->gate * most),
                       .targets = c->targets,
                       .options = (int)options,
                       .target = calloc(most, sizeof *out->target),
                       .replacement = {.kernel = (kas_kernel *)c->kernel, .kernels = c->kernels}};
    kas_replacement *r = &out->replacement;
    r->kernel_of = calloc(most, sizeof *r->kernel_of);
    r->solution.binding = calloc(most, sizeof *r->solution.binding);
    r->target = out->target;
    kas_status status =
        number && in && out->gate && out->target && r->kernel_of && r->solution.binding
            ? KAS_OK
            : kas_fail(KAS_NO_MEMORY, "no memory for %zu options", most);
    for (size_t i = 0; status == KAS_OK && i < most; i++)
        out->gate[i] = -1;
    if (status == KAS_OK)
        status = copy_layers(&s, number, in);
    r->solution.targets = s.kernels;
    free(number);
    free(in);
    return status;
}

void kas_supernet_free(kas_supernet *s)
{
    kas_net_free(s->net);
    free(s->gate);
    free(s->target);
    free(s->replacement.kernel_of);
    free(s->replacement.solution.binding);
    *s = (kas_supernet){0};
}
