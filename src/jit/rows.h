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
 * registers (device_code/row.h).  It does not matter which element of the row a lane takes: any
 * sum of as many elements as the row has lanes, the same to all of them, is such a reduction. */
#ifndef KAS_JIT_ROWS_H
#define KAS_JIT_ROWS_H

#include "jit/fuse.h"

enum {
    KAS_ROW_LEAST = 16,  /* elements; shorter ones are summed up inside a lane, or nearly */
    KAS_ROW_MOST = 1024, /* what 32 threads hold in 32 registers each */
    KAS_ROW_OUTPUTS = 4  /* what a kernel writes beside its rows */
};

/* After kas_fuse: finds the tensors whose kernels can take in what they reduce, sets row_var,
 * row_value and row_owner; what nothing else reads is no longer in memory. */
kas_status kas_rows_find(kas_ir *ir);

/* Tensors in memory that t's kernel writes too: at most KAS_ROW_OUTPUTS. */
int kas_rows_outputs(const kas_ir *ir, int t, int *output);

#endif
