/* What the files that call oneDNN share. Include it only where KAS_HAVE_DNNL is defined. */
#ifndef KAS_DEVICE_CPU_DNNL_H
#define KAS_DEVICE_CPU_DNNL_H

#include <oneapi/dnnl/dnnl.h>

#include "host/device/cpu/cpu.h"

/* Turns a status of oneDNN into an error: KAS_UNSUPPORTED where it refuses. */
kas_status kas_dnnl_fail(dnnl_status_t code, const char *statement);
#define TRY_DNNL(expression)                                                                       \
    do {                                                                                           \
        const dnnl_status_t code_ = (expression);                                                  \
        if (code_ != dnnl_success)                                                                 \
            return kas_dnnl_fail(code_, #expression);                                              \
    } while (0)

/* Creates the device's engine and stream unless they are there. */
kas_status kas_dnnl_open(kas_cpu *cpu);

#endif
