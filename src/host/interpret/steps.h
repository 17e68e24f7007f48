/* The primitives of a kernel at one target, with their sizes as numbers. Internal to interpret. */
#ifndef KAS_INTERPRET_STEPS_H
#define KAS_INTERPRET_STEPS_H

#include "host/space/kernel.h"
#include "host/space/solve/solve.h"
#include "host/space/weights.h"

/* One primitive. Which fields it has depends on it; all sizes are for one image and one
 * instance. */
typedef struct kas_step {
    const kas_node *node;
    kas_op op;
    size_t elements, in_elements[KAS_MAX_INPUTS];
    size_t at; /* of the result among the kernel's tensors */
    size_t outer, length,
        inner;           /* input as [outer][length][inner]: the primitive works along length */
    size_t planes, h, w; /* input as images */
    int kernel_h, kernel_w, dilation;
    size_t begin;                   /* SLICE: where the segment begins */
    size_t segment[KAS_MAX_INPUTS]; /* CONCAT: lengths */
    size_t shuffled;                /* SHUFFLE: groups */
    size_t groups, fan_out, fan_in; /* of the weight */
    size_t positions;               /* FC, CONV: pixels */
    uint32_t *order;                /* FC, CONV: which input channel is number k of [group][in];
                                                 NULL: the same one */
    int weight;                     /* number of the weight; -1 = none */
    size_t batch, rows, contracted, columns; /* BMM */
    size_t prefix, repeat, tile; /* broadcast: RHS is [prefix][repeat][tile], LHS [prefix][tile] */
    size_t work;                 /* elements that it needs beside its tensors */
    size_t sign;                 /* RELU: its first value among the kernel's ReLUs */
    bool computed;               /* the backward pass needs the value of the result */
} kas_step;

typedef struct kas_steps {
    int count, weights;
    kas_step *step;  /* [count], the input first */
    size_t elements; /* of all tensors */
    size_t work;     /* most of any step */
    size_t neurons;  /* of all ReLUs */
} kas_steps;

/* Finds the sizes of all nodes. KAS_ILLEGAL when one is no integer at the target. The caller frees
 * *out with kas_steps_free, also after a failure. `kernel` must outlive it. */
kas_status kas_steps_make(const kas_kernel *kernel, const kas_binding *binding,
                          bool weight_gradients, kas_steps *out);
void kas_steps_free(kas_steps *steps);

#endif
