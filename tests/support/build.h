/* Builds kernels in C, for tests.
 *
 *     kas_kernel k = {0};
 *     int x = kas_build_input(&k);
 *     int u = kas_build_unfold(&k, x, KAS_AXIS_H | KAS_AXIS_W);
 *     int y = kas_build_fc(&k, u, false, "C");
 *     KAS_TRY(kas_kernel_infer(&k));
 *
 * Every call appends one node, infers its shape and returns the node's number. On failure it sets
 * kas_error() and returns -1. A call with an operand of -1 returns -1 too, so the caller needs to
 * check only the last node of a chain. */
#ifndef KAS_SUPPORT_BUILD_H
#define KAS_SUPPORT_BUILD_H

#include "host/space/kernel.h"

/* Appends the input, which must be node 0. */
int kas_build_input(kas_kernel *kernel);
/* Returns whether two kernels have the same nodes, splits and numbers; what lies between and behind them
 * in memory does not count. */
bool kas_build_same(const kas_kernel *a, const kas_kernel *b);
int kas_build_group(kas_kernel *kernel, int in, int dim, int symbol); /* symbol 0..3: G0..G3 */
int kas_build_group_all(kas_kernel *kernel, int in, int dim);
int kas_build_shift(kas_kernel *kernel, int in, int axis, int offset);
int kas_build_unfold(kas_kernel *kernel, int in, int axes);
/* `window` 0 means the window of the replaced convolution; `dilation` 0 or 1 means no dilation. */
int kas_build_unfold_window(kas_kernel *kernel, int in, int axes, int window, int dilation);
int kas_build_shuffle(kas_kernel *kernel, int in, int dim, int symbol); /* symbol 0..3: G0..G3 */
/* Appends a pool. `op` is KAS_OP_POOL_AVG or KAS_OP_POOL_MAX; `window` is as for an unfold. */
int kas_build_pool(kas_kernel *kernel, kas_op op, int in, int axes, int window);
/* Adds a split of `whole`, a size written as in kernel files, to the kernel and returns the split's
 * number. With `shares` > 0 the split has that many equal segments and `first` must be 0. With
 * `shares` 0 it has two segments: the first `first` elements, and the rest. */
int kas_build_split(kas_kernel *kernel, const char *whole, int shares, int first);
int kas_build_slice(kas_kernel *kernel, int in, int dim, int split, int segment);
/* Appends a concatenation; `in` holds as many operands as the split has segments. */
int kas_build_concat(kas_kernel *kernel, const int *in, int dim, int split);
/* Appends a fully-connected map. `out` is a size written as in kernel files: "C", "x0",
 * "G0*K_H*K_W", "C/G0". */
int kas_build_fc(kas_kernel *kernel, int in, bool grouped, const char *out);
/* Appends a convolution: an FC over the windows that kas_build_unfold_window would make. The
 * depthwise one convolves every channel by itself. */
int kas_build_conv(kas_kernel *kernel, int in, int axes, int window, int dilation, bool grouped,
                   const char *out);
int kas_build_conv_depthwise(kas_kernel *kernel, int in, int axes, int window, int dilation);
int kas_build_mix(kas_kernel *kernel, int in, int dim, int dim_end, const char *out);
/* `transpose` is a mask of KAS_TRANSPOSE_*. */
int kas_build_bmm(kas_kernel *kernel, int lhs, int rhs, int transpose, bool softmax);
int kas_build_elementwise(kas_kernel *kernel, kas_op op,
                          int in); /* KAS_OP_RELU ... KAS_OP_SQUARE */
int kas_build_fold(kas_kernel *kernel, kas_op op, int in, int dim);
/* `op` is KAS_OP_SOFTMAX, KAS_OP_NORM or KAS_OP_SCALE. */
int kas_build_along(kas_kernel *kernel, kas_op op, int in, int dim, int dim_end);
int kas_build_softmax(kas_kernel *kernel, int in, int dim, int dim_end);
int kas_build_broadcast(kas_kernel *kernel, kas_op op, int lhs, int rhs); /* KAS_OP_ADD ... _MAX */

#endif
