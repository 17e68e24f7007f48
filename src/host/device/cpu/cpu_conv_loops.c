/* Launches our own convolution kernels. */
#include "host/device/conv_loops.h"
#include "host/device/cpu/cpu_conv.h"

kas_status kas_loop_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_loop_conv *out)
{
    kas_module *module;
    KAS_TRY(kas_module_builtin(&cpu->base, desc->dtype, &module));
    KAS_TRY(kas_module_function(module, "kas_dev_conv_weights", &out->weights));
    for (int pass = 0; pass < 3; pass++)
        KAS_TRY(kas_module_function(module, kas_conv_loops_name(desc, (kas_conv_pass)pass),
                                    &out->pass[pass]));
    return KAS_OK;
}

void kas_loop_conv_run(const kas_cpu *cpu, const kas_loop_conv *loops, const kas_conv_desc *d,
                       kas_conv_pass pass, void *x, void *w, float *wt, void *y)
{
    const kas_conv_args args = kas_conv_loops_args(d, x, w, y, wt);
    if (kas_conv_loops_transpose(d, pass))
        kas_cpu_launch(cpu, loops->weights, kas_conv_loops_transpose_launch(d).grid, &args);
    kas_cpu_launch(cpu, loops->pass[pass], kas_conv_loops_launch(d, pass).grid, &args);
}
