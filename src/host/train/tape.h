/* A step as a list of operations over numbered buffers, before any memory exists.
 *
 * The tape is what a description (net.h) becomes for one batch size: forward operations in layer
 * order, the loss, and the backward operations in the opposite order.  Every buffer that an
 * operation touches is noted, which gives its lifetime, and layout.h places them all in one block.
 * The model (model.h) turns operations into launches.  No device is needed: memory can be planned
 * on any machine.
 *
 * Fusion.  A batch norm whose only reader is a sum and/or a ReLU is one operation with them
 * (ops.h), which saves two passes over memory each way.  It stands where the last of them stands,
 * because a sum's other input may come later than the batch norm.
 *
 * Gradients.  What flows back into a layer's output is one contribution from each of its readers.
 * A sum passes its own gradient on to both inputs without a copy; where contributions meet, they
 * are added into one that nobody else reads.
 */
#ifndef KAS_TRAIN_TAPE_H
#define KAS_TRAIN_TAPE_H

#include "host/train/layout.h"
#include "host/train/replace.h"

typedef enum kas_tape_kind {
    KAS_TAPE_LOAD,     /* images of the batch (augmented when training) -> y, labels */
    KAS_TAPE_FORWARD,  /* layer: x -> y; a sum: x, x1 -> y */
    KAS_TAPE_LOSS,     /* logits x, labels -> dx (training) and the sums of the epoch */
    KAS_TAPE_BACKWARD, /* layer: dy, and what it needs of x and y -> dx, parameters' gradients */
    KAS_TAPE_SUM,      /* y = x + x1: gradients that meet; y may be x or x1 */
    KAS_TAPE_UPDATE    /* the optimiser */
} kas_tape_kind;

typedef struct kas_tape_op {
    kas_tape_kind kind;
    int layer;         /* of a fused group: the batch norm; SUM: whose gradient; else -1 */
    int x, x1, y;      /* buffers; -1 = none */
    int dy, dx;        /* dx -1: nobody needs it */
    int last;          /* last layer of a fused group; else `layer` */
    bool relu;         /* fused */
    int residual;      /* fused sum: layer of the other input, its output is x1; -1 = none */
    int dx1;           /* BACKWARD of a fused sum with ReLU: gradient of the other input */
    int saved;         /* batch norm: mean and 1/deviation, 2 * pitch floats */
    int work;          /* batch norm and loss: scratch of the operation */
    int pooled;        /* replaced, stride > 1: X (BACKWARD: DX) of the program */
    int program;       /* replaced: number of the program; -1 = a layer of its own kind */
    int program_saved; /* first of program->buffers consecutive buffers, SAVED ones have bytes */
    int program_scratch;
} kas_tape_op;

typedef struct kas_tape {
    int ops, op_capacity, slots, slot_capacity;
    kas_tape_op *op;
    kas_slot *slot; /* buffers */
    size_t bytes;   /* of the block that holds them all */
    int images, labels, logits;
} kas_tape;

/* TRAIN: load, forward, loss, backward, update.  EVALUATE: load, forward, loss.  INFER: forward. */
typedef enum kas_tape_mode { KAS_TAPE_TRAIN, KAS_TAPE_EVALUATE, KAS_TAPE_INFER } kas_tape_mode;

kas_status kas_tape_build(const kas_net *net, const kas_replaced *replaced, int batch,
                          kas_tape_mode mode, kas_tape *out);
void kas_tape_free(kas_tape *tape);

#endif
