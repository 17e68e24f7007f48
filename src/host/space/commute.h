/* One form for kernels that differ only in the order of operands that commute.
 *
 * add, mul, min and max of two tensors of one shape mean the same in either order. The canonical
 * form keeps the order of operands all the same, because names in users' studies depend on it. A
 * sampler must not give a kernel twice, so it puts the operands of every kernel that it has grown
 * into the one order that is defined here, and all orders get one name. */
#ifndef KAS_SPACE_COMMUTE_H
#define KAS_SPACE_COMMUTE_H

#include "host/space/canonical.h"

/* Returns whether the node is an add, mul, min or max of two tensors of one shape with the same
 * group dims. */
bool kas_operands_commute(const kas_kernel *kernel, const kas_node *node);

/* Writes the canonical form that all kernels share which differ from this one only in the order of
 * operands that commute. Operands are ordered by hashes of what they are computed from and of what
 * reads them; operands with equal hashes may still differ in their surroundings, so both orders are
 * tried and the form whose text sorts first is taken. Of more than 12 such pairs the first 12 are
 * tried. The kernel must be inferred; `out` may be `kernel`. */
kas_status kas_kernel_canonicalize_unordered(const kas_kernel *kernel, kas_kernel *out);

#endif
