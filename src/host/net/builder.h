/* Appends layers to a description.
 *
 * Each function returns the number of its layer, which the next one takes as `in`.  A failure
 * (memory, a name too long, shapes that do not fit) is remembered in `status` and turns later calls
 * into no-ops, so that a network reads as a list and is checked once, at kas_builder_finish. */
#ifndef KAS_NET_BUILDER_H
#define KAS_NET_BUILDER_H

#include "host/net/net.h"

typedef struct kas_builder {
    kas_net *net;
    kas_status status;
} kas_builder;

void kas_builder_start(kas_builder *b, const char *name, int h, int w, int c, int classes);
/* Gives the network to the caller, or frees it and returns the first failure. */
kas_status kas_builder_finish(kas_builder *b, kas_net **out);

/* Appends any layer. `layer` has its kind, name and attributes, and the sizes that layer_shape.h
 * needs beforehand; the `inputs` numbers at `in` are copied. A convolution that reads the images
 * becomes the stem. */
int kas_builder_layer(kas_builder *b, kas_layer layer);

/* Returns a layer with default attributes: eps 1e-5, momentum 0.1. The caller sets its inputs and
 * window. A `name` of KAS_LAYER_NAME bytes or more is cut. */
kas_layer kas_layer_make(kas_layer_op op, const char *name);

#endif
