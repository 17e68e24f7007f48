/* What the two halves of the reader of network files share: the file (net_file.c) and the lists of
 * layers in it (net_file_list.c). */
#ifndef KAS_NET_NET_FILE_READER_H
#define KAS_NET_NET_FILE_READER_H

#include <cjson/cJSON.h>

#include "host/net/builder.h"
#include "host/net/net_file.h"

/* Output of a block under the name it was used by. */
typedef struct kas_block_output {
    char name[KAS_LAYER_NAME];
    int layer;
} kas_block_output;

typedef struct kas_net_reader {
    const kas_net_source *source;
    const cJSON *root, *blocks; /* blocks NULL = none */
    kas_builder b;
    int steps;    /* statements so far, those that were skipped included */
    bool located; /* the message names its line */
    int outputs;
    kas_block_output output[KAS_NET_FILE_LAYERS];
} kas_net_reader;

/* What a list of layers is read in: the file itself, or one use of a block. */
typedef struct kas_net_scope {
    char prefix[KAS_LAYER_NAME]; /* "layer1.0", or "" */
    int in;                      /* layer whose output the block reads */
    int last;                    /* layer before the present one */
    int depth;
    const cJSON *block; /* NULL = the file; a block may use only those before it */
    kas_names names;
} kas_net_scope;

/* Appends the layers of `list`; scope->last becomes the last of them. */
kas_status kas_net_read_list(kas_net_reader *r, const cJSON *list, kas_net_scope *scope);

/* c, h and w: the shape of layer `layer`. */
kas_status kas_net_set_shape(const kas_net_reader *r, int layer, kas_names *names);

/* "name" and "name = expression" of `arguments` (NULL = none): values from `given` in the names of
 * `outer`, else the default in the names so far. */
kas_status kas_net_bind_arguments(const cJSON *arguments, const cJSON *given,
                                  const kas_names *outer, kas_names *names);
bool kas_net_is_argument(const cJSON *arguments, const char *name);

/* Puts file and line of `item` before the message of a failure, unless an inner one is there. */
kas_status kas_net_locate(kas_net_reader *r, kas_status status, const cJSON *item);

#endif
