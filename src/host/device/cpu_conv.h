/* The ways in which the CPU device runs a pass of a convolution. */
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

/* float16 around oneDNN's float32: the tensors of one convolution. */
enum { KAS_WIDE_X, KAS_WIDE_W, KAS_WIDE_Y, KAS_WIDE_TENSORS };
typedef struct kas_wide_conv {
    float *tensor[KAS_WIDE_TENSORS];
    kas_function *widen, *narrow; /* NULL: not made */
} kas_wide_conv;
kas_status kas_wide_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_wide_conv *out);
void kas_wide_conv_free(kas_cpu *cpu, kas_wide_conv *wide); /* also of one that was not made */
kas_status kas_wide_conv_run(kas_cpu *cpu, const kas_wide_conv *wide, const kas_conv_desc *desc,
                             kas_dnnl_pass *library, kas_conv_pass pass, void *x, void *w, void *y);

/* Our own loops (src/device_code/conv.kc); `wt` is scratch of as many floats as the weights. */
typedef struct kas_loop_conv {
    kas_function *weights, *pass[3];
} kas_loop_conv;
kas_status kas_loop_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_loop_conv *out);
void kas_loop_conv_run(const kas_cpu *cpu, const kas_loop_conv *loops, const kas_conv_desc *desc,
                       kas_conv_pass pass, void *x, void *w, float *wt, void *y);

#endif
