/* Appends layers to a description; shapes are derived here and nowhere else.
 *
 * Each function returns the number of its layer, which the next one takes as `in`.  A failure
 * (memory, a name too long, a shape that vanishes) is remembered in `status` and turns later calls
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

/* Square kernel, "same" padding (kernel / 2), no groups. */
int kas_builder_conv(kas_builder *b, int in, const char *name, int c_out, int kernel, int stride);
int kas_builder_batch_norm(kas_builder *b, int in, const char *name);
int kas_builder_relu(kas_builder *b, int in, const char *name);
int kas_builder_add(kas_builder *b, int in0, int in1, const char *name);
int kas_builder_avg_pool(kas_builder *b, int in, const char *name, int stride);
int kas_builder_global_avg_pool(kas_builder *b, int in, const char *name);
int kas_builder_shortcut_a(kas_builder *b, int in, const char *name, int c_out, int stride);
int kas_builder_linear(kas_builder *b, int in, const char *name, int c_out);

#endif
