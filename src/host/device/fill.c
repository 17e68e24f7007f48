#include "host/device/fill.h"

#include <stdlib.h>

#include "host/device/dtype.h"

kas_status kas_mem_fill_normal(kas_device *device, void *memory, kas_dtype dtype, size_t count,
                               double deviation, kas_rng *rng)
{
    const size_t most = 1 << 20, length = count < most ? count : most, size = kas_dtype_size(dtype);
    void *values = malloc(length * size + 1);
    kas_status status = KAS_OK;
    if (!values)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu random numbers", length);
    for (size_t i = 0; i < length; i++)
        kas_dtype_put(values, dtype, i, deviation * kas_rng_normal(rng));
    for (size_t at = 0; at < count && status == KAS_OK; at += length) {
        const size_t part = count - at < length ? count - at : length;
        status = kas_mem_upload(device, (char *)memory + at * size, values, part * size);
    }
    free(values);
    return status;
}
