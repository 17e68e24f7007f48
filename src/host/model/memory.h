/* The device memory that a model, or a run, needs. It is known before anything is allocated. */
#ifndef KAS_MODEL_MEMORY_H
#define KAS_MODEL_MEMORY_H

#include <stddef.h>

/* Device memory, in bytes. Memory that libraries take for themselves comes on top: a GPU's context,
 * and one workspace for all convolutions (cuda/conv_cuda.h has its limit). */
typedef struct kas_memory_plan {
    size_t kept;        /* parameters, running statistics, what the optimiser remembers */
    size_t gradients;   /* of the parameters, and the optimiser's tables */
    size_t activations; /* everything else in a step: one block, whose buffers share bytes by
                           lifetime */
    size_t images;      /* the data set or the ring of batches of a run; 0 for a model */
    size_t total;
} kas_memory_plan;

#endif
