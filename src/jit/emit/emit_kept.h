/* Plans what a kernel keeps from one of its loops to a later one, for rows (emit_row.c) and for
 * columns (emit_column.c).
 *
 * Such a kernel has one loop for each reduction and one for the rest. What a loop computes and a
 * later one needs is kept, be it an operand, which is then read once, or a value, costly or not: a
 * register costs less than either. Where there is no room for everything, the result of a reduction
 * inside the lanes (a window sum) comes first, because computing it again means reading everything
 * that it sums up. */
#ifndef KAS_JIT_EMIT_EMIT_KEPT_H
#define KAS_JIT_EMIT_EMIT_KEPT_H

#include "jit/emit/emitter.h"

enum { KAS_KEPT_LOOPS = 16 };

typedef struct kas_kept {
    kas_emitter *emitter;
    /* Masks of variables: the one reduced over; those of all loops of the kernel */
    uint64_t turns, loops;
    kas_ex reduction[KAS_KEPT_LOOPS];
    int reductions;
    char *phase; /* by kas_ex: the loop that computes it, from 1; 0 = none yet */
    char *keep;  /* by kas_ex: the last loop that needs it; 0 = it is not kept */
    char *sums;  /* by kas_ex: whether it holds a reduction inside the lanes */
    bool sums_first;
    /* room: values that may be kept; held[k]: values kept from loop k to the next */
    int room, held[KAS_KEPT_LOOPS + 2];
} kas_kept;

/* Plans the loops of e's kernel, whose reductions are over `var`; at most `room` values are kept at
 * a time. Call kas_kept_free also after a failure. */
kas_status kas_kept_plan(kas_kept *k, kas_emitter *e, int var, int room);
void kas_kept_free(kas_kept *k);
/* Returns whether loop `phase` computes x for a later loop. */
bool kas_kept_from(const kas_kept *k, kas_ex x, int phase);

#endif
