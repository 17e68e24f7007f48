/* Runs 16-bit convolutions with a library that has no code for them: tensors are converted to float32
 * and back. */
#include "host/device/cpu/cpu_conv.h"

#include "cuda/kernels/prelude.h"
#include "cuda/kernels/args.h"

/* The rows of one tensor: pixels, or output channels of the weights. */
typedef struct rows {
    int rows, c, pitch;
} rows;

static rows rows_of(const kas_conv_desc *d, int tensor)
{
    const int taps = d->kernel_h * d->kernel_w, dense = taps * (d->c_in / d->groups);
    if (tensor == KAS_WIDE_X)
        return (rows){d->n * d->h * d->w, d->c_in, d->x_pitch};
    if (tensor == KAS_WIDE_W)
        return (rows){d->c_out, dense, dense};
    return (rows){d->n * kas_conv_out_h(d) * kas_conv_out_w(d), d->c_out, d->y_pitch};
}

static kas_status allocate(kas_cpu *cpu, const kas_conv_desc *desc, int tensor, kas_wide_conv *wide)
{
    const rows r = rows_of(desc, tensor);
    const size_t bytes = sizeof(float) * (size_t)r.rows * (size_t)r.pitch;
    return kas_mem_alloc(&cpu->base, bytes, (void **)&wide->tensor[tensor]);
}

kas_status kas_wide_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_wide_conv *out)
{
    kas_module *module;
    KAS_TRY(kas_module_builtin(&cpu->base, desc->dtype, &module));
    KAS_TRY(kas_module_function(module, "kas_dev_widen", &out->widen));
    KAS_TRY(kas_module_function(module, "kas_dev_narrow", &out->narrow));
    for (int i = KAS_WIDE_X; i <= KAS_WIDE_Y; i++)
        KAS_TRY(allocate(cpu, desc, i, out));
    return KAS_OK;
}

kas_status kas_wide_conv_add_residual(kas_cpu *cpu, const kas_conv_desc *desc, kas_wide_conv *wide)
{
    return wide->tensor[KAS_WIDE_RESIDUAL] ? KAS_OK : allocate(cpu, desc, KAS_WIDE_RESIDUAL, wide);
}

void kas_wide_conv_free(kas_cpu *cpu, kas_wide_conv *wide)
{
    for (int i = 0; i < KAS_WIDE_TENSORS; i++)
        kas_mem_free(&cpu->base, wide->tensor[i]);
}

static void cast(const kas_cpu *cpu, const kas_wide_conv *wide, const kas_conv_desc *desc,
                 int tensor, void *real, const kas_function *function)
{
    const rows r = rows_of(desc, tensor);
    const kas_cast_args args = {.real = real,
                                .value = wide->tensor[tensor],
                                .rows = r.rows,
                                .c = r.c,
                                .pitch_real = r.pitch,
                                .pitch_value = r.pitch,
                                .rows_per_block = r.c < 4096 ? 4096 / r.c : 1,
                                .whole = r.c % 8 == 0 && r.pitch % 8 == 0 && kas_is_aligned(real)};
    const unsigned blocks = (unsigned)((r.rows + args.rows_per_block - 1) / args.rows_per_block);
    kas_cpu_launch(cpu, function, (unsigned[3]){blocks, 1, 1}, &args);
}

kas_status kas_wide_conv_run(kas_cpu *cpu, const kas_wide_conv *wide, const kas_conv_desc *desc,
                             kas_dnnl_pass *library, kas_conv_pass pass, const kas_cpu_call *call)
{
    void *const real[KAS_WIDE_TENSORS] = {call->x, call->w, call->y, call->residual};
    const int output = pass == KAS_CONV_FORWARD         ? KAS_WIDE_Y
                       : pass == KAS_CONV_BACKWARD_DATA ? KAS_WIDE_X
                                                        : KAS_WIDE_W;
    for (int i = 0; i < KAS_WIDE_TENSORS; i++)
        if (i != output && real[i] &&
            (i != KAS_WIDE_W || !kas_dnnl_pass_holds(library, call->held)))
            cast(cpu, wide, desc, i, real[i], wide->widen);
    kas_cpu_call inner = *call;
    inner.x = wide->tensor[KAS_WIDE_X];
    inner.y = wide->tensor[KAS_WIDE_Y];
    inner.residual = call->residual ? wide->tensor[KAS_WIDE_RESIDUAL] : NULL;
    if (output != KAS_WIDE_W) /* gradients of weights are float32 anyway */
        inner.w = wide->tensor[KAS_WIDE_W];
    KAS_TRY(kas_dnnl_pass_run(cpu, library, &inner));
    if (output != KAS_WIDE_W)
        cast(cpu, wide, desc, output, real[output], wide->narrow);
    return KAS_OK;
}

kas_status kas_wide_conv_hold(kas_cpu *cpu, const kas_wide_conv *wide, const kas_conv_desc *desc,
                              kas_dnnl_pass *library, void *w)
{
    cast(cpu, wide, desc, KAS_WIDE_W, w, wide->widen);
    return kas_dnnl_pass_hold(cpu, library, wide->tensor[KAS_WIDE_W], w);
}
