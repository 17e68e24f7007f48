/* How an attempt to sample a kernel went.  Shared by the samplers and by what they are made of. */
#ifndef KAS_SPACE_ATTEMPT_H
#define KAS_SPACE_ATTEMPT_H

#include <stdint.h>

#include "host/core/status.h"

/* Why an attempt gave no kernel; counted by `sample --stats`. */
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
    KAS_REJECT_ONE_PIXEL, /* would replace a K > 1 convolution and never looks at a neighbour */
    KAS_REJECT_COUNT
} kas_reject;
const char *kas_reject_name(kas_reject why);
/* What a status of a solver says of a kernel; others are returned. */
kas_status kas_reject_of(kas_status status, kas_reject *why);

/* How an attempt went. */
typedef struct kas_attempt {
    kas_reject why;                      /* NONE: it gave a kernel; else what ended the last try */
    uint32_t tries;                      /* the rejection sampler has one */
    uint32_t rejected[KAS_REJECT_COUNT]; /* of them, by reason */
} kas_attempt;

#endif
