/* Reads network files: descriptions as JSON (docs/network-file.md).
 *
 * A file is a list of layers that may use and repeat blocks of layers, which have arguments. The
 * reader unrolls it for one image size and one number of classes.  Nothing in a file is executed
 * but whole-number arithmetic (expression.h), and everything is bounded: bytes, depth, layers,
 * steps of unrolling, sizes of windows and channels.  Messages name file, line, layer, what was
 * found and what was expected. */
#ifndef KAS_NET_NET_FILE_H
#define KAS_NET_NET_FILE_H

#include "host/net/expression.h"
#include "host/net/net.h"

enum { KAS_NET_FILE_BYTES = 1 << 18, KAS_NET_FILE_LAYERS = 8192 };

typedef struct kas_net_source {
    const char *file; /* for messages */
    const char *text;
    const char *options;  /* values for the file's arguments: "small=1,blocks=3"; "" = none */
    const char *defaults; /* likewise, for arguments without an option */
    const char *name;     /* of the network; NULL = the file's */
    int h, w, c, classes;
} kas_net_source;

/* Builds the network of a file. Does not unroll a file with "like": see kas_net_file_like. */
kas_status kas_net_file_read(const kas_net_source *source, kas_net **out);

/* Reads the key "like" of a file that stands for another one: `like` gets its value, such as
 * "resnet18:n1=3,n2=4", and `name` the network's own name. `like` is "" when the file has its
 * own layers. */
kas_status kas_net_file_like(const char *file, const char *text, char like[256], char name[32]);

#endif
