/* Declarations that the files of the tape share. */
#ifndef KAS_MODEL_TAPE_IMPL_H
#define KAS_MODEL_TAPE_IMPL_H

#include "host/model/tape.h"

/* The builder's state for one layer. */
typedef struct kas_tape_layer {
    kas_place activation; /* the output */
    kas_place again;      /* the output, recomputed in the backward pass */
    kas_place input;      /* the input, cast for a layer that works in float32; else no place */
    bool exact;           /* the output is float32, whatever the dtype of the activations is */
    kas_place gradient;   /* of the output; slot -1: there is none yet */
    bool owned;           /* no other operation reads the gradient's place, so it may be
                             overwritten */
    kas_place second;     /* of a batch norm's group: a second gradient, to be added to the first */
    bool second_owned;
    bool learns;               /* the layer or one before it has parameters */
    bool dense;                /* a reader needs its pixels without gaps */
    int readers;               /* how many layers read the output */
    int saved;                 /* buffer of a norm or a max pool */
    int program_saved, pooled; /* buffers of a replaced convolution */
    int last;                  /* last layer of the group; the layer itself when it has none */
    int head;                  /* first layer of the group that ends here: a batch norm, or the
                                  layer in front of it that includes it; -1 = no group ends here */
    int epilogue;              /* epilogue of the program of such a head; -1 = none */
    int operation;             /* FORWARD operation of the layer, or of the group that ends here;
                                  -1 = none */
    int child;                 /* concatenation: the one that shares its front part; -1 = none */
    int covered;               /* how many of its inputs the child covers */
    int parent;                /* the concatenation whose front part it shares; -1 = none */
    int home;                  /* concatenation into whose buffer the output is written; -1 =
                                  none */
    kas_place buffer;          /* concatenation without a parent: the buffer of its chain */
} kas_tape_layer;

typedef struct kas_tape_builder {
    const kas_net *net;
    const kas_programs *programs;
    int batch;
    kas_tape_mode mode;
    bool recompute, folded, separate;
    kas_dtype dtype; /* of activations */
    int norm_ranks;
    const bool *twin;
    kas_tape *tape;
    kas_tape_layer *layer; /* [layers] */
    kas_status status;     /* the first failure; later calls then do nothing */
} kas_tape_builder;

static const kas_place kas_no_place = {.slot = -1};

static inline bool kas_same_place(kas_place a, kas_place b)
{
    return a.slot == b.slot && a.offset == b.offset && a.pitch == b.pitch && a.dtype == b.dtype;
}

/* Each of these adds buffers to the tape and returns the first slot or its place. kas_tape_slot
 * adds one of `bytes` bytes. kas_tape_like adds a
 * tensor like the output of `layer`, and kas_tape_shaped one of that shape in `dtype`.
 * kas_tape_program_slots adds a slot for each buffer of a program; only those with `role` get
 * bytes, and the others are never placed. */
int kas_tape_slot(kas_tape_builder *b, size_t bytes);
kas_place kas_tape_like(kas_tape_builder *b, int layer);
kas_place kas_tape_shaped(kas_tape_builder *b, int layer, kas_dtype dtype);
int kas_tape_program_slots(kas_tape_builder *b, int program, kas_role role);

/* kas_tape_empty returns an operation that touches no buffer; kas_tape_append appends one to
 * the tape. */
kas_tape_op kas_tape_empty(kas_tape_kind kind, int layer);
void kas_tape_append(kas_tape_builder *b, kas_tape_op op);
/* Appends a copy of x to y, both with the shape of the output of `layer`. */
void kas_tape_copy(kas_tape_builder *b, int layer, kas_place x, kas_place y);

/* Returns x, which has the shape of `layer`, in `dtype`: x itself, or a copy for which it appends
 * a cast. */
kas_place kas_tape_as(kas_tape_builder *b, int layer, kas_place x, kas_dtype dtype);
/* Returns the tensor of a layer's output without memory, for computing sizes of scratch. */
kas_tensor kas_tape_shape(const kas_tape_builder *b, int layer);
/* Returns whether the layer does nothing in this mode, so that its output is its input. */
bool kas_tape_is_alias(const kas_tape_builder *b, int layer);

/* Decides which concatenations share a buffer, and which layers write into one (tape_concat.c). */
void kas_tape_find_concats(kas_tape_builder *b);
/* Returns the channel of the concatenation at which its input number `input` begins. */
int kas_tape_first_channel(const kas_tape_builder *b, int concat, int input);
/* Returns the place of a layer's output: in a concatenation's buffer, or in a buffer of its own. */
kas_place kas_tape_output(kas_tape_builder *b, int layer);
/* Appends the forward operations of a concatenation. */
void kas_tape_concat_forward(kas_tape_builder *b, int layer);

/* Appends the forward operation of a layer. */
void kas_tape_forward(kas_tape_builder *b, int layer);
/* Appends the backward operations. `dlogits` is the gradient of the loss with respect to
 * the logits. */
void kas_tape_backward(kas_tape_builder *b, kas_place dlogits);
/* Appends the comparison of a twin with the convolution behind it and, in the mode IMITATE, the
 * twin's backward operation. */
void kas_tape_imitate(kas_tape_builder *b, int twin);

#endif
