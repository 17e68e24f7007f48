/* Steps and schedules as text, as sequence.h writes them:
 *
 *     kernel f0
 *     # loops: n 16, h 8, w 8, c0 64; reductions: r0 256
 *     fuse n h
 *     lane c0
 *     lanes 64
 *     rows w 8
 *     block n*h x
 *     around r0
 *
 * Loops of activations are called n, h, w, q, p (the instance) and c0, c1, ...; those of other
 * tensors d0, d1, ...; a row or a column is `row` or `column`, and `row_block` counts the rows of a
 * pixel. Reductions are r0, r1, ..., outer ones first. Steps make the names L/n, L%n and A*B. The
 * comment also says which loops count parts of a sum that lowering split (lower/reduce.c); another
 * kernel adds them up.
 * Internal to schedule, but for kas_schedule_print. */
#ifndef KAS_JIT_SCHEDULE_SEQUENCE_TEXT_H
#define KAS_JIT_SCHEDULE_SEQUENCE_TEXT_H

#include "host/core/buf.h"
#include "jit/schedule/schedule.h"

typedef enum kas_step_operands {
    KAS_NO_LOOP,
    KAS_A_LOOP,
    KAS_TWO_LOOPS,
    KAS_A_LOOP_AND_AXIS
} kas_step_operands;

/* How a step is written: a word, its operands, and perhaps a number. */
typedef struct kas_step_form {
    const char *word;
    kas_step_operands operands;
    bool number;
} kas_step_form;
extern const kas_step_form kas_step_forms[KAS_STEP_KINDS];

/* Append the name of a loop or reduction, and a step; the nest is as it was before the step, or
 * later. */
void kas_loop_print(const kas_ir *ir, const kas_nest *nest, int id, kas_buf *out);
void kas_step_print(const kas_ir *ir, const kas_nest *nest, kas_step step, kas_buf *out);
/* Appends the steps of a nest, with a comment that lists its loops before any step. `name`: of the
 * kernel, such as "f0". */
void kas_schedule_print(const kas_ir *ir, const kas_nest *nest, const char *name, kas_buf *out);

#endif
