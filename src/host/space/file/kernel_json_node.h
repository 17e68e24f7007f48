/* Internal to the readers and writers of kernel files and files of layers. */
#ifndef KAS_SPACE_FILE_KERNEL_JSON_NODE_H
#define KAS_SPACE_FILE_KERNEL_JSON_NODE_H

#include <cjson/cJSON.h>

#include "host/space/kernel.h"

#define KAS_KERNEL_FORMAT "kas-gpu kernel"
enum { KAS_KERNEL_FORMAT_VERSION = 1 };

/* "h", "w" or "hw". */
const char *kas_axes_name(uint8_t axes);
/* "lhs", "rhs", "both"; "none" for 0, which files leave out. */
const char *kas_transpose_name(uint8_t transpose);

/* Node i of the file `name`. Operands are earlier nodes and attributes are in range; shapes are not
 * inferred. */
kas_status kas_kernel_read_node(const char *name, const cJSON *item, int i, kas_node *node);

/* What stands in a kernel file; `kernel` is zero. Infers its shapes. */
kas_status kas_kernel_read_object(const char *name, const cJSON *root, kas_kernel *kernel);

/* "splits": exactly those that the nodes, which were read, use. */
kas_status kas_kernel_read_splits(const char *name, const cJSON *root, kas_kernel *kernel);

#endif
