/* What the readers and writers of kernel files and files of layers share. Internal to them. */
#ifndef KAS_SPACE_FILE_KERNEL_JSON_NODE_H
#define KAS_SPACE_FILE_KERNEL_JSON_NODE_H

#include <cjson/cJSON.h>

#include "host/space/kernel.h"

#define KAS_KERNEL_FORMAT "kas-gpu kernel"
enum {
    KAS_KERNEL_FORMAT_VERSION = 1, /* of files without gains; they are written as ever */
    KAS_KERNEL_FORMAT_GAINS = 2    /* the newest; it may have the field "gains" */
};

/* Returns "h", "w" or "hw". */
const char *kas_axes_name(uint8_t axes);
/* Returns "lhs", "rhs" or "both"; "none" for 0, which files leave out. */
const char *kas_transpose_name(uint8_t transpose);

/* Reads node i of the file `name`. Checks that operands are earlier nodes and that attributes are
 * in range; does not infer shapes. */
kas_status kas_kernel_read_node(const char *name, const cJSON *item, int i, kas_node *node);

/* Reads the object of a kernel file into `kernel`, which is zero on entry, and infers its
 * shapes. */
kas_status kas_kernel_read_object(const char *name, const cJSON *root, kas_kernel *kernel);

/* Reads "version" of a kernel file or a file of layers. Only the newest may have gains. */
kas_status kas_kernel_read_version(const char *name, const cJSON *root);

/* Reads "splits". They must be exactly the splits that the nodes, which were read before, use. */
kas_status kas_kernel_read_splits(const char *name, const cJSON *root, kas_kernel *kernel);

#endif
