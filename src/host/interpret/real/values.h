/* The tensors that a function of a primitive or layer works on. */
#ifndef KAS_INTERPRET_REAL_VALUES_H
#define KAS_INTERPRET_REAL_VALUES_H

#include "host/interpret/steps.h"
#include "host/interpret/real/matmul.h"

/* For one image and one instance. A backward function ADDS to din and dweight, which is NULL where
 * it is not wanted, and may spoil dy. Values are there as far as kas_step.computed says. */
typedef struct values {
    const real *in[KAS_MAX_INPUTS], *weight;
    real *y;
    real *dy, *din[KAS_MAX_INPUTS], *dweight;
    real *work;
} values;

#endif
