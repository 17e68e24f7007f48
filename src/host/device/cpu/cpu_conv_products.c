/* Convolutions that are lists of matrix products: a 1x1 kernel in groups over the pixels of one row, as
 * bmm is lowered (jit/lower/lower_bmm_library.c). For each group X is a matrix [m][k], W [n][k] and Y
 * [m][n], whose rows lie a pitch apart, or k for W:
 *
 *     FORWARD             Y = X W^T
 *     BACKWARD_DATA       X' = Y' W
 *     BACKWARD_WEIGHTS    W' = Y'^T X
 *
 * oneDNN's matmul reads them as they lie. Its convolutions reorder W in every call and compute few
 * pixels at a time: they take 1.4 to 1.8 times as long, unless the matrices are small. */
#include "host/device/cpu/cpu_conv.h"

static int pixels_of(const kas_conv_desc *d)
{
    return d->n * d->h * d->w;
}

/* Returns the terms of each sum of a pass. */
static double length_of(const kas_conv_desc *d, kas_conv_pass pass)
{
    return pass == KAS_CONV_FORWARD         ? d->c_in / d->groups
           : pass == KAS_CONV_BACKWARD_DATA ? d->c_out / d->groups
                                            : pixels_of(d);
}

bool kas_products_pay(const kas_conv_desc *d, kas_conv_pass pass)
{
    static const double least_length = 16, least_macs = 4096; /* of a group */
    const double in = d->c_in / d->groups, out = d->c_out / d->groups;
    return d->dtype == KAS_F32 && d->groups > 1 && d->n == 1 && d->h == 1 && d->kernel_h == 1 &&
           d->kernel_w == 1 && d->stride == 1 && length_of(d, pass) >= least_length &&
           in * out * pixels_of(d) >= least_macs;
}

double kas_products_macs(const kas_conv_desc *d)
{
    /* Copies of operands and results, and what a product costs by itself, in multiply-adds that take as
     * long (AVX2). */
    static const double element = 9, product = 8000;
    const double in = d->c_in / d->groups, out = d->c_out / d->groups, m = pixels_of(d);
    return d->groups * (in * out * m + element * (in * out + in * m + out * m) + product);
}

#ifdef KAS_HAVE_DNNL

#include <stdlib.h>

#include "host/device/cpu/dnnl.h"

enum { OPERANDS = 2, RESULT = OPERANDS, MATRICES };

struct kas_products {
    dnnl_primitive_t primitive;
    dnnl_memory_t matrix[MATRICES]; /* of which the caller's X, W and Y are the memory */
};

/* The memory of a matrix of each group: `rows` times `columns` elements with these strides. */
static kas_status lay_out(const kas_cpu *cpu, int groups, int rows, int columns, int group, int row,
                          int column, dnnl_memory_t *out)
{
    const kas_dnnl_shape shape = {3, {groups, rows, columns}, dnnl_f32};
    kas_dnnl_desc desc;
    KAS_TRY(kas_dnnl_describe_strides(&shape, (dnnl_dims_t){group, row, column}, &desc));
    const dnnl_status_t code = dnnl_memory_create(out, desc, cpu->engine, DNNL_MEMORY_NONE);
    kas_dnnl_undescribe(desc);
    return code == dnnl_success ? KAS_OK : kas_dnnl_fail(code, "matrix");
}

