/* Kernel files: a micro-DAG in canonical JSON (docs/kernel-file.md).
 *
 * Files come from strangers: size, depth, counts and every attribute are checked, unknown and
 * duplicate keys are rejected, and the message names the node. No text of a file reaches a
 * compiler. Other folders include this header. */
#ifndef KAS_SPACE_FILE_KERNEL_JSON_H
#define KAS_SPACE_FILE_KERNEL_JSON_H

#include "host/space/file/gains.h"
#include "host/space/kernel.h"
#include "host/space/solve/solve.h"

/* Appends the kernel file of a kernel. With `solution`, which may be NULL, the variables' values at
 * each target are written too. */
kas_status kas_kernel_write_json(const kas_kernel *kernel, const kas_solution *solution,
                                 kas_buf *out);

/* Read a kernel file, or its text; `name` is the file's name in messages. Return KAS_BAD_INPUT with
 * the node named. The kernel read is inferred and legal. */
kas_status kas_kernel_read_json(const char *name, const char *text, size_t size, kas_kernel *out);
kas_status kas_kernel_read_file(const char *path, kas_kernel *out);
/* Reads the gains as well; the caller frees them. */
kas_status kas_kernel_read_json_gains(const char *name, const char *text, size_t size,
                                      kas_kernel *out, kas_gains *gains);

#endif
