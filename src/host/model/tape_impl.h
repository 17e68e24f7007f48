/* What the files of the tape share. */
#ifndef KAS_MODEL_TAPE_IMPL_H
#define KAS_MODEL_TAPE_IMPL_H

#include "host/model/tape.h"

/* What the builder knows of a layer. */
typedef struct kas_tape_layer {
    kas_place activation; /* the output */
    kas_place again;      /* the output, recomputed in the backward pass */
    kas_place input;      /* the input, cast for a layer that works in float32; else none */
    bool exact;           /* the output is float32 whatever the number of the others */
    kas_place gradient;   /* of the output; none yet: slot -1 */
    bool owned;           /* nobody else reads the gradient's place: it may be overwritten */
    kas_place second;     /* of a batch norm's group: another gradient, to be added to it */
    bool second_owned;
    bool learns;               /* it or a layer before it has something to learn */
    bool dense;                /* a reader wants its pixels without gaps */
    int readers;               /* how many layers read the output */
    int saved;                 /* of a norm or a max pool */
    int program_saved, pooled; /* of a replaced convolution */
    int last;                  /* last layer of the group; itself when alone */
    int head;                  /* first layer of the group whose last layer it is: a batch norm, or
                                  the layer in front of it that does it too; -1 */
    int epilogue;              /* of the program that is such a head; -1 */
    int operation;             /* FORWARD of the layer, or of the group that ends here; -1 */
    int child;                 /* concatenation: the one that is its front part; -1 */
    int covered;               /* how many of its inputs the child stands for */
    int parent;                /* the one whose front part it is; -1 */
    int home;                  /* concatenation in whose buffer the output is written; -1 */
    kas_place buffer;          /* concatenation without a parent: where its chain lies */
} kas_tape_layer;

typedef struct kas_tape_builder {
    const kas_net *net;
    const kas_programs *programs;
    int batch;
    kas_tape_mode mode;
    bool recompute, folded;
    kas_dtype dtype; /* of activations */
    kas_tape *tape;
    kas_tape_layer *layer; /* [layers] */
    kas_status status;     /* the first failure: later calls do nothing */
} kas_tape_builder;

static const kas_place kas_no_place = {.slot = -1};

static inline bool kas_same_place(kas_place a, kas_place b)
{
    return a.slot == b.slot && a.offset == b.offset && a.pitch == b.pitch && a.dtype == b.dtype;
}

/* New buffers: `count` without bytes; of `bytes`; for a tensor like the output of a layer, or of
 * its shape in another dtype; for the buffers of a program that have `role` (the others keep size
 * 0 and are never placed). */
int kas_tape_slots(kas_tape_builder *b, int count);
int kas_tape_slot(kas_tape_builder *b, size_t bytes);
kas_place kas_tape_like(kas_tape_builder *b, int layer);
kas_place kas_tape_shaped(kas_tape_builder *b, int layer, kas_dtype dtype);
int kas_tape_program_slots(kas_tape_builder *b, int program, kas_role role);

/* An operation that touches nothing; and the end of the list. */
kas_tape_op kas_tape_empty(kas_tape_kind kind, int layer);
void kas_tape_append(kas_tape_builder *b, kas_tape_op op);
/* x -> y, both like the output of `layer`. */
void kas_tape_copy(kas_tape_builder *b, int layer, kas_place x, kas_place y);

/* x, of the shape of `layer`, in another dtype: itself, or a cast copy. */
kas_place kas_tape_as(kas_tape_builder *b, int layer, kas_place x, kas_dtype dtype);
/* The tensor of a layer's output without memory: for sizes of scratch. */
kas_tensor kas_tape_shape(const kas_tape_builder *b, int layer);
/* The layer does nothing in this mode: its output is its input. */
bool kas_tape_is_alias(const kas_tape_builder *b, int layer);

/* Which concatenations share a buffer, and which layers write into one (tape_concat.c). */
void kas_tape_find_concats(kas_tape_builder *b);
/* The channel of a concatenation at which its input number `input` begins. */
int kas_tape_first_channel(const kas_tape_builder *b, int concat, int input);
/* Where the output of a layer is written: in a concatenation's buffer, or a buffer of its own. */
kas_place kas_tape_output(kas_tape_builder *b, int layer);
void kas_tape_concat_forward(kas_tape_builder *b, int layer);

void kas_tape_forward(kas_tape_builder *b, int layer);
/* The gradient of the loss with respect to the logits is at `dlogits`. */
void kas_tape_backward(kas_tape_builder *b, kas_place dlogits);

#endif
