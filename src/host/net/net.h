/* Networks as descriptions: a list of layers, each naming the layers it reads.
 *
 * A description has no weights and knows no device; the reference (float64), the trainer and the
 * exports all walk the same list.  Shapes are per image, channels-last [h][w][c].  Names are
 * torchvision's where torchvision has the network ("layer1.0.conv1"), and each kind computes what
 * the PyTorch module of that name computes, with the attributes below. */
#ifndef KAS_NET_NET_H
#define KAS_NET_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/arena.h"
#include "host/core/buf.h"
#include "host/core/status.h"
#include "host/space/target.h"

/* Kinds of layers. Add new kinds at the end, because the numbers are part of a
 * training's digest. */
typedef enum kas_layer_op {
    KAS_LAYER_INPUT,
    KAS_LAYER_CONV,       /* kernel, stride, pad, groups; weights "<name>.weight", and "<name>.bias"
                             where `bias` is set */
    KAS_LAYER_BATCH_NORM, /* eps, momentum (share of the new batch in the running statistics);
                             "<name>.weight", ".bias", ".running_mean", ".running_var" */
    KAS_LAYER_RELU,
    KAS_LAYER_ADD,             /* in[0] + in[1] */
    KAS_LAYER_AVG_POOL,        /* kernel, stride, pad, ceil_mode, count_include_pad */
    KAS_LAYER_GLOBAL_AVG_POOL, /* -> [1][1][c] */
    KAS_LAYER_SHORTCUT_A,   /* every stride-th pixel, channels zero-padded on both sides equally (He
                               et al. 2015, option A) */
    KAS_LAYER_LINEAR,       /* [1][1][c] -> [1][1][c_out]; "<name>.weight" [out][in], and
                               "<name>.bias" where `bias` is set */
    KAS_LAYER_RELU6,        /* min(max(x, 0), 6) */
    KAS_LAYER_SILU,         /* x sigmoid(x) */
    KAS_LAYER_HARD_SWISH,   /* x relu6(x + 3) / 6 */
    KAS_LAYER_HARD_SIGMOID, /* relu6(x + 3) / 6 */
    KAS_LAYER_GELU,         /* x Phi(x), exact: Phi(x) = (1 + erf(x / sqrt 2)) / 2 */
    KAS_LAYER_SIGMOID,
    KAS_LAYER_MAX_POOL,          /* kernel, stride, pad (counts as -infinity), ceil_mode */
    KAS_LAYER_ADAPTIVE_AVG_POOL, /* output pixel i of n averages rows floor(i h / n) up to, not
                                    including, ceil((i + 1) h / n) of the input; columns likewise */
    KAS_LAYER_MULTIPLY,          /* in[0] * in[1]; in[1] has in[0]'s shape, or is [1][1][c] and
                                    applies to every pixel */
    KAS_LAYER_CONCAT,            /* n inputs of one height and width; the channels of all of
                                    them, in order */
    KAS_LAYER_DROPOUT,           /* training: each value is 0 with `probability`, else divided by
                                    1 - probability; otherwise identity */
    KAS_LAYER_FLATTEN,           /* -> [1][1][h w c], in PyTorch's order: value (c h_count + h)
                                    w_count + w, whatever the order in memory is */
    KAS_LAYER_LAYER_NORM /* over the channels of each pixel; eps; "<name>.weight", ".bias" */
} kas_layer_op;
enum { KAS_LAYER_OPS = KAS_LAYER_LAYER_NORM + 1, KAS_LAYER_NAME = 64 };
enum { KAS_NET_MAX_IMAGE = 1024 }; /* the longest side of the images */
enum { KAS_MAX_POOL_TAPS = 255 }; /* pixels of a MAX_POOL window: the winner's number is one byte */

typedef struct kas_layer {
    kas_layer_op op;
    char name[KAS_LAYER_NAME];
    int inputs;  /* number of layers that it reads: 0 INPUT; 2 ADD, MULTIPLY; 2 or more CONCAT;
                    else 1 */
    int *in;     /* [inputs] their numbers, all smaller than this layer's; owned by the network */
    int h, w, c; /* of the output */
    int kernel_h, kernel_w, stride, pad_h, pad_w, groups; /* 0, 0, 1, 0, 0, 1 if unused */
    int block;              /* the use of a block in the network file's own list of layers of which
                               it is a part: equal numbers, the same use; 0 = none */
    bool stem;              /* CONV: it reads the images; never a target */
    bool bias;              /* CONV, LINEAR */
    bool ceil_mode;         /* pools: a last window that the border cuts off counts */
    bool count_include_pad; /* AVG_POOL: the divisor counts padding */
    double eps, momentum;   /* norms */
    double probability;     /* DROPOUT */
} kas_layer;

static inline bool kas_layer_is_linear(const kas_layer *l)
{
    return l->op == KAS_LAYER_CONV || l->op == KAS_LAYER_LINEAR;
}

typedef struct kas_net {
    char name[32];
    const char *file; /* for messages: path of the network's file, or its name; never freed */
    int layers;
    kas_layer *layer; /* [0] is INPUT, the last one gives the logits: [1][1][classes] */
    int classes;
    kas_arena *inputs; /* owns every layer's `in` */
} kas_net;

/* Builds a network. `spec` is the name of a network that comes with kas-gpu ("resnet18"), the path
 * of a network file ("./mine.json"; docs/network-file.md), or the text of one; values for its
 * arguments may follow, as in "resnet18:small=0". Fails with KAS_BAD_INPUT and says which networks
 * there are, or the file and line of a mistake. The caller frees *out with kas_net_free. */
kas_status kas_net_build(const char *spec, int h, int w, int c, int classes, kas_net **out);
void kas_net_free(kas_net *net);

/* Returns whether all layers behind layer `i` read, of `i` and those before it, only `i`. */
bool kas_net_is_cut(const kas_net *net, int i);

/* Makes what a study keeps of `spec`, so that the study does not depend on a file: a short name,
 * and a text that kas_net_build accepts in place of `spec`. The text is never freed; it is "" where
 * the name alone is enough. The name of a network from a file ends in a part of the digest of the
 * text without its spaces, as in "mine-3f9a20c1". */
enum { KAS_NET_KEPT_NAME = 96 };
kas_status kas_net_keep(const char *spec, char name[KAS_NET_KEPT_NAME], const char **text);
/* Returns how much of that text is the file; behind it stand the options of the spec. A file with
 * this part, and the options behind its path, are a spec that gives the same name and text. */
size_t kas_net_kept_file(const char *text);

/* Return the FLOPs per image, where a multiply-add is one FLOP, and the number of all parameters
 * that training changes. */
double kas_net_flops(const kas_net *net);
double kas_net_params(const kas_net *net);
/* Returns the multiply-adds of convolutions and linear layers alone, without their biases, as
 * papers and torchvision's tables count them. */
double kas_net_multiply_adds(const kas_net *net);

/* Return the same for one layer. A layer other than convolution and linear counts one FLOP for each
 * element (of its input for pools, else of its output), and so does a bias. Layers that only copy
 * (concat, flatten, shortcut_a) or do nothing outside training (dropout) count none. */
double kas_layer_flops(const kas_net *net, int layer);
double kas_layer_params(const kas_net *net, int layer);
double kas_layer_multiply_adds(const kas_net *net, int layer);
bool kas_layer_has_weights(kas_layer_op op);    /* convolutions, linear layers and norms */
const char *kas_layer_op_name(kas_layer_op op); /* "conv", "batch_norm", ... */

#endif
