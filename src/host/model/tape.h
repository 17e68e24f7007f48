/* A step as a list of operations over numbered buffers, before any memory exists.
 *
 * The tape is made from a network description (net.h) for one batch size. It lists the forward
 * operations in layer order, the loss, and the backward operations in reverse order. It notes for
 * every buffer which operations touch it, which gives the buffer's lifetime; layout.h then places
 * all buffers in one block. The model (model.h) turns operations into launches. Building a tape
 * needs no device, so memory can be planned on any machine.
 *
 * Fusion. A batch norm whose only reader is a sum, a ReLU, both, or another activation is fused
 * with it into one operation (ops.h), which saves two passes over memory each way. The operation
 * stands at the place of the group's last layer, because a sum's other input may be computed later
 * than the batch norm. Where statistics are fixed, the layer in front of the group joins it and
 * writes the group's output directly: a kernel in a convolution's place when its program has the
 * epilogue (jit/ir/program.h); a convolution, a linear layer, or a kernel that ends with a library's
 * convolution, in models that do not train (fold.h).
 *
 * Concatenations. A tensor may be a part of a wider one: some of the channels of every pixel. When
 * the inputs of one concatenation are the first inputs of another, or a concatenation is itself the
 * first input of another (as in DenseNet, where every layer reads all layers before it), it shares
 * the front part of the other's buffer, so that a block of k layers keeps one copy of each tensor
 * instead of k. A producer writes directly into this buffer where it can and where no reader
 * forbids it; otherwise its output is copied there. Convolutions forbid it, because libraries want
 * pixels without gaps.
 *
 * Gradients. The gradient of a layer's output is the sum of one contribution from each reader. A
 * sum layer passes its own gradient to both inputs without a copy, and a concatenation passes on
 * parts of its own; where contributions meet, they are added into a buffer that nothing else reads.
 * A batch norm does such additions in a pass that it makes anyway, which saves a pass over memory:
 * it can read two gradients of its output as one, and it can add its own contribution to an
 * existing gradient.
 *
 * The backward pass of a batch norm computes the derivative of its activation from the norm's
 * input, which it reads anyway; only behind a sum does it read the output.
 *
 * Dtypes. Activations and their gradients have one dtype. Logits are float32: the convolution or
 * linear layer that gives them works in float32, and its input is cast. When activations are
 * float32, no cast is recorded.
 *
 * Recomputation (on request). The output of a batch norm with its activation is a function of its
 * input and the statistics, which the backward pass needs anyway. Its memory is released after its
 * last reader in the forward pass, and the same kernel computes it again, with the same bits,
 * before the first operation of the backward pass that needs it. */
#ifndef KAS_MODEL_TAPE_H
#define KAS_MODEL_TAPE_H

#include "host/model/layout.h"
#include "host/net/epilogues.h"
#include "host/net/net.h"
#include "host/ops/ops.h"
#include "jit/programs.h"

typedef enum kas_tape_kind {
    KAS_TAPE_LOAD,     /* images of the batch (augmented in training) -> y, labels */
    KAS_TAPE_FORWARD,  /* layer: x -> y; of two inputs: x, x1 -> y */
    KAS_TAPE_AGAIN,    /* batch norm computed again: x, saved -> y */
    KAS_TAPE_COMPARE,  /* output x of a twin (tape_options), output x1 of its convolution -> dx in
                          place of x, and what the twin misses */
    KAS_TAPE_LOSS,     /* logits x, labels -> dx (training) and the sums of the epoch */
    KAS_TAPE_BACKWARD, /* layer: dy, and of x, x1 and y what it needs -> dx, dx1, the parameters'
                          gradients */
    KAS_TAPE_SUM,      /* y = x + x1: two gradients of one tensor; y may be x or x1 */
    KAS_TAPE_COPY,     /* x -> y, with the shape of the output of `layer` */
    KAS_TAPE_CAST,     /* like COPY, into another dtype */
    KAS_TAPE_UPDATE    /* the optimiser */
} kas_tape_kind;

