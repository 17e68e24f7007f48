/* The outcome of one attempt to sample a kernel. The samplers and the files that they are made of
 * share it. */
#ifndef KAS_SPACE_ATTEMPT_H
#define KAS_SPACE_ATTEMPT_H

#include <stdint.h>

#include "host/core/status.h"

/* The reasons why an attempt gave no kernel. `sample --stats` counts them. */
typedef enum kas_reject {
    KAS_REJECT_NONE,
    KAS_REJECT_DEAD_END,  /* no legal primitive left */
    KAS_REJECT_OUTPUT,    /* output is not [C, H, W] */
    KAS_REJECT_REDUNDANT, /* a pruning rule */
    KAS_REJECT_VARIABLES, /* no integer sizes at some target */
    KAS_REJECT_BUDGET,
    KAS_REJECT_SIZE, /* tensor or weight limits */
    KAS_REJECT_DUPLICATE,
    KAS_REJECT_NO_WEIGHT, /* nothing to learn */
    /* It would replace a convolution with K > 1 and never looks at a neighbour */
    KAS_REJECT_ONE_PIXEL,
    KAS_REJECT_COUNT
} kas_reject;
/* Returns the reason as a word for tables and messages. */
const char *kas_reject_name(kas_reject why);
/* Sets *why to the reason that a solver's status stands for and returns KAS_OK. Returns any other
 * status unchanged and leaves *why alone. */
kas_status kas_reject_of(kas_status status, kas_reject *why);

/* The outcome of an attempt. */
typedef struct kas_attempt {
    /* KAS_REJECT_NONE: the attempt gave a kernel; else the reason that ended the last try */
    kas_reject why;
    uint32_t tries;                      /* tries made */
    uint32_t rejected[KAS_REJECT_COUNT]; /* rejected tries, by reason */
} kas_attempt;

#endif
