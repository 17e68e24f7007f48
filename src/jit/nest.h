/* Rewrites of a kernel's loops that schedule.c applies before it places them. */
#ifndef KAS_JIT_NEST_H
#define KAS_JIT_NEST_H

#include "jit/schedule.h"

/* Splits loops and reductions as long as that removes divisions. */
kas_status kas_nest_split(kas_ir *ir, kas_nest *nest);
/* Merges neighbouring loops that every index walks as one. */
kas_status kas_nest_merge(kas_ir *ir, kas_nest *nest);

#endif
