/* oneDNN 2 and 3 behind one interface, for the files that call oneDNN. Version 3 made descriptors of
 * tensors objects and dropped the descriptors of operations; all else is called directly. Include it
 * only where KAS_HAVE_DNNL is defined. */
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

/* The descriptor of a tensor, an object in both versions. kas_dnnl_undescribe frees it; NULL is
 * allowed. */
#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t *kas_dnnl_desc;
typedef const dnnl_memory_desc_t *kas_dnnl_const_desc;
#else
typedef dnnl_memory_desc_t kas_dnnl_desc;
typedef const_dnnl_memory_desc_t kas_dnnl_const_desc;
#endif

/* The sizes of a tensor in oneDNN's logical order, and what its elements are. */
typedef struct kas_dnnl_shape {
    int count;
    dnnl_dims_t size;
    dnnl_data_type_t type;
} kas_dnnl_shape;

kas_status kas_dnnl_describe(const kas_dnnl_shape *shape, dnnl_format_tag_t tag,
                             kas_dnnl_desc *out);
kas_status kas_dnnl_describe_strides(const kas_dnnl_shape *shape, const dnnl_dims_t strides,
                                     kas_dnnl_desc *out);
void kas_dnnl_undescribe(kas_dnnl_desc desc);

/* A pass of a convolution. `dilates` counts the pixels between two taps. */
typedef struct kas_dnnl_conv {
    kas_conv_pass pass;
    dnnl_prop_kind_t forward; /* of the forward pass, also where a backward pass is wanted */
    kas_dnnl_const_desc x, w, y, bias; /* bias: NULL for none, and of FORWARD only */
    dnnl_dims_t strides, dilates, pad;
    dnnl_primitive_attr_t attr; /* NULL: none */
} kas_dnnl_conv;

/* Creates the descriptor of a pass by the first implementation that is not refused. */
typedef bool kas_dnnl_refuses(dnnl_primitive_desc_t implementation, const void *context);
kas_status kas_dnnl_conv_create(const kas_cpu *cpu, const kas_dnnl_conv *conv,
                                kas_dnnl_refuses *refuses, const void *context,
                                dnnl_primitive_desc_t *out);

/* Creates the descriptor of the product c = a b. */
kas_status kas_dnnl_matmul_create(const kas_cpu *cpu, kas_dnnl_const_desc a, kas_dnnl_const_desc b,
                                  kas_dnnl_const_desc c, dnnl_primitive_desc_t *out);

/* Appends an activation with its usual constants. */
kas_status kas_dnnl_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind);

#endif
