/* The canonical form of a kernel, and the name that follows from it.
 *
 * Two kernels have the same canonical text exactly when they are isomorphic with equal
 * attributes and the same order of operands, up to the names of variables, group symbols and
 * splits. Operands are ordered and every node is reachable from the one output, so numbering the
 * nodes by a depth-first walk from the output (operands in order, each node when the walk leaves
 * it) is already canonical. Variables, group symbols and splits are renamed in the order of that
 * walk. No hash of an approximate isomorphism is involved, so names in users' studies stay valid
 * for good. */
#ifndef KAS_SPACE_CANONICAL_H
#define KAS_SPACE_CANONICAL_H

#include "host/space/kernel.h"

enum { KAS_NAME_SIZE = 17 }; /* 16 hex digits and NUL */

/* Writes the canonical form of a legal kernel to `out`, which may be `kernel`. Nodes, variables,
 * symbols and splits are renumbered, shapes are inferred again, and group symbols and splits that
 * nothing uses are dropped. */
kas_status kas_kernel_canonicalize(const kas_kernel *kernel, kas_kernel *out);

/* The renaming that made a canonical form: the new number of each old node, symbol and split, or -1
 * where nothing uses it. */
typedef struct kas_renaming {
    int node[KAS_MAX_NODES];
    int symbol[KAS_SYM_COUNT];
    int split[KAS_MAX_SPLITS]; /* the rest R<split> is renamed with its split */
} kas_renaming;
/* The same; also reports the renaming. */
kas_status kas_kernel_canonicalize_with(const kas_kernel *kernel, kas_kernel *out,
                                        kas_renaming *renaming);
/* Appends the canonical text of a kernel: one line, group values included. */
kas_status kas_kernel_canonical_text(const kas_kernel *kernel, kas_buf *out);
/* Writes the kernel's name: the first 64 bits of the SHA-256 of its canonical text, in hex. */
kas_status kas_kernel_name(const kas_kernel *kernel, char name[KAS_NAME_SIZE]);
/* The same for a kernel that is canonical already, as kas_kernel_canonicalize made it. */
kas_status kas_canonical_text(const kas_kernel *canonical, kas_buf *out);
kas_status kas_canonical_name(const kas_kernel *canonical, char name[KAS_NAME_SIZE]);

#endif
