/* Knobs of the CPU device, for tests and for people who look for a fault.  Nothing else in the
 * program knows which device it has. */
#ifndef KAS_DEVICE_CPU_DEVICE_CPU_H
#define KAS_DEVICE_CPU_DEVICE_CPU_H

#include "host/device/device.h"

typedef enum kas_cpu_order {
    KAS_ORDER_ASCENDING, /* what runs */
    KAS_ORDER_DESCENDING,
    KAS_ORDER_SHUFFLED
} kas_cpu_order;

/* The order in which blocks run (split over threads as ever), and the lanes of the linked-in
 * kernels; lanes of loaded modules run as those were compiled (KAS_ORDER).  A result that depends
 * on it betrays a missing barrier, or lanes or blocks that are not independent.  Fails with
 * KAS_USAGE on another device. */
kas_status kas_device_cpu_set_order(kas_device *device, kas_cpu_order order);

/* false: convolutions created from now on use our own loops and not oneDNN. */
kas_status kas_device_cpu_use_library(kas_device *device, bool use);

/* What runs each pass of a convolution: "jit:avx512_core", "our loops". For reports and tests. */
const char *kas_conv_cpu_implementation(const kas_conv *conv, kas_conv_pass pass);

#endif
