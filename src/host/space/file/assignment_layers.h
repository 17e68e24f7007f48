/* Internal to assignment*.c: an assignment while it is made. */
#ifndef KAS_SPACE_FILE_ASSIGNMENT_LAYERS_H
#define KAS_SPACE_FILE_ASSIGNMENT_LAYERS_H

#include "host/space/file/assignment.h"

/* Zeros, for so many. */
kas_status kas_assignment_allocate(int kernels, int layers, kas_assignment *out);
/* Brings layers and kernels, legal ones, into their order; drops kernels that no layer has. */
kas_status kas_assignment_canonicalize(kas_assignment *assignment);

#endif
