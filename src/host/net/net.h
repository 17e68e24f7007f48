/* Networks as descriptions: a list of layers, each naming the layers it reads.
 *
 * A description has no weights and knows no device; the reference (float64), the trainer and the
 * exports all walk the same list.  Shapes are per image, channels-last [h][w][c].  Names are
 * torchvision's where torchvision has the network ("layer1.0.conv1").
 */
#ifndef KAS_NET_NET_H
#define KAS_NET_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/buf.h"
#include "host/core/status.h"
#include "host/space/target.h"

typedef enum kas_layer_op {
    KAS_LAYER_INPUT,
    KAS_LAYER_CONV,       /* no bias, square stride, groups; weights "<name>.weight" */
    KAS_LAYER_BATCH_NORM, /* "<name>.weight", ".bias", ".running_mean", ".running_var"; eps 1e-5,
                             momentum 0.1 */
    KAS_LAYER_RELU,
    KAS_LAYER_ADD,             /* in[0] + in[1] */
    KAS_LAYER_AVG_POOL,        /* kernel = stride, ceil mode, padding not counted */
    KAS_LAYER_GLOBAL_AVG_POOL, /* -> [1][1][c] */
    KAS_LAYER_SHORTCUT_A, /* every stride-th pixel, channels zero-padded on both sides equally (He
                             et al. 2015, option A) */
    KAS_LAYER_LINEAR      /* with bias; "<name>.weight" [out][in], "<name>.bias" */
} kas_layer_op;

typedef struct kas_layer {
    kas_layer_op op;
    char name[64];
    int in[2];                                            /* layer numbers, -1 = none */
    int h, w, c;                                          /* of the output */
    int kernel_h, kernel_w, stride, pad_h, pad_w, groups; /* CONV; AVG_POOL uses stride */
    bool stem; /* CONV: the network's first convolution; never a target */
} kas_layer;

typedef struct kas_net {
    char name[32];
    int layers;
    kas_layer *layer; /* [0] is INPUT, the last one gives the logits */
    int classes;
} kas_net;

/* "resnet20" (CIFAR, shortcut option A: 269,722 parameters for 10 classes) or "resnet18" (CIFAR
 * stem: 3x3, stride 1, no max pool). KAS_BAD_INPUT naming the known networks otherwise. */
kas_status kas_net_build(const char *name, int h, int w, int c, int classes, kas_net **out);
void kas_net_free(kas_net *net);
/* NULL-terminated list of names that kas_net_build knows. */
const char *const *kas_net_names(void);

/* Per image; a multiply-add is one FLOP. Parameters: everything that is learned. */
double kas_net_flops(const kas_net *net);
double kas_net_params(const kas_net *net);

/* The same of one layer. Layers other than convolution and linear count one FLOP an element (of
 * their input for the pools, of their output else); copies count none. */
double kas_layer_flops(const kas_net *net, int layer);
double kas_layer_params(const kas_net *net, int layer);
const char *kas_layer_op_name(kas_layer_op op); /* "conv", "batch_norm", ... */

#endif
