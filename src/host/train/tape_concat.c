/* Concatenations that share a buffer, and who writes into it. */
#include "host/train/tape_impl.h"

/* What reads pixels with gaps between them; the libraries' convolutions and the kernels' programs
 * do not, and a layer that does nothing hands its input on to readers unknown. */
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

/* The same without those that own no memory of their own, or have to be copied anyway. */
static bool writes_gaps(const kas_layer *l)
{
    return l->op != KAS_LAYER_INPUT && l->op != KAS_LAYER_CONCAT && reads_gaps(l);
}

static bool begins_with(const kas_layer *l, const kas_layer *front)
{
    if (front->inputs > l->inputs)
        return false;
    for (int k = 0; k < front->inputs; k++)
        if (l->in[k] != front->in[k])
            return false;
    return true;
}

/* The longest earlier concatenation that can be the front part of this one becomes its child. */
static void find_child(kas_tape_builder *b, int concat)
{
    const kas_layer *layer = b->net->layer;
    int best = -1;
    for (int i = 1; i < concat; i++)
        if (layer[i].op == KAS_LAYER_CONCAT && b->layer[i].parent < 0 && !b->layer[i].dense &&
            begins_with(&layer[concat], &layer[i]) &&
            (best < 0 || layer[i].inputs >= layer[best].inputs))
            best = i;
    b->layer[concat].child = best;
    if (best >= 0)
        b->layer[best].parent = concat;
}

/* Inputs that can be written into the buffer of their concatenation. */
static void find_homes(kas_tape_builder *b, int root)
{
    const kas_layer *l = &b->net->layer[root];
    for (int k = 0; k < l->inputs; k++) {
        kas_tape_layer *in = &b->layer[l->in[k]];
        if (in->home < 0 && !in->dense && writes_gaps(&b->net->layer[l->in[k]]))
            in->home = root;
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
        if (b->net->layer[i].op == KAS_LAYER_CONCAT && b->layer[i].parent < 0)
            find_homes(b, i);
}

int kas_tape_first_channel(const kas_tape_builder *b, int concat, int input)
{
    int c = 0;
    for (int k = 0; k < input; k++)
        c += b->net->layer[b->net->layer[concat].in[k]].c;
    return c;
}

/* The buffer of a chain is made when the first of its tensors is written. */
static kas_place buffer(kas_tape_builder *b, int concat)
{
    while (b->layer[concat].parent >= 0)
        concat = b->layer[concat].parent;
    kas_tape_layer *root = &b->layer[concat];
    if (root->buffer.slot < 0)
        root->buffer = kas_tape_like(b, concat);
    return root->buffer;
}

/* Where the first input of a concatenation that is `layer` lies. */
static kas_place part(kas_tape_builder *b, int concat, int layer)
{
    kas_place place = buffer(b, concat);
    int k = 0;
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
    const int child = b->layer[layer].child;
    kas_place whole = buffer(b, layer);
    for (int k = child >= 0 ? b->net->layer[child].inputs : 0; k < l->inputs; k++) {
        kas_place to = whole, from = b->layer[l->in[k]].activation;
        to.offset += kas_tape_first_channel(b, layer, k);
        if (!kas_same_place(from, to))
            kas_tape_copy(b, l->in[k], from, to);
    }
    b->layer[layer].activation = whole;
}