static kas_status lay_out_all(const kas_cpu *cpu, const kas_conv_desc *d, kas_conv_pass pass,
                              dnnl_memory_t matrix[MATRICES])
{
    const int g = d->groups, m = pixels_of(d), k = d->c_in / g, n = d->c_out / g;
    switch (pass) {
    case KAS_CONV_FORWARD:
        KAS_TRY(lay_out(cpu, g, m, k, k, d->x_pitch, 1, &matrix[0]));
        KAS_TRY(lay_out(cpu, g, k, n, n * k, 1, k, &matrix[1]));
        return lay_out(cpu, g, m, n, n, d->y_pitch, 1, &matrix[RESULT]);
    case KAS_CONV_BACKWARD_DATA:
        KAS_TRY(lay_out(cpu, g, m, n, n, d->y_pitch, 1, &matrix[0]));
        KAS_TRY(lay_out(cpu, g, n, k, n * k, k, 1, &matrix[1]));
        return lay_out(cpu, g, m, k, k, d->x_pitch, 1, &matrix[RESULT]);
    default:
        KAS_TRY(lay_out(cpu, g, n, m, n, 1, d->y_pitch, &matrix[0]));
        KAS_TRY(lay_out(cpu, g, m, k, k, d->x_pitch, 1, &matrix[1]));
        return lay_out(cpu, g, n, k, n * k, k, 1, &matrix[RESULT]);
    }
}

static kas_status create(kas_cpu *cpu, const kas_conv_desc *d, kas_conv_pass pass,
                         kas_products *products)
{
    kas_dnnl_const_desc desc[MATRICES];
    dnnl_primitive_desc_t chosen;
    KAS_TRY(kas_dnnl_open(cpu));
    KAS_TRY(lay_out_all(cpu, d, pass, products->matrix));
    for (int i = 0; i < MATRICES; i++)
        TRY_DNNL(dnnl_memory_get_memory_desc(products->matrix[i], &desc[i]));
    KAS_TRY(kas_dnnl_matmul_create(cpu, desc[0], desc[1], desc[RESULT], &chosen));
    const dnnl_status_t code = dnnl_primitive_create(&products->primitive, chosen);
    dnnl_primitive_desc_destroy(chosen);
    return code == dnnl_success ? KAS_OK : kas_dnnl_fail(code, "products");
}

kas_status kas_products_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass pass,
                               kas_products **out)
{
    kas_products *products = calloc(1, sizeof *products);
    if (!products)
        return kas_fail(KAS_NO_MEMORY, "no memory for matrix products");
    const kas_status status = create(cpu, desc, pass, products);
    if (status != KAS_OK) {
        kas_products_free(products);
        return status;
    }
    *out = products;
    return KAS_OK;
}

void kas_products_free(kas_products *products)
{
    if (!products)
        return;
    if (products->primitive)
        dnnl_primitive_destroy(products->primitive);
    for (int i = 0; i < MATRICES; i++)
        if (products->matrix[i])
            dnnl_memory_destroy(products->matrix[i]);
    free(products);
}

kas_status kas_products_run(kas_cpu *cpu, kas_products *products, kas_conv_pass pass,
                            const kas_cpu_call *call)
{
    static const int argument[MATRICES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    void *const memory[3][MATRICES] = {[KAS_CONV_FORWARD] = {call->x, call->w, call->y},
                                       [KAS_CONV_BACKWARD_DATA] = {call->y, call->w, call->x},
                                       [KAS_CONV_BACKWARD_WEIGHTS] = {call->y, call->x, call->w}};
    dnnl_exec_arg_t args[MATRICES];
    for (int i = 0; i < MATRICES; i++) {
        TRY_DNNL(dnnl_memory_set_data_handle(products->matrix[i], memory[pass][i]));
        args[i] = (dnnl_exec_arg_t){argument[i], products->matrix[i]};
    }
    TRY_DNNL(dnnl_primitive_execute(products->primitive, cpu->stream, MATRICES, args));
    TRY_DNNL(dnnl_stream_wait(cpu->stream));
    return KAS_OK;
}

#else

kas_status kas_products_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass pass,
                               kas_products **out)
{
    (void)cpu, (void)desc, (void)pass, (void)out;
    return kas_fail(KAS_UNSUPPORTED, "this build of kas-gpu has no oneDNN");
}

void kas_products_free(kas_products *products)
{
    (void)products;
}

kas_status kas_products_run(kas_cpu *cpu, kas_products *products, kas_conv_pass pass,
                            const kas_cpu_call *call)
{
    (void)cpu, (void)products, (void)pass, (void)call;
    return kas_fail(KAS_UNSUPPORTED, "this build of kas-gpu has no oneDNN");
}

#endif
