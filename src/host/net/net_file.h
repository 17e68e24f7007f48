/* Network files: descriptions as JSON, docs/network-file.md.
 *
 * A file is a list of layers in which blocks of layers with arguments may be used and repeated; the
 * reader unrolls it for one size of image and one number of classes.  Nothing in a file is executed
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
    const char *options; /* values for the file's arguments: "small=1,blocks=3"; "" = none */
    const char *name;    /* of the network; NULL = the file's */
    int h, w, c, classes;
} kas_net_source;

/* The network of a file. A file with "like" is not unrolled: see kas_net_file_like. */
kas_status kas_net_file_read(const kas_net_source *source, kas_net **out);

/* What another file is asked for: "like" of `text`, such as "resnet18:n1=3,n2=4", and the network's
 * own name; like is "" when the file stands for itself. */
kas_status kas_net_file_like(const char *file, const char *text, char like[256], char name[32]);

#endif
