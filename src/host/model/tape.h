/* A step as a list of operations over numbered buffers, before any memory exists.
 *
 * The tape is what a description (net.h) becomes for one batch size: forward operations in layer
 * order, the loss, and the backward operations in the opposite order.  Every buffer that an
 * operation touches is noted, which gives its lifetime, and layout.h places them all in one block.
 * The model (model.h) turns operations into launches.  No device is needed: memory can be planned
 * on any machine.
 *
 * Fusion.  A batch norm whose only reader is a sum and/or a ReLU, or another activation, is one
 * operation with them (ops.h), which saves two passes over memory each way.  It stands where the
 * last of them stands, because a sum's other input may come later than the batch norm.  Where
 * statistics are fixed, what stands in front of the group joins it and writes its output at once: a
 * kernel in a convolution's place where its program has the epilogue (jit/ir/program.h), a
 * convolution or linear layer always (fold.h).
 *
 * Concatenations.  A tensor may be a part of a wider one: some of the channels of every pixel.  A
 * concatenation whose inputs begin like another one's, or that is another one's first input
 * (DenseNet: every layer reads all before it), is the front part of the other's buffer, so that a
 * block of k layers keeps one copy of each tensor in place of k.  A producer writes into its place
 * where it can and where no reader minds; else its output is copied there.  Convolutions mind:
 * libraries want pixels without gaps.
 *
 * Gradients.  What flows back into a layer's output is one contribution from each of its readers.
 * A sum passes its own gradient on to both inputs without a copy, a concatenation passes parts of
 * it on; where contributions meet, they are added into one that nobody else reads.  A batch norm
 * adds where it passes anyway, which saves a pass over memory: two gradients of its output are read
 * as one, and its own contribution is added to what is there already.
 *
 * What a batch norm's backward pass wants of its activation it takes from its input, which it reads
 * anyway; only behind a sum it reads the output.
 *
 * Dtypes.  Activations and their gradients are of one dtype, logits are float32: the convolution
 * or linear layer that gives them works in float32, its input cast to it.  Over float32 no cast is
 * recorded.
 *
 * Recomputation (on request).  The output of a batch norm with its activation is a function of its
 * input and the statistics, which the backward pass needs anyway.  It is forgotten after its last
 * reader in the forward pass and computed again, by the same kernel to the same bits, before the
 * first operation of the backward pass that wants it.
 */
#ifndef KAS_MODEL_TAPE_H
#define KAS_MODEL_TAPE_H

#include "host/model/layout.h"
#include "host/net/epilogues.h"
#include "host/net/net.h"
#include "host/ops/ops.h"
#include "jit/programs.h"

typedef enum kas_tape_kind {
    KAS_TAPE_LOAD,     /* images of the batch (augmented when training) -> y, labels */
    KAS_TAPE_FORWARD,  /* layer: x -> y; of two inputs: x, x1 -> y */
    KAS_TAPE_AGAIN,    /* recomputation of a batch norm: x, saved -> y */
    KAS_TAPE_LOSS,     /* logits x, labels -> dx (training) and the sums of the epoch */
    KAS_TAPE_BACKWARD, /* layer: dy, and what it needs of x, x1 and y -> dx, dx1, parameters'
                          gradients */
    KAS_TAPE_SUM,      /* y = x + x1: gradients that meet; y may be x or x1 */
    KAS_TAPE_COPY,     /* x -> y, like the output of `layer` */
    KAS_TAPE_CAST,     /* the same, into another dtype */
    KAS_TAPE_UPDATE    /* the optimiser */
} kas_tape_kind;

/* A tensor: a buffer, or some channels of its pixels. */
typedef struct kas_place {
    int slot;   /* buffer; -1 = none */
    int offset; /* numbers before the first channel */
    int pitch;  /* numbers from pixel to pixel */
    kas_dtype dtype;
} kas_place;

typedef struct kas_tape_op {
    kas_tape_kind kind;
    int layer; /* of a fused group: the batch norm; SUM, COPY: whose shape it is; else -1 */
    kas_place x, x1, y;
    kas_place dy, dx;          /* dx none: nobody needs it */
    int last;                  /* last layer of a fused group; else `layer` */
    kas_activation activation; /* fused */
    int residual;      /* fused sum: layer of the other input, its output is x1; -1 = none */
    kas_place dx1;     /* BACKWARD of a product: gradient of the other input; of a batch norm: the
                          gradient behind the activation, which is that of a sum's other input;
                          none: it is dy, or nobody wants it */
    kas_place dy1;     /* BACKWARD of a batch norm: another gradient of the output, added to dy */
    kas_place base;    /* BACKWARD of a batch norm: what dx is added to; dx itself, mostly */
    int saved;         /* norms: mean and 1/deviation; max pool: which pixels won */
    int work;          /* norms, biases and loss: scratch of the operation */
    int pooled;        /* replaced, stride > 1: X (BACKWARD: DX) of the program */
    int program;       /* replaced: number of the program; -1 = a layer of its own kind */
    int program_saved; /* first of program->buffers consecutive buffers, SAVED ones have bytes */
    int program_scratch;
    int norm; /* of a layer with what stands behind it: the batch norm; `work` is for 1 / deviation.
                 -1 = none */
    int epilogue; /* of the program of such a layer; -1 = none */
} kas_tape_op;

typedef struct kas_tape {
    int ops, op_capacity, slots, slot_capacity;
    kas_tape_op *op;
    kas_layout_buffer *buffer; /* buffers */
    size_t bytes;              /* of the block that holds them all */
    int images, labels;
    kas_place logits;
    int exact; /* the convolution or linear layer that gives the logits in float32; -1 = none */
} kas_tape;

/* TRAIN: load, forward, loss, backward, update.  EVALUATE: load, forward, loss.  INFER: forward. */
typedef enum kas_tape_mode { KAS_TAPE_TRAIN, KAS_TAPE_EVALUATE, KAS_TAPE_INFER } kas_tape_mode;

typedef struct kas_tape_options {
    int batch;
    kas_tape_mode mode;
    kas_dtype dtype; /* of activations */
    bool recompute;
    bool folded; /* EVALUATE, INFER: parameters stay as they are, so that batch norms are folded
                    into the convolutions in front of them */
} kas_tape_options;
kas_status kas_tape_build(const kas_net *net, const kas_programs *programs,
                          const kas_tape_options *options, kas_tape *out);
void kas_tape_free(kas_tape *tape);

#endif
