/* Cuts the text of a candidate's programs into units, which are compiled separately.
 *
 * Cuts lie between kernels, so that several cores can compile one candidate. A unit should hold
 * many kernels, because starting the compiler and reading the prelude cost as much as a kernel or
 * more. The cut depends on the text and the architecture alone, so a process that compiles a
 * candidate ahead of need finds the same units. */
#ifndef KAS_JIT_COMPILE_UNITS_H
#define KAS_JIT_COMPILE_UNITS_H

#include "host/core/buf.h"
#include "jit/ir/program.h"

typedef struct kas_units {
    int count;
    kas_buf *text; /* [count] */
} kas_units;

/* Cuts the texts of `programs`, whose equal kernels may be shared (share.h), for `arch`
 * (compile.h), and sets `unit` of every launch. Call kas_units_free also after a failure. */
kas_status kas_units_cut(kas_program *const *program, int programs, const char *arch,
                         kas_units *out);
void kas_units_free(kas_units *units);

#endif
