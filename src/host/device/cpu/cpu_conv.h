/* The ways in which the CPU device runs a pass of a convolution. */
#ifndef KAS_DEVICE_CPU_CPU_CONV_H
#define KAS_DEVICE_CPU_CPU_CONV_H

#include "host/device/cpu/cpu.h"

/* The tensors of one call. */
typedef struct kas_cpu_call {
    void *x, *w, *y;
    float *bias;      /* with an epilogue; else NULL */
    void *residual;   /* NULL: none */
    const void *held; /* what the weights were held as; those that never were are read at `w` */
} kas_cpu_call;

/* oneDNN: KAS_UNSUPPORTED when it has nothing better than its reference loops (ours are faster), or
 * is not built in.  `epilogue` NULL: none; else of FORWARD. */
typedef struct kas_dnnl_pass kas_dnnl_pass;
kas_status kas_dnnl_pass_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass pass,
                                const kas_conv_epilogue *epilogue, kas_dnnl_pass **out);
void kas_dnnl_pass_free(kas_dnnl_pass *pass); /* NULL is allowed */
kas_status kas_dnnl_pass_run(kas_cpu *cpu, kas_dnnl_pass *pass, const kas_cpu_call *call);
/* Keeps the weights at `w` in the layout that the pass reads, under the name `as`: from now on in
 * place of a reorder in every run.  Nothing to do where it reads them as they lie. */
kas_status kas_dnnl_pass_hold(kas_cpu *cpu, kas_dnnl_pass *pass, void *w, const void *as);
bool kas_dnnl_pass_holds(const kas_dnnl_pass *pass, const void *as);
const char *kas_dnnl_pass_name(const kas_dnnl_pass *pass);

/* float16 around oneDNN's float32: the tensors of one convolution. */
enum { KAS_WIDE_X, KAS_WIDE_W, KAS_WIDE_Y, KAS_WIDE_RESIDUAL, KAS_WIDE_TENSORS };
typedef struct kas_wide_conv {
    float *tensor[KAS_WIDE_TENSORS]; /* the residual's where an epilogue has one */
    kas_function *widen, *narrow;    /* NULL: not made */
} kas_wide_conv;
kas_status kas_wide_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_wide_conv *out);
kas_status kas_wide_conv_add_residual(kas_cpu *cpu, const kas_conv_desc *desc, kas_wide_conv *wide);
void kas_wide_conv_free(kas_cpu *cpu, kas_wide_conv *wide); /* also of one that was not made */
kas_status kas_wide_conv_run(kas_cpu *cpu, const kas_wide_conv *wide, const kas_conv_desc *desc,
                             kas_dnnl_pass *library, kas_conv_pass pass, const kas_cpu_call *call);
kas_status kas_wide_conv_hold(kas_cpu *cpu, const kas_wide_conv *wide, const kas_conv_desc *desc,
                              kas_dnnl_pass *library, void *w);

/* Our own loops (src/cuda/kernels/conv.cu); `wt` is scratch of as many floats as the weights. */
typedef struct kas_loop_conv {
    kas_function *weights, *pass[3];
} kas_loop_conv;
kas_status kas_loop_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_loop_conv *out);
void kas_loop_conv_run(const kas_cpu *cpu, const kas_loop_conv *loops, const kas_conv_desc *desc,
                       kas_conv_pass pass, void *x, void *w, float *wt, void *y);

#endif
