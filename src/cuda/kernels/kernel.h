/* What stands in front of a hand-written kernel, in the order of the embedded text. That text
 * (mk/device_code.mk) has no include lines: NVRTC gets no headers. */
#ifndef KAS_CUDA_KERNELS_KERNEL_H
#define KAS_CUDA_KERNELS_KERNEL_H

#include "prelude.h"
#include "wide.h"
#include "row.h"

#include "args.h"
#include "activation.h"
#include "teams.h"
#include "mma.h"

#endif
