/* Shares equal kernels among programs that are compiled together, so that each is compiled once.
 *
 * A network's layers differ in some of their sizes only, and many generated kernels do not depend
 * on those: of the kernels of 180 sampled micro-DAGs at the ten distinct shapes of ResNet-18, 32%
 * repeat one of the same candidate. Compilers take time by the line. */
#ifndef KAS_JIT_COMPILE_SHARE_H
#define KAS_JIT_COMPILE_SHARE_H

#include "host/core/buf.h"
#include "jit/ir/program.h"

/* Appends the text of a kernel that stands in the program's source, under another name. The name is
 * replaced wherever its characters stand, since a kernel's text names no other kernel. */
kas_status kas_kernel_named(const kas_program *program, const kas_operation *op, const char *name,
                            kas_buf *out);
/* Appends what equal kernels have in common: the dtype that kas_real stands for, and the text
 * without the kernel's own name. */
kas_status kas_kernel_nameless(const kas_program *program, const kas_operation *op, kas_buf *out);

/* Drops from the programs' sources every kernel that equals, but for its name, an earlier
 * kernel of any of them; the operations then call the earlier one. The sources must be
 * compiled together afterwards. */
kas_status kas_programs_share(kas_program *const *program, int count);

#endif
