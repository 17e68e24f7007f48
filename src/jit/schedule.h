/* Scheduling: the loops of one kernel, which of them are lanes, blocks, rows or plain loops.
 *
 *     lanes   the contiguous dimension, after neighbouring dims that every access walks alike were
 *             made one; cut in chunks when long
 *     grid    up to three coordinates of the block (a chunk of lanes is one)
 *     rows    a loop that the threads' y coordinate shares, when lanes alone do not fill a block
 *     serial  what is left
 *
 * Loops are split where that removes a division, so that indices are sums of coordinates.
 */
#ifndef KAS_JIT_SCHEDULE_H
#define KAS_JIT_SCHEDULE_H

#include "jit/fuse.h"

enum { KAS_NEST_LOOPS = 32, KAS_LONG_REDUCE = 25 };

typedef struct kas_nest {
    int tensor;                      /* whose memory is written */
    kas_ex value;                    /* loads only, no reads */
    kas_ix store;                    /* flat address */
    int loops, loop[KAS_NEST_LOOPS]; /* variables, outermost first */
    int lane;                        /* variable, -1 = one lane */
    int64_t lanes;                   /* of a block */
    int rows;                        /* variable or -1 */
    int serials, serial[KAS_NEST_LOOPS];
    int axis_var[3]; /* what each grid axis counts: a variable, -1 = nothing, -2 = lane chunks */
    unsigned grid[3], block[3];
    bool wide; /* addresses need 64 bits */
} kas_nest;

/* `value` and the store of tensor, scheduled. */
kas_status kas_schedule(kas_ir *ir, int tensor, kas_ex value, kas_nest *out);

/* Calls `see` for each index expression of the kernel, once for each place where it stands. */
typedef void kas_ix_visitor(void *context, const kas_ex_node *node, kas_ix ix);
kas_status kas_nest_visit(const kas_ir *ir, const kas_nest *nest, kas_ix_visitor *see,
                          void *context);

/* Whether a reduction runs outside the lanes: long, and evaluated once a lane. */
double kas_reduce_length(const kas_ir *ir, kas_ex e);

/* Proves from ranges alone that every access stays inside its tensor's memory, and that the launch
 * is legal; KAS_FAILURE otherwise. Fills the floors of the operation. (check.c) */
kas_status kas_nest_check(const kas_ir *ir, const kas_nest *nest);
kas_status kas_nest_floors(const kas_ir *ir, const kas_nest *nest, double *flops, double *bytes);

#endif
