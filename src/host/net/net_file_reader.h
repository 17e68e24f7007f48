/* Declarations that the two halves of the network file reader share: net_file.c reads the file and
 * net_file_list.c the lists of layers in it. */
#ifndef KAS_NET_NET_FILE_READER_H
#define KAS_NET_NET_FILE_READER_H

#include <cjson/cJSON.h>

#include "host/net/builder.h"
#include "host/net/net_file.h"

/* The output layer of a block, under the name with which the block was used. */
typedef struct kas_block_output {
    char name[KAS_LAYER_NAME];
    int layer;
} kas_block_output;

typedef struct kas_net_reader {
    const kas_net_source *source;
    const cJSON *root, *blocks; /* blocks NULL = none */
    kas_builder b;
    int steps;                                   /* statements so far, including skipped ones */
    bool located;                                /* the message names its line already */
    const cJSON *statement[KAS_NET_FILE_LAYERS]; /* [layers] where each stands; NULL: the input */
    int outputs;
    kas_block_output output[KAS_NET_FILE_LAYERS];
} kas_net_reader;

/* The scope in which a list of layers is read: the file itself, or one use of a block. */
typedef struct kas_net_scope {
    char prefix[KAS_LAYER_NAME]; /* "layer1.0", or "" */
    int in;                      /* the layer whose output the block reads */
    int last;                    /* the layer before the current one */
    int depth;
    const cJSON *block; /* NULL = the file; a block may use only blocks before it */
    kas_names names;
} kas_net_scope;

/* Appends the layers of `list`; scope->last becomes the last of them. */
kas_status kas_net_read_list(kas_net_reader *r, const cJSON *list, kas_net_scope *scope);

/* Sets the names c, h and w to the shape of `layer`. */
kas_status kas_net_set_shape(const kas_net_reader *r, int layer, kas_names *names);

/* Adds the arguments of a block to `names`. `arguments` (NULL = none) is a list of "name" and "name
 * = expression". The value comes from `given`, evaluated with the names of `outer`, or else from
 * the default, evaluated with the names so far. */
kas_status kas_net_bind_arguments(const cJSON *arguments, const cJSON *given,
                                  const kas_names *outer, kas_names *names);
/* Evaluates what the network, or a block, requires of its arguments: "requires" of `owner`. */
kas_status kas_net_check_required(const cJSON *owner, const kas_names *names);
bool kas_net_is_argument(const cJSON *arguments, const char *name);

/* Puts the file and line of `item` in front of a failure's message, unless an inner call has
 * done so. */
kas_status kas_net_locate(kas_net_reader *r, kas_status status, const cJSON *item);

#endif
