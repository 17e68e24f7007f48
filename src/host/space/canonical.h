/* The canonical form of a kernel and its name.
 *
 * Two kernels have the same canonical text exactly when they are isomorphic with equal attributes,
 * operand order respected, up to the names of variables, group symbols and splits.  Operands are
 * ordered and every node is reachable from the one output, so numbering the nodes by a depth-first
 * walk from the output (operands in order, each node when it is left) is already canonical;
 * variables, group symbols and splits are renamed in the order of that walk.  No hash of an
 * approximate isomorphism is involved: names in users' studies stay valid for good. */
#ifndef KAS_SPACE_CANONICAL_H
#define KAS_SPACE_CANONICAL_H

#include "host/space/kernel.h"

enum { KAS_NAME_SIZE = 17 }; /* 16 hex digits and NUL */

/* Renumbers; shapes are re-inferred. The kernel must be legal. Group symbols and splits that
 * nothing uses are dropped. `out` may be `kernel`. */
kas_status kas_kernel_canonicalize(const kas_kernel *kernel, kas_kernel *out);

/* Where everything went: new number of old node i, new symbol of old symbol s (-1 = not used). */
typedef struct kas_renaming {
    int node[KAS_MAX_NODES];
    int symbol[KAS_SYM_COUNT];
    int split[KAS_MAX_SPLITS]; /* likewise; R<split> goes with its split */
} kas_renaming;
kas_status kas_kernel_canonicalize_with(const kas_kernel *kernel, kas_kernel *out,
                                        kas_renaming *renaming);
/* One line of text, group values included. */
kas_status kas_kernel_canonical_text(const kas_kernel *kernel, kas_buf *out);
/* First 64 bits of SHA-256 of the canonical text, in hex. */
kas_status kas_kernel_name(const kas_kernel *kernel, char name[KAS_NAME_SIZE]);
/* Likewise, of one that kas_kernel_canonicalize gave. */
kas_status kas_canonical_text(const kas_kernel *canonical, kas_buf *out);
kas_status kas_canonical_name(const kas_kernel *canonical, char name[KAS_NAME_SIZE]);

#endif
