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
    int capacity;
    kas_status status;
} kas_builder;

void kas_builder_start(kas_builder *b, const char *name, int h, int w, int c, int classes);
/* Hands the network over, or frees it and returns the first failure. */
kas_status kas_builder_finish(kas_builder *b, kas_net **out);

/* Any layer: `layer` has its kind, name and attributes, and what layer_shape.h wants set; its
 * `inputs` numbers at `in` are copied. A convolution that reads the images is the stem. */
int kas_builder_layer(kas_builder *b, kas_layer layer);

/* A layer with the defaults: inputs and window to come, eps 1e-5, momentum 0.1. `name` has fewer
 * than KAS_LAYER_NAME bytes: more are cut off. */
kas_layer kas_layer_make(kas_layer_op op, const char *name);

#endif
