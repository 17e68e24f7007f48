/* Reads one layer of a network file: its fields, their defaults and limits. */
#ifndef KAS_NET_NET_FILE_LAYER_H
#define KAS_NET_NET_FILE_LAYER_H

#include <cjson/cJSON.h>

#include "host/net/expression.h"
#include "host/net/net.h"

/* Returns the kind with this name, or -1. A file may not use "input", so that gives -1 too. */
int kas_net_file_kind(const char *name);

/* Fills everything except the name and inputs of `layer` from `object`, in which the key `kind`
 * names the kind. Its expressions may use `names`. Unknown and missing fields are errors. */
kas_status kas_net_file_layer(const cJSON *object, const char *kind, const kas_names *names,
                              kas_layer *layer);

/* Reads a whole number: `item` is a JSON number, true or false, or a string with an expression. */
kas_status kas_net_file_value(const cJSON *item, const char *field, const kas_names *names,
                              int64_t *out);

#endif
