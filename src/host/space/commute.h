/* One form for kernels that differ only in the order of operands that commute.
 *
 * add, mul, min and max of two tensors of one shape mean the same in either order, but the
 * canonical form keeps the order of operands, and names in users' studies depend on that.  So a
 * sampler, which must not give a kernel twice, puts the operands of what it has grown in the one
 * order that is defined here, and then has one name for all. */
#ifndef KAS_SPACE_COMMUTE_H
#define KAS_SPACE_COMMUTE_H

#include "host/space/canonical.h"

/* Is it one of those, of two tensors of one shape with the same group dims? */
bool kas_operands_commute(const kas_kernel *kernel, const kas_node *node);

/* The canonical form of all kernels that differ from this one in nothing but the order of such
 * operands.  They are ordered by what they are made of and used for; those that this does not tell
 * apart may still differ in what lies around them, so both orders are tried, and the form whose text
 * sorts first is taken.
 * Of more than 12 pairs of that kind the first 12 are tried.  The kernel is inferred; `out` may be
 * `kernel`. */
kas_status kas_kernel_canonicalize_unordered(const kas_kernel *kernel, kas_kernel *out);

#endif
