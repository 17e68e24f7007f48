/* Reads and writes elements of host memory in a dtype that devices store (device.h): float32,
 * bfloat16, float16. A value is first rounded to float32 and then to the nearest value of the
 * dtype, ties to even, as devices do. */
#ifndef KAS_DEVICE_DTYPE_H
#define KAS_DEVICE_DTYPE_H

#include "cuda/kernels/prelude.h"
#include "host/device/device.h"

/* Writes element `i`. */
static inline void kas_dtype_put(void *memory, kas_dtype dtype, size_t i, double value)
{
    if (dtype == KAS_BF16)
        ((kas_bf16 *)memory)[i] = kas_bf16_of((float)value);
    else if (dtype == KAS_F16)
        ((kas_f16 *)memory)[i] = kas_f16_of((float)value);
    else
        ((float *)memory)[i] = (float)value;
}

/* Reads element `i`. */
static inline double kas_dtype_get(const void *memory, kas_dtype dtype, size_t i)
{
    if (dtype == KAS_BF16)
        return kas_bf16_value(((const kas_bf16 *)memory)[i]);
    if (dtype == KAS_F16)
        return kas_f16_value(((const kas_f16 *)memory)[i]);
    return ((const float *)memory)[i];
}

#endif
