/* One layer of a network file: its fields, their defaults and limits. */
#ifndef KAS_NET_NET_FILE_LAYER_H
#define KAS_NET_NET_FILE_LAYER_H

#include <cjson/cJSON.h>

#include "host/net/expression.h"
#include "host/net/net.h"

/* Kind of this name, or -1 ("input" is none that a file may use). */
int kas_net_file_kind(const char *name);

/* Fills everything but name and inputs of `layer` from `object`, whose key `kind` names the kind.
 * `names` are what its expressions may use. Unknown and missing fields are errors. */
kas_status kas_net_file_layer(const cJSON *object, const char *kind, const kas_names *names,
                              kas_layer *layer);

/* A whole number: a JSON number, true or false, or a string that is an expression. */
kas_status kas_net_file_value(const cJSON *item, const char *field, const kas_names *names,
                              int64_t *out);

#endif
