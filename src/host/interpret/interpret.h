/* Interprets a network primitive by primitive, forward and backward, on the host: for scores, which
 * look at many kernels for a moment each and cannot wait until a compiler has built them.
 *
 * A layer of the network, or a primitive of a kernel in a convolution's place, is one call of a
 * function that was compiled with the program, for any shape.  Tensors are [n][c][h][w].  A kernel
 * works on one image at a time, so that its intermediate tensors stay in the cache; what the
 * backward pass needs of them is computed again.  Everything is there in float32 and in float64.
 *
 * It computes what docs/primitives.md and net.h define, and shares no code with the float64
 * reference (host/reference), which judges it.  Batch norms have the statistics of the batch, as in
 * training; dropout drops nothing.  One thread works on a pass.  Other folders include this
 * header. */
#ifndef KAS_INTERPRET_INTERPRET_H
#define KAS_INTERPRET_INTERPRET_H

#include "host/interpret/normals.h"
#include "host/model/safetensors.h"
#include "host/net/net.h"
#include "host/space/solve/replacement.h"

/* Memory that passes use one after the other: a new block for each would cost more than a pass.
 * Zero at first. */
typedef struct kas_interpret_memory {
    void *block;
    size_t bytes;
} kas_interpret_memory;
void kas_interpret_memory_free(kas_interpret_memory *memory);

typedef struct kas_interpret_options {
    const kas_net *net;
    const kas_replacement *replacement; /* NULL: the network as it is */
    int batch;
    bool exact;            /* float64 */
    bool without_norms;    /* batch norms give their input */
    bool backward;         /* gradients of activations */
    bool weight_gradients; /* and of weights; implies `backward` */
    bool signs;            /* which ReLUs are active */
} kas_interpret_options;

/* A convolution's, linear layer's or kernel's weight, or a bias. */
typedef struct kas_interpret_weight {
    int layer, slot; /* as in model/params.h: names the initial values */
    bool bias;
    bool factor;     /* of `scale`: begins with 1 */
    bool uniform;    /* of linear layers; else normal */
    double scale;    /* standard deviation or bound of the initial values */
    size_t at, size; /* in the weights of the pass; all instances */
} kas_interpret_weight;

struct kas_steps;
struct kas_engine;

/* Tensors are float, or double where the pass is exact. act[i] is the output of layer i, grad[i]
 * its gradient, [batch][c][h][w]. */
typedef struct kas_interpreter {
    kas_interpret_options options;
    const struct kas_engine *engine;
    void **act, **grad;      /* [layers] */
    bool *claimed;           /* [layers] grad has been written in this backward pass */
    void *mean, *rstd;       /* statistics of batch norms: that of layer i begins at norm[i] */
    size_t *norm;            /* [layers] */
    void *factor, *offset;   /* of the channels of norms, likewise; only if `loaded` */
    bool loaded;             /* weights are those of a file */
    struct kas_steps *steps; /* [targets] of each replaced layer's kernel */
    int *target;             /* [layers] the replaced target that the layer is; -1 = none */
    int weights;
    kas_interpret_weight *weight; /* [weights] */
    int *first;                   /* [layers + 1] weights of a layer */
    size_t values;                /* elements of all weights */
    void *value, *slope;          /* [values] weights and their gradients */
    void *pieces;                 /* a layer's gradient, before it is added */
    void *pooled;                 /* the input of a kernel behind a stride, and its gradient */
    void *scratch, *scratch_grad; /* tensors of a kernel for one image, and their gradients */
    void *work;
    /* Of every ReLU, of the network (also ReLU6) and of its kernels: bit k of row n says whether
     * value k of image n is above 0. */
    uint64_t *sign;
    size_t neurons, sign_words; /* values of one image, and words of a row */
    size_t *sign_at;            /* [layers] first value of a layer or of its kernel */
    kas_interpret_memory *memory;
} kas_interpreter;

/* Prepares an interpreter. KAS_ILLEGAL when a kernel has no sizes at a target. The caller frees
 * *out with kas_interpret_free; `memory`, the network and the replacement must outlive it, and
 * `memory` serves one pass at a time. */
kas_status kas_interpret_create(const kas_interpret_options *options, kas_interpret_memory *memory,
                                kas_interpreter **out);
void kas_interpret_free(kas_interpreter *pass); /* NULL is allowed */

/* How weights begin. */
typedef enum kas_interpret_init {
    KAS_INTERPRET_TRAINING, /* as a training with that seed begins (model/params.h) */
    KAS_INTERPRET_UNIT,     /* the same, with normal weights divided by their standard deviation */
    KAS_INTERPRET_POSITIVE  /* the same as a training, and the magnitude of each */
} kas_interpret_init;
/* Up to rounding, normal weights are `normals` times their deviation. */
kas_status kas_interpret_draw(kas_interpreter *pass, uint64_t seed, kas_interpret_init how,
                              kas_normals *normals);

/* Gives the layers that no kernel replaces, and the norms, what a file of the same network has for
 * them in the same shape. Other layers keep their weights, and other norms begin as in training. The
 * pass must have no gradients. */
kas_status kas_interpret_load(kas_interpreter *pass, const kas_safetensors *file);

/* Copies the images [batch][c][h][w] (NULL: every value is 1), and runs all layers. */
void kas_interpret_forward(kas_interpreter *pass, const float *images);
/* The first layer with an output that is not finite; -1 = none. */
int kas_interpret_not_finite(const kas_interpreter *pass);
/* Returns the mean cross entropy, and leaves the gradient of the logits. */
double kas_interpret_loss(kas_interpreter *pass, const uint16_t *labels);
/* Goes from layer `from`, whose gradient is there, down to the gradient of layer `to`. Gradients of
 * the weights of the layers between are overwritten, if `weights`. */
void kas_interpret_backward(kas_interpreter *pass, int from, int to, bool weights);
/* Fills the gradient of a layer with one value. */
void kas_interpret_set_gradient(kas_interpreter *pass, int layer, double value);

/* Computes the output of one target, replaced or not, for the first `images` images, from the input
 * that it has in another pass of at least as many. */
void kas_interpret_target(kas_interpreter *pass, int layer, const kas_interpreter *inputs,
                          int images);
/* Adds to the gradients of its weights, from its gradient, likewise. */
void kas_interpret_target_backward(kas_interpreter *pass, int layer, const kas_interpreter *inputs,
                                   int images);

size_t kas_interpret_elements(const kas_interpreter *pass,
                              int layer); /* of the output, all images */
/* An element of a tensor of the pass, for tests and small sums. */
double kas_interpret_get(const kas_interpreter *pass, const void *tensor, size_t i);

#endif
