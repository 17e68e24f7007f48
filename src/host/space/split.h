/* Splits: named ways of cutting a dim into segments.
 *
 * Sizes are monomials, and C - 16 is none.  So that branches over parts of the channels or bands of
 * the image keep exact shapes, a kernel names how it cuts a whole dim, once, and its slices and
 * concatenations refer to that name:
 *
 *     S0 = C in n equal shares     segments of size C/n each, n = 2 to 4
 *     S1 = the first f of C        segments of size f and R1: a symbol of its own, whose value at
 *                                  every target is C - f
 *
 * The whole may hold the rests of other splits (the rest of a rest), in no circle; with `first` it
 * may not hold a dynamic variable.  No two splits of a kernel are the same, so that equal segments
 * have equal symbols; and every split is used by a slice or a concatenation, whose order gives the
 * splits their canonical numbers.
 */
#ifndef KAS_SPACE_SPLIT_H
#define KAS_SPACE_SPLIT_H

#include "host/space/kernel.h"

enum { KAS_MAX_SHARES = KAS_MAX_INPUTS, KAS_MAX_FIRST = 1 << 16 };

/* "S0" to "S3", and back: -1 for anything else. */
const char *kas_split_name(int split);
int kas_split_find(const char *name);

/* Bit s is set when a slice or a concatenation uses split s. */
uint32_t kas_kernel_splits(const kas_kernel *kernel);

int kas_split_segments(const kas_split *split);
/* Size of a segment; false when it leaves its range. */
bool kas_split_segment(const kas_kernel *kernel, int split, int segment, kas_dim *out);
/* Where a segment begins, when it has `size` elements at a target. */
uint32_t kas_split_begin(const kas_split *split, int segment, uint32_t size);

/* Is the split that node i uses well formed? KAS_ILLEGAL with a message that names the node. */
kas_status kas_split_check(const kas_kernel *kernel, int i);
/* Rests without a split of theirs: KAS_ILLEGAL. */
kas_status kas_splits_check(const kas_kernel *kernel);

/* Gives the rests their values; C, H, W, K_H, K_W and the groups have theirs.  A rest of nothing
 * stays without value, which kas_splits_check_binding reports. */
void kas_splits_bind(const kas_kernel *kernel, kas_binding *binding);
kas_status kas_splits_check_binding(const kas_kernel *kernel, const kas_binding *binding);

/* "C in 2 shares", "the first 16 of C, the rest is R0". */
void kas_split_print(const kas_kernel *kernel, int split, kas_buf *out);

#endif
