/* Rows: a softmax or a norm over contiguous elements, and its gradient, in one kernel that reads
 * its operands once.
 *
 * Otherwise what is reduced (a maximum, a sum, a mean) is a tensor of its own, with a kernel that
 * reads all of the operand.  Here the lanes of a kernel are the very elements that are reduced, so
 * that each reduction goes round among the lanes,
 *
 *     y[p, c] = exp(x[p, c] - max(c') x[p, c']) / sum(c') exp(x[p, c'] - max(..))
 *             = exp(x[p, v] - ROW(max, x[p, v])) / ROW(sum, exp(x[p, v] - ROW(max, x[p, v])))
 *
 * and, expressions being hash-consed, x[p, v] and its exponential are one value each, kept in
 * registers (cuda/kernels/row.h).  It does not matter which element of the row a lane takes: any
 * sum of as many elements as the row has lanes, the same to all of them, is such a reduction. */
#ifndef KAS_JIT_SCHEDULE_ROWS_H
#define KAS_JIT_SCHEDULE_ROWS_H

#include "jit/fuse/fuse.h"

/* Columns are the same where what is reduced lies apart: H, W, leading channels.  The lanes lie
 * along what is contiguous, and each of them walks the column for every reduction and once more for
 * the result (emit_column.c); what a walk found is kept like a row's, or read again. */

enum {
    KAS_ROW_LEAST = 16,  /* elements; shorter ones are summed up inside a lane, or nearly */
    KAS_ROW_MOST = 1024, /* what 32 threads hold in 32 registers each */
    KAS_ROW_OUTPUTS = 4, /* what a kernel writes beside its rows */
    KAS_COLUMN_MOST = 1024,
    KAS_COLUMN_KEPT = 64 /* registers for what is kept of a column */
};

/* After kas_fuse: finds the tensors whose kernels can take in what they reduce, sets row_var,
 * row_value and row_owner; what nothing else reads is no longer in memory. */
kas_status kas_rows_find(kas_ir *ir);

/* Whether dim d of t is of its row or its column. */
bool kas_row_has_dim(const kas_ir_tensor *t, int d);

/* What the dims of t are in terms of its kernel's variables: those of dims outside the row, the row
 * or the column. */
void kas_row_index(kas_ir *ir, const kas_ir_tensor *t, kas_ix *idx);

/* The dims, as bits, that a kernel of columns of tensor t walks, where what is `inside` (by tensor)
 * reduces `along` elements; 0 where there are no columns or they would not pay (columns.c). */
uint32_t kas_columns_of(const kas_ir *ir, int t, const char *inside, int64_t along);

/* Tensors in memory that t's kernel writes too: at most KAS_ROW_OUTPUTS. */
int kas_rows_outputs(const kas_ir *ir, int t, int *output);

#endif
