/* Decides which concatenations share a buffer, and which layers write into it. */
#include "host/model/tape_impl.h"

/* Returns whether a layer can read pixels with gaps. The libraries' convolutions and the kernels'
 * programs cannot; a layer that does nothing passes its input on to unknown readers. */
static bool reads_gaps(const kas_layer *l)
{
    switch (l->op) {
    case KAS_LAYER_CONV:
    case KAS_LAYER_LINEAR:
    case KAS_LAYER_FLATTEN:
    case KAS_LAYER_DROPOUT:
        return false;
    default:
        return true;
    }
}

/* Returns whether a layer can write pixels with gaps: as above, except for layers without memory of
 * their own and outputs that have to be copied anyway. */
static bool writes_gaps(const kas_layer *l)
{
    return l->op != KAS_LAYER_INPUT && l->op != KAS_LAYER_CONCAT && reads_gaps(l);
}

/* Returns how many inputs of `concat` the concatenation `front` covers as its front part: `front`
 * is its first input, or has the same first inputs; 0 = none. */
static int covered_inputs(const kas_layer *layer, int concat, int front)
{
    const kas_layer *l = &layer[concat], *f = &layer[front];
    if (l->in[0] == front)
        return 1;
    if (f->inputs > l->inputs)
        return 0;
    for (int k = 0; k < f->inputs; k++)
        if (l->in[k] != f->in[k])
            return 0;
    return f->inputs;
}

/* Makes the widest earlier concatenation that can be the front part of this one its child. */
static void find_child(kas_tape_builder *b, int concat)
{
    const kas_layer *layer = b->net->layer;
    kas_tape_layer *known = &b->layer[concat];
    for (int i = 1; i < concat; i++)
        if (layer[i].op == KAS_LAYER_CONCAT && b->layer[i].parent < 0 && !b->layer[i].dense &&
            covered_inputs(layer, concat, i) > 0 &&
            (known->child < 0 || layer[i].c >= layer[known->child].c))
            known->child = i;
    if (known->child < 0)
        return;
    known->covered = covered_inputs(layer, concat, known->child);
    b->layer[known->child].parent = concat;
}

/* Finds the inputs that can be written directly into the buffer of their concatenation. */
static void find_homes(kas_tape_builder *b, int concat)
{
    const kas_layer *l = &b->net->layer[concat];
    for (int k = b->layer[concat].covered; k < l->inputs; k++) {
        kas_tape_layer *in = &b->layer[l->in[k]];
        if (in->home < 0 && !in->dense && writes_gaps(&b->net->layer[l->in[k]]))
            in->home = concat;
    }
}

void kas_tape_find_concats(kas_tape_builder *b)
{
    for (int i = 1; i < b->net->layers; i++)
        for (int k = 0; k < b->net->layer[i].inputs; k++)
            if (!reads_gaps(&b->net->layer[i]))
                b->layer[b->net->layer[i].in[k]].dense = true;
    b->layer[b->net->layers - 1].dense = true; /* the loss */
    for (int i = 1; i < b->net->layers; i++)
        if (b->net->layer[i].op == KAS_LAYER_CONCAT)
            find_child(b, i);
    for (int i = 1; i < b->net->layers; i++)
        if (b->net->layer[i].op == KAS_LAYER_CONCAT)
            find_homes(b, i);
}

int kas_tape_first_channel(const kas_tape_builder *b, int concat, int input)
{
    int c = 0;
    for (int k = 0; k < input; k++)
        c += b->net->layer[b->net->layer[concat].in[k]].c;
    return c;
}

/* Returns the buffer of a chain, which is created when the first of its tensors is written. */
static kas_place buffer(kas_tape_builder *b, int concat)
{
    while (b->layer[concat].parent >= 0)
        concat = b->layer[concat].parent;
    kas_tape_layer *root = &b->layer[concat];
    if (root->buffer.slot < 0)
        root->buffer = kas_tape_like(b, concat);
    return root->buffer;
}

/* Returns the place of the first input of a concatenation that is `layer` and is not covered by
 * its child. */
static kas_place part(kas_tape_builder *b, int concat, int layer)
{
    kas_place place = buffer(b, concat);
    int k = b->layer[concat].covered;
    while (b->net->layer[concat].in[k] != layer)
        k++;
    place.offset += kas_tape_first_channel(b, concat, k);
    return place;
}

kas_place kas_tape_output(kas_tape_builder *b, int layer)
{
    const int home = b->layer[layer].home;
    return home >= 0 ? part(b, home, layer) : kas_tape_like(b, layer);
}

void kas_tape_concat_forward(kas_tape_builder *b, int layer)
{
    const kas_layer *l = &b->net->layer[layer];
    kas_place whole = buffer(b, layer);
    for (int k = b->layer[layer].covered; k < l->inputs; k++) {
        kas_place to = whole, from = b->layer[l->in[k]].activation;
        to.offset += kas_tape_first_channel(b, layer, k);
        if (!kas_same_place(from, to))
            kas_tape_copy(b, l->in[k], from, to);
    }
    b->layer[layer].activation = whole;
}
