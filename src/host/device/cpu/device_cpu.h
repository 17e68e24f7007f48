/* Settings of the CPU device alone, for tests and for finding faults. */
#ifndef KAS_DEVICE_CPU_DEVICE_CPU_H
#define KAS_DEVICE_CPU_DEVICE_CPU_H

#include "host/device/device.h"

typedef enum kas_cpu_order {
    KAS_ORDER_ASCENDING, /* the default */
    KAS_ORDER_DESCENDING,
    KAS_ORDER_SHUFFLED
} kas_cpu_order;

/* Sets the order in which blocks run on each thread, and the order of lanes in the linked-in
 * kernels; the lanes of loaded modules keep the order for which they were compiled (KAS_ORDER). A
 * result that depends on the order shows a missing barrier, or lanes or blocks that are not
 * independent. Fails with KAS_USAGE on another device. */
kas_status kas_device_cpu_set_order(kas_device *device, kas_cpu_order order);

/* With false, convolutions that are created from now on use our own loops and not oneDNN. */
kas_status kas_device_cpu_use_library(kas_device *device, bool use);

/* Returns the name of a pass's implementation, such as "jit:avx512_core" or "our loops", for
 * reports and tests. */
const char *kas_conv_cpu_implementation(const kas_conv *conv, kas_conv_pass pass);

#endif
