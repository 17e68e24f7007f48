/* Fills memory of a device with random numbers, for measurements. */
#ifndef KAS_DEVICE_FILL_H
#define KAS_DEVICE_FILL_H

#include "host/core/random.h"
#include "host/device/device.h"

/* Fills `count` numbers with normal ones of the given deviation; after a million of them the same come
 * again. */
kas_status kas_mem_fill_normal(kas_device *device, void *memory, kas_dtype dtype, size_t count,
                               double deviation, kas_rng *rng);

#endif
