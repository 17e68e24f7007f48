/* Elements of host memory in a number that devices store (device.h): float32, bfloat16, float16.
 * What is put is rounded to float32 first, then to the nearest, ties to even, as devices do. */
#ifndef KAS_DEVICE_NUMBERS_H
#define KAS_DEVICE_NUMBERS_H

#include "device_code/prelude.h"
#include "host/device/device.h"

/* `i` counts elements of the number. */
static inline void kas_number_put(void *memory, kas_number number, size_t i, double value)
{
    if (number == KAS_BF16)
        ((kas_bf16 *)memory)[i] = kas_bf16_of((float)value);
    else if (number == KAS_F16)
        ((kas_f16 *)memory)[i] = kas_f16_of((float)value);
    else
        ((float *)memory)[i] = (float)value;
}

static inline double kas_number_get(const void *memory, kas_number number, size_t i)
{
    if (number == KAS_BF16)
        return kas_bf16_value(((const kas_bf16 *)memory)[i]);
    if (number == KAS_F16)
        return kas_f16_value(((const kas_f16 *)memory)[i]);
    return ((const float *)memory)[i];
}

#endif
