/* Splits: named ways of cutting a dim into segments.
 *
 * Sizes are monomials, and C - 16 is none. Yet branches over parts of the channels or bands of the
 * image need exact shapes. So a kernel says once, under a name, how it cuts a whole dim, and its
 * slices and concatenations refer to that name:
 *
 *     S0 = C in n equal shares     segments of size C/n each, n = 2 to 4
 *     S1 = the first f of C        segments of size f and R1: a symbol of its own, whose value at
 *                                  every target is C - f
 *     S2 = the first 1/n of C      segments of size C/n and C*(n-1)/n, n = 3 to 4096; the first
 *                                  half is the first of 2 shares
 *
 * The whole may hold the rests of other splits (the rest of a rest), but not in a circle; with
 * `first` it may not hold a dynamic variable. No two splits of a kernel are the same, so that equal
 * segments have equal symbols. Every split is used by a slice or a concatenation; the order of
 * those gives the splits their canonical numbers. */
#ifndef KAS_SPACE_SPLIT_H
#define KAS_SPACE_SPLIT_H

#include "host/space/kernel.h"

enum { KAS_MAX_SHARES = KAS_MAX_INPUTS, KAS_MAX_FIRST = 1 << 16, KAS_MAX_PART = 4096 };

/* Return the name "S0" to "S3" of a split, NULL when it is out of range; and the split of a name,
 * -1 for anything else. */
const char *kas_split_name(int split);
int kas_split_find(const char *name);

/* Returns the splits that a slice or a concatenation uses, as bits. */
uint32_t kas_kernel_splits(const kas_kernel *kernel);

/* Returns the number of segments of a split. */
int kas_split_segments(const kas_split *split);
/* Computes the size of a segment. Returns false when the monomial leaves its range. */
bool kas_split_segment(const kas_kernel *kernel, int split, int segment, kas_dim *out);
/* The same for a split that has the number `split` in its kernel. */
bool kas_split_part(const kas_split *s, int split, int segment, kas_dim *out);
/* Returns whether two splits cut the same whole in the same way. */
bool kas_splits_equal(const kas_split *a, const kas_split *b);
/* Returns where a segment begins along the dim, given that it has `size` elements at a target. */
uint32_t kas_split_begin(const kas_split *split, int segment, uint32_t size);

/* Checks that the split that node i uses is well formed. Returns KAS_ILLEGAL with a message that
 * names the node. */
kas_status kas_split_check(const kas_kernel *kernel, int i);
/* Checks that every rest in use belongs to a split that some slice or concatenation uses. Returns
 * KAS_ILLEGAL otherwise. */
kas_status kas_splits_check(const kas_kernel *kernel);

/* Gives the rests their values in a binding that has values for C, H, W, K_H, K_W and the groups. A
 * rest that would be empty stays without a value; kas_splits_check_binding reports it. */
void kas_splits_bind(const kas_kernel *kernel, kas_binding *binding);
kas_status kas_splits_check_binding(const kas_kernel *kernel, const kas_binding *binding);

/* Appends the split for people: "C in 2 shares", "the first 16 of C, the rest is R0". */
void kas_split_print(const kas_kernel *kernel, int split, kas_buf *out);

#endif
