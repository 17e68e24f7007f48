/* Networks made by hand, in C: each function appends one layer with the usual attributes and
 * returns its number, as kas_builder_layer does. */
#ifndef KAS_SUPPORT_LAYERS_H
#define KAS_SUPPORT_LAYERS_H

#include "host/net/builder.h"

/* Square kernel, "same" padding (kernel / 2), no groups. */
int kas_builder_conv(kas_builder *b, int in, const char *name, int c_out, int kernel, int stride);
int kas_builder_batch_norm(kas_builder *b, int in, const char *name);
int kas_builder_relu(kas_builder *b, int in, const char *name);
int kas_builder_add(kas_builder *b, int in0, int in1, const char *name);
/* Windows of stride x stride side by side; one that the border cuts off counts. */
int kas_builder_avg_pool(kas_builder *b, int in, const char *name, int stride);
int kas_builder_global_avg_pool(kas_builder *b, int in, const char *name);
int kas_builder_linear(kas_builder *b, int in, const char *name, int c_out);

#endif
