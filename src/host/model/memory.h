/* What a model, or a run, needs of a device's memory: known before anything is allocated. */
#ifndef KAS_MODEL_MEMORY_H
#define KAS_MODEL_MEMORY_H

#include <stddef.h>

/* Device memory, in bytes.  What libraries take for themselves comes on top: a GPU's context, and
 * one workspace for all convolutions (cuda/conv_cuda.h has its limit). */
typedef struct kas_memory_plan {
    size_t kept;        /* parameters, running statistics, what the optimiser remembers */
    size_t gradients;   /* of the parameters, and the optimiser's tables */
    size_t activations; /* what a step needs beside: one block, buffers shared by lifetime */
    size_t images;      /* of a run: data set or ring of batches; 0 for a model */
    size_t total;
} kas_memory_plan;

#endif
