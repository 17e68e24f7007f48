/* The implementations of a convolution's passes on the CPU device: oneDNN's convolutions, and those of
 * 16-bit tensors converted to float32, its matrix products, lines of pixels, and our own loops. */
#ifndef KAS_DEVICE_CPU_CPU_CONV_H
#define KAS_DEVICE_CPU_CPU_CONV_H

#include "host/device/cpu/cpu.h"

/* 1: the device's kernels were built for AVX-512, for AVX2. */
extern const int kas_cpu_avx512, kas_cpu_avx2;

/* The tensors of one call. */
typedef struct kas_cpu_call {
    void *x, *w, *y;
    float *bias;      /* of an epilogue; else NULL */
    void *residual;   /* NULL: none */
    const void *held; /* the key of held weights (kas_dnnl_pass_hold); weights that were never
                         held are read at `w` */
} kas_cpu_call;

/* A pass run by oneDNN. `epilogue` is NULL or, for FORWARD, an epilogue. kas_dnnl_pass_create fails
 * with KAS_UNSUPPORTED when oneDNN is not built in, or has only its reference loops, which are
 * slower than ours. */
typedef struct kas_dnnl_pass kas_dnnl_pass;
kas_status kas_dnnl_pass_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass pass,
                                const kas_conv_epilogue *epilogue, kas_dnnl_pass **out);
void kas_dnnl_pass_free(kas_dnnl_pass *pass); /* NULL is allowed */
kas_status kas_dnnl_pass_run(kas_cpu *cpu, kas_dnnl_pass *pass, const kas_cpu_call *call);
/* Keeps a copy of the weights at `w` in the layout that the pass reads, under the key `as`. Later
 * runs read it instead of reordering the weights. Does nothing when the pass reads the weights in
 * their own layout. */
kas_status kas_dnnl_pass_hold(kas_cpu *cpu, kas_dnnl_pass *pass, void *w, const void *as);
bool kas_dnnl_pass_holds(const kas_dnnl_pass *pass, const void *as);
const char *kas_dnnl_pass_name(const kas_dnnl_pass *pass);

/* A convolution that is a list of matrix products, by oneDNN's matmul (cpu_conv_products.c).
 * kas_products_pay returns whether a pass is one for which that is faster than a convolution of
 * oneDNN's, and kas_products_macs the multiply-adds of such a pass, with what else it does in as many
 * as take as long. */
typedef struct kas_products kas_products;
bool kas_products_pay(const kas_conv_desc *desc, kas_conv_pass pass);
double kas_products_macs(const kas_conv_desc *desc);
kas_status kas_products_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass pass,
                               kas_products **out);
void kas_products_free(kas_products *products); /* NULL is allowed */
kas_status kas_products_run(kas_cpu *cpu, kas_products *products, kas_conv_pass pass,
                            const kas_cpu_call *call);

/* A 16-bit convolution that oneDNN runs in float32: float32 copies of the tensors. */
enum { KAS_WIDE_X, KAS_WIDE_W, KAS_WIDE_Y, KAS_WIDE_RESIDUAL, KAS_WIDE_TENSORS };
typedef struct kas_wide_conv {
    float *tensor[KAS_WIDE_TENSORS]; /* the residual's only if an epilogue has one */
    kas_function *widen, *narrow;    /* NULL: not created */
} kas_wide_conv;
kas_status kas_wide_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_wide_conv *out);
kas_status kas_wide_conv_add_residual(kas_cpu *cpu, const kas_conv_desc *desc, kas_wide_conv *wide);
void kas_wide_conv_free(kas_cpu *cpu, kas_wide_conv *wide); /* also one that was never created */
kas_status kas_wide_conv_run(kas_cpu *cpu, const kas_wide_conv *wide, const kas_conv_desc *desc,
                             kas_dnnl_pass *library, kas_conv_pass pass, const kas_cpu_call *call);
kas_status kas_wide_conv_hold(kas_cpu *cpu, const kas_wide_conv *wide, const kas_conv_desc *desc,
                              kas_dnnl_pass *library, void *w);

/* A convolution over lines of pixels (conv_lines.h). kas_lines_fit returns whether a pass can be run
 * so, and kas_lines_pay whether that is faster than oneDNN on a processor whose vectors have so many
 * lanes: 16 with AVX-512, 8 with AVX2, 4 without. kas_lines_macs
 * returns the multiply-adds of a forward pass over lines: those of lanes without a channel count, and
 * copies in as many as they take as long as. `partial` is scratch of kas_lines_partial bytes for the
 * gradient of the weights. */
bool kas_lines_fit(const kas_conv_desc *desc, kas_conv_pass pass);
bool kas_lines_pay(const kas_conv_desc *desc, kas_conv_pass pass, int lanes);
double kas_lines_macs(const kas_conv_desc *desc);
size_t kas_lines_partial(const kas_conv_desc *desc);
void kas_lines_run(const kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass pass,
                   const kas_cpu_call *call, float *partial);

/* A convolution run by our own loops (src/cuda/kernels/conv.cu). `wt` is scratch of as many floats
 * as the weights. */
typedef struct kas_loop_conv {
    kas_function *weights, *pass[3];
} kas_loop_conv;
kas_status kas_loop_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_loop_conv *out);
void kas_loop_conv_run(const kas_cpu *cpu, const kas_loop_conv *loops, const kas_conv_desc *desc,
                       kas_conv_pass pass, void *x, void *w, float *wt, void *y);

#endif
