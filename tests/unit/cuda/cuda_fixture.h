/* What tests of the CUDA device on the stand-in share. Include cmocka's headers first. */
#ifndef KAS_TESTS_UNIT_CUDA_CUDA_FIXTURE_H
#define KAS_TESTS_UNIT_CUDA_CUDA_FIXTURE_H

#include "cuda/library.h"
#include "cuda_sim/load_sim.h"
#include "host/core/log.h"
#include "host/device/device.h"
#include "support/test.h"

/* A convolution in float32: the sizes of kas_conv_desc in order. */
#define F32(...)                                                                                   \
    {                                                                                              \
        __VA_ARGS__, KAS_F32, false, false, 0                                                      \
    }

static int set_up(void **state)
{
    (void)state;
    sim.reset();
    kas_cuda_libraries_reset();
    unsetenv("KAS_SIM_DEVICES");
    kas_log_set_level(KAS_LOG_QUIET);
    return setenv("KAS_CUDA_LIBS", sim.path, 1);
}

/* Makes a child like a process that was started anew: a driver that its parent initialised is of no
 * use to it. */
static inline void begin_anew(void)
{
    sim.reset();
    kas_cuda_libraries_reset();
}

static inline kas_device *open_cuda(const char *spec)
{
    kas_device *device;
    OK(kas_device_open(spec, 0, &device));
    return device;
}

static inline float *random_memory(kas_device *device, size_t count, uint32_t seed)
{
    float *host = malloc(count * sizeof *host), *memory;
    assert_non_null(host);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        host[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    OK(kas_mem_alloc(device, count * sizeof *host, (void **)&memory));
    OK(kas_mem_upload(device, memory, host, count * sizeof *host));
    free(host);
    return memory;
}

#endif
