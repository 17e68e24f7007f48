/* Kernels for people: a line of text for each node, and a Graphviz picture. */
#ifndef KAS_SPACE_DESCRIBE_H
#define KAS_SPACE_DESCRIBE_H

#include "host/space/kernel.h"

/* Appends what node i does: "unfold h and w", "fc within groups to C", "mul, LHS
 * repeated C/G0 times". */
void kas_node_describe(const kas_kernel *kernel, int i, kas_buf *out);

/* The class of a primitive, by which pictures choose its colour: "input", "weight" (has weights),
 * "rearrangement" (moves values), "broadcast" (combines two tensors) or "arithmetic". */
const char *kas_node_class(int op);

/* Appends a Graphviz digraph named `name`. Each node is a box with what it does and its
 * shape; edges of broadcasts say which operand is LHS and which RHS; colours tell the four
 * classes of primitives apart. With `binding`, which may be NULL, the numbers at that target
 * stand below the symbols. */
kas_status kas_kernel_write_dot(const kas_kernel *kernel, const char *name,
                                const kas_binding *binding, kas_buf *out);

#endif
