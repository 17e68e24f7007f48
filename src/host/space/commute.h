/* One order for operands that commute.
 *
 * add, mul, min and max of two tensors of one shape mean the same in either order, but the
 * canonical form keeps the order of operands, and names in users' studies depend on that.  So a
 * sampler that must not give a kernel twice puts the operands of what it has grown in the one order
 * that this function defines, and then has one name for both. */
#ifndef KAS_SPACE_COMMUTE_H
#define KAS_SPACE_COMMUTE_H

#include "host/space/kernel.h"

/* Is it one of those, of two tensors of one shape with the same group dims? */
bool kas_operands_commute(const kas_kernel *kernel, const kas_node *node);

/* Orders operands by what they are made of and what they are used for, seen without numbers of
 * nodes and names of symbols.  The kernel is inferred and stays so: shapes do not change.  Operands
 * that nothing tells apart are left as they are; their exchange changes nothing.  The order must
 * stay as it is: what the samplers give depends on it. */
void kas_kernel_order_operands(kas_kernel *kernel);

#endif
