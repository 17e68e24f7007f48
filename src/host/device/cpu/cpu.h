/* Declarations that the files of the CPU device share. */
#ifndef KAS_DEVICE_CPU_CPU_H
#define KAS_DEVICE_CPU_CPU_H

#include "cuda/kernels/device_code.h"
#include "host/device/backend.h"
#include "host/device/cpu/device_cpu.h"

typedef struct kas_cpu {
    kas_device base;
    kas_cpu_order order;
    bool use_library;
    kas_module *builtin[KAS_DTYPES]; /* made at first use */
    void *engine; /* dnnl_engine_t and dnnl_stream_t, created at first use; NULL without oneDNN */
    void *stream;
} kas_cpu;

struct kas_function {
    char name[64];
    kas_cpu_kernel *run[3]; /* by kas_cpu_order */
    kas_function *next;
};

/* Runs all blocks of a kernel on the device's threads. */
void kas_cpu_launch(const kas_cpu *cpu, const kas_function *function, const unsigned grid[3],
                    const void *args);
/* Sets OpenMP's number of threads, which belongs to the calling thread and which oneDNN reads too.
 * Call it before any work. */
void kas_cpu_use_threads(const kas_cpu *cpu);

kas_status kas_cpu_module_load(kas_device *device, const char *image_path, kas_module **out);
kas_status kas_cpu_module_builtin(kas_device *device, kas_dtype dtype, kas_module **out);
void kas_cpu_module_free(kas_module *module);
kas_status kas_cpu_module_function(kas_module *module, const char *name, kas_function **out);

kas_status kas_cpu_conv_create(kas_device *device, const kas_conv_desc *desc, kas_conv **out);
void kas_cpu_conv_free(kas_conv *conv);
kas_status kas_cpu_conv_add_epilogue(kas_conv *conv, kas_conv_epilogue epilogue);
bool kas_cpu_conv_takes_epilogue(const kas_conv *conv, kas_conv_epilogue epilogue,
                                 const kas_conv_call *call);
kas_status kas_cpu_conv_hold(kas_conv *conv, const kas_conv_epilogue *epilogue, const void *w);
kas_status kas_cpu_conv_run(const kas_step *step); /* of kind CONV */

kas_status kas_cpu_exchange(const kas_step *step); /* of kind MEAN, GATHER or JOIN */

kas_status kas_cpu_run(kas_device *device, const kas_step *step, int steps, void **kept);

#endif
