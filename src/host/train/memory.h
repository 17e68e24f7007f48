/* What a model, or a run, needs of a device's memory: known before anything is allocated. */
#ifndef KAS_TRAIN_MEMORY_H
#define KAS_TRAIN_MEMORY_H

#include <stddef.h>

/* Device memory, in bytes.  What libraries take for themselves (a convolution's workspace, a GPU's
 * context) comes on top and is known to them alone. */
typedef struct kas_memory_plan {
    size_t kept;        /* parameters, running statistics, what the optimiser remembers */
    size_t gradients;   /* of the parameters, and the optimiser's tables */
    size_t activations; /* what a step needs beside: one block, buffers shared by lifetime */
    size_t images;      /* of a run: data set or ring of batches; 0 for a model */
    size_t total;
} kas_memory_plan;

#endif
