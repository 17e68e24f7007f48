/* The lines of PyTorch of one node, python_NAME.c for each type of primitives, and what these files
 * share. Internal to the export.  Tensors are [B, R, dims...]: batch, instance, then the dims of
 * the kernel's shapes, so dim d of a shape is dim d + 2 of the tensor. */
#ifndef KAS_EXPORT_PYTHON_NODE_H
#define KAS_EXPORT_PYTHON_NODE_H

#include "host/core/buf.h"
#include "host/space/kernel.h"

/* The statements of node i (not the input): "        n3 = ...\n". `weight` is the number of its
 * weight, if it has one. */
kas_status kas_python_node(const kas_kernel *kernel, int i, int weight, kas_buf *out);

/* A size as an integer expression: "C // G0", "(C * K_H) // (2 * G0)". */
void kas_python_dim(const kas_dim *dim, kas_buf *out);
/* "H, W": height and width of a tensor, 1 where it has none; "K_H, 1": the taps of a window. */
void kas_python_image(const kas_shape *shape, kas_buf *out);
void kas_python_window(const kas_node *node, kas_buf *out);
/* Group dims first, then contracted ones, unless they lie so already: ".permute(0, 1, ...)". */
void kas_python_permutation(const kas_node *node, const kas_shape *in, kas_buf *out);
/* "        n3 = n2.reshape(B, R, C, H, W)\n": node `from` in the shape of node i. */
kas_status kas_python_reshape(const kas_kernel *kernel, int i, int from, kas_buf *out);
/* KAS_UNSUPPORTED: the primitive has no PyTorch form. */
kas_status kas_python_unknown(const kas_kernel *kernel, int i);

/* One for each type of primitives, as kas_python_node. */
kas_status kas_python_group(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_shift(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_unfold(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_shuffle(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_slice(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_concat(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_fc(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_conv(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_mix(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_scale(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_elementwise(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_fold(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_pool(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_softmax(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_norm(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_bmm(const kas_kernel *kernel, int i, int weight, kas_buf *out);
kas_status kas_python_broadcast(const kas_kernel *kernel, int i, int weight, kas_buf *out);

#endif
