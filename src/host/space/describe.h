/* Kernels for people: a line for each node, and a Graphviz picture. */
#ifndef KAS_SPACE_DESCRIBE_H
#define KAS_SPACE_DESCRIBE_H

#include "host/space/kernel.h"

/* What node i does: "unfold h and w", "fc within groups to C", "mul, LHS repeated C/G0 times". */
void kas_node_describe(const kas_kernel *kernel, int i, kas_buf *out);

/* A Graphviz digraph named `name`: one box a node with what it does and its shape; for broadcasts
 * the edges say which operand is which.  Colours tell the four classes of primitives apart.
 * `binding` may be NULL; with it the numbers at that target stand below the symbols. */
kas_status kas_kernel_write_dot(const kas_kernel *kernel, const char *name,
                                const kas_binding *binding, kas_buf *out);

#endif
