/* Functions of libm that loops may call for several values at once. Internal to interpret. */
#ifndef KAS_INTERPRET_VECTOR_H
#define KAS_INTERPRET_VECTOR_H

#include <math.h>

/* glibc has these functions for vectors too, and declares them only under -ffast-math. */
#if defined __x86_64__ && defined __GLIBC_PREREQ && !defined __clang__
#if __GLIBC_PREREQ(2, 35)
#define VECTOR_FUNCTION __attribute__((simd("notinbranch")))
VECTOR_FUNCTION float expf(float), sinf(float), cosf(float), tanhf(float), erff(float);
VECTOR_FUNCTION double exp(double), sin(double), cos(double), tanh(double), erf(double),
    log(double);
#endif
#endif

#endif