/* The place of a tensor: a buffer, or some channels of a buffer's pixels. */
typedef struct kas_place {
    int slot;   /* buffer; -1 = none */
    int offset; /* elements before the first channel */
    int pitch;  /* elements from one pixel to the next */
    kas_dtype dtype;
} kas_place;

typedef struct kas_tape_op {
    kas_tape_kind kind;
    int layer; /* the layer; of a fused group its batch norm; of SUM and COPY the layer whose
                  shape it is; else -1 */
    kas_place x, x1, y;
    kas_place dy, dx;          /* no dx: no operation needs it */
    int last;                  /* last layer of a fused group; else `layer` */
    kas_activation activation; /* fused */
    int residual;      /* fused sum: the layer of its other input, whose output is x1; -1 = none */
    kas_place dx1;     /* BACKWARD of a product: gradient of the second input. BACKWARD of a
                          batch norm: gradient behind the activation, which is also that of a
                          sum's other input; none: it equals dy, or no operation needs it */
    kas_place dy1;     /* BACKWARD of a batch norm: a second gradient of the output, added to dy */
    kas_place base;    /* BACKWARD of a batch norm: a gradient to which dx is added; usually dx
                          itself */
    int saved;         /* buffer; norms: mean and 1/deviation; max pool: which pixels won */
    int work;          /* buffer; norms, biases and loss: scratch of the operation */
    int pooled;        /* buffer; replaced, stride > 1: X (BACKWARD: DX) of the program */
    bool pools;        /* FORWARD: this operation makes it, and no earlier one */
    int program;       /* replaced: index of the program; -1 = the layer is not replaced */
    int program_saved; /* first of program->buffers consecutive buffers; those of role SAVED have
                          bytes */
    int program_scratch;
    int norm;     /* layer with the group behind it: that group's batch norm; -1 = none */
    int epilogue; /* epilogue of such a layer's program; -1 = none */
} kas_tape_op;

typedef struct kas_tape {
    int ops, slots, slot_capacity;
    kas_tape_op *op;
    kas_layout_buffer *buffer; /* buffers */
    size_t bytes;              /* of the block that holds all buffers */
    int images, labels;
    kas_place logits;
    int exact; /* the layer that computes the logits in float32; -1 = none */
} kas_tape;

/* The operations of a mode. TRAIN: load, forward, loss, backward, update. EVALUATE: load, forward,
 * loss. INFER: forward. IMITATE, for a network with twins (net/twins.h): load, forward as in
 * EVALUATE, behind each twin and its convolution compare and the twin's backward, update; EVALUATE
 * then compares too. */
typedef enum kas_tape_mode {
    KAS_TAPE_TRAIN,
    KAS_TAPE_EVALUATE,
    KAS_TAPE_INFER,
    KAS_TAPE_IMITATE
} kas_tape_mode;

typedef struct kas_tape_options {
    int batch;
    kas_tape_mode mode;
    kas_dtype dtype; /* of activations */
    bool recompute;
    bool folded;   /* EVALUATE, INFER: parameters stay fixed, so batch norms are folded into the
                    convolutions in front of them */
    bool separate; /* EVALUATE, INFER: no layer includes the group behind it, and batch norms take
                      the statistics of the batch (model.h) */
    const bool *twin; /* [layers] of a network with twins; NULL = there are none */
    int norm_ranks;   /* TRAIN: ranks whose batch norms share statistics; 0 and 1: none do */
} kas_tape_options;
/* Builds the tape of a step; `programs` as in jit/programs.h. The caller frees *out
 * with kas_tape_free. */
kas_status kas_tape_build(const kas_net *net, const kas_programs *programs,
                          const kas_tape_options *options, kas_tape *out);
void kas_tape_free(kas_tape *tape);

#endif
