/* The two ways in which the CPU device runs a pass of a convolution. */
#ifndef KAS_DEVICE_CPU_CONV_H
#define KAS_DEVICE_CPU_CONV_H

#include "host/device/cpu.h"

/* oneDNN: KAS_UNSUPPORTED when it has nothing better than its reference loops (ours are faster), or
 * is not built in. */
typedef struct kas_dnnl_pass kas_dnnl_pass;
kas_status kas_dnnl_pass_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass pass,
                                kas_dnnl_pass **out);
void kas_dnnl_pass_free(kas_dnnl_pass *pass); /* NULL is allowed */
kas_status kas_dnnl_pass_run(kas_cpu *cpu, kas_dnnl_pass *pass, void *x, void *w, void *y);
const char *kas_dnnl_pass_name(const kas_dnnl_pass *pass);

/* Our own loops (src/device_code/conv.kc); `wt` is scratch of as many floats as the weights. */
typedef struct kas_loop_conv {
    kas_function *weights, *pass[3];
} kas_loop_conv;
kas_status kas_loop_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_loop_conv *out);
void kas_loop_conv_run(const kas_cpu *cpu, const kas_loop_conv *loops, const kas_conv_desc *desc,
                       kas_conv_pass pass, void *x, void *w, float *wt, void *y);

#endif
