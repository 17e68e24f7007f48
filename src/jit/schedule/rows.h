/* Rows: a softmax or a norm over contiguous elements, and its gradient, in one kernel that reads
 * its operands once.
 *
 * Without this, what is reduced (a maximum, a sum, a mean) is a tensor of its own, with a kernel
 * that reads all of the operand. Here the lanes of a kernel are the very elements that are reduced,
 * so each reduction goes round among the lanes,
 *
 *     y[p, c] = exp(x[p, c] - max(c') x[p, c']) / sum(c') exp(x[p, c'] - max(..))
 *             = exp(x[p, v] - ROW(max, x[p, v])) / ROW(sum, exp(x[p, v] - ROW(max, x[p, v])))
 *
 * and, because expressions are hash-consed, x[p, v] and its exponential are one value each, kept
 * in registers (cuda/kernels/row.h). It does not matter which element of the row a lane takes:
 * any sum over as many elements as the row has lanes, with the same result for all lanes, is
 * such a reduction.
 *
 * Columns are the same for reductions over elements that lie apart: H, W, leading channels. The
 * lanes lie along what is contiguous, and each lane walks its column once for every reduction
 * and once more for the result (emit_column.c); what a walk found is kept like a row's, or read
 * again. */
#ifndef KAS_JIT_SCHEDULE_ROWS_H
#define KAS_JIT_SCHEDULE_ROWS_H

#include "jit/fuse/fuse.h"

enum {
    /* Fewest elements; shorter rows are reduced inside a lane, at nearly the same cost */
    KAS_ROW_LEAST = 16,
    KAS_ROW_MOST = 1024, /* most elements: 32 threads hold them in 32 registers each */
    KAS_ROW_OUTPUTS = 4, /* most tensors that a kernel writes beside its own */
    KAS_COLUMN_MOST = 1024,
    KAS_COLUMN_KEPT = 64 /* registers for kept values of a column */
};

/* Finds the tensors whose kernels can take in what they reduce, and sets row_var, row_value and
 * row_owner. What nothing else reads is then no longer in memory. Call it after kas_fuse. */
kas_status kas_rows_find(kas_ir *ir);

/* Returns whether dim d of t belongs to its row or its column. */
bool kas_row_has_dim(const kas_ir_tensor *t, int d);

/* Writes the index of t in terms of its kernel's variables: those of the dims outside the row, and
 * the row or column. */
void kas_row_index(kas_ir *ir, const kas_ir_tensor *t, kas_ix *idx);

/* Lists the tensors in memory that t's kernel writes too; returns their number,
 * at most KAS_ROW_OUTPUTS. */
int kas_rows_outputs(const kas_ir *ir, int t, int *output);

#endif
