/* The known kernels: those of the folder kernels/, which are part of the program, and cheap variants
 * of the plain convolution, written as steps of NAS-PTE.
 *
 * A study begins with them (strategy/first.h), but the same kernels come by other ways too: from
 * another study, as children, by chance.  So what is known is told by the kernel and not by how it
 * came.  Other folders include this header. */
#ifndef KAS_SPACE_KNOWN_KNOWN_H
#define KAS_SPACE_KNOWN_KNOWN_H

#include "host/space/file/assignment.h"

enum { KAS_KNOWN_SIZE = 51 }; /* of a name, its end included */

/* Takes a known kernel, as its file has it; `name` is "group_conv" or "conv group(8)". */
typedef kas_status kas_known_taker(void *context, const char *name, kas_assignment *kernel);
/* Gives all of them to `take`, always in the same order, until one fails. */
kas_status kas_known_each(kas_known_taker *take, void *context);

/* Returns the name of the known kernel that a candidate is, or NULL. `hash` is the candidate's
 * name, and `text` its file as the store has it. A file of layers is a known kernel when that is
 * the only one in it; the other layers keep their convolutions. */
const char *kas_known_as(const char *hash, const char *text);

#endif
