/* Which image in the cache has a kernel.
 *
 * A note is a symbolic link in the folder of the images, <2 hex>/<key of the kernel's text>.in, to
 * the name of an image that has the kernel. It takes one system call to read, no partial one can be
 * seen, and where a file system has no links nothing is known and every kernel is compiled. */
#ifndef KAS_JIT_COMPILE_COMPILE_KNOWN_H
#define KAS_JIT_COMPILE_COMPILE_KNOWN_H

#include "jit/compile/compile.h"

/* Sets *found to whether there is a note for the kernel, and path to the image that it names, which
 * need not be there any more (kas_compile_has). */
kas_status kas_compile_find(kas_compiler *compiler, const char *kernel, char path[4096],
                            bool *found);
/* Notes that the image has the kernel. A note that cannot be written is left out. */
void kas_compile_remember(kas_compiler *compiler, const char *kernel, const char *image);
/* Returns whether the image is there, whole, and may be loaded. */
bool kas_compile_has(const char *image);

#endif
