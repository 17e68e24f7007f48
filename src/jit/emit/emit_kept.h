/* What a kernel keeps from one of its loops to a later one: of a row (emit_row.c), of a column
 * (emit_column.c).
 *
 * Such a kernel has one loop for each reduction, and one for the rest.  What a loop computes and a
 * later one needs is kept: the operand, which is read once, and what is costly or not; a register
 * costs less than either.  Where there is no room for all of it, what a reduction inside the lanes
 * made (a window sum) comes first: to compute that again is to read all that it sums up. */
#ifndef KAS_JIT_EMIT_EMIT_KEPT_H
#define KAS_JIT_EMIT_EMIT_KEPT_H

#include "jit/emit/emitter.h"

enum { KAS_KEPT_LOOPS = 16 };

typedef struct kas_kept {
    kas_emitter *emitter;
    uint64_t turns, loops; /* masks: of what is reduced over, of all loops of the kernel */
    kas_ex reduction[KAS_KEPT_LOOPS];
    int reductions;
    char *phase; /* by kas_ex: which loop computes it, from 1; 0 = none yet */
    char *keep;  /* by kas_ex: the last loop that needs it; 0 = it is not kept */
    char *sums;  /* by kas_ex: holds a reduction inside the lanes */
    bool sums_first;
    int room, held[KAS_KEPT_LOOPS + 2]; /* values; from a loop to the next one */
} kas_kept;

/* Plans the loops of e's kernel, whose reductions are over `var`; at most `room` values are kept at
 * a time.  kas_kept_free also after a failure. */
kas_status kas_kept_plan(kas_kept *k, kas_emitter *e, int var, int room);
void kas_kept_free(kas_kept *k);
/* Whether loop `phase` makes x for a later one. */
bool kas_kept_from(const kas_kept *k, kas_ex x, int phase);

#endif
