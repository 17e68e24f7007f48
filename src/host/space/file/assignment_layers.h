/* An assignment while it is made. Internal to assignment*.c. */
#ifndef KAS_SPACE_FILE_ASSIGNMENT_LAYERS_H
#define KAS_SPACE_FILE_ASSIGNMENT_LAYERS_H

#include "host/space/file/assignment.h"

/* Allocates an assignment of that many kernels and layers, filled with zeros. */
kas_status kas_assignment_allocate(int kernels, int layers, kas_assignment *out);
/* Brings layers and kernels, which must be legal, into canonical order and drops kernels that no
 * layer has. */
kas_status kas_assignment_canonicalize(kas_assignment *assignment);

#endif
