/* Launches of our own convolution kernels on the GPU. */
#include "cuda/conv_cuda.h"
#include "host/device/conv_loops.h"

kas_status kas_direct_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_direct *out)
{
    kas_module *module;
    if (desc->c_in / desc->groups > 65535 || desc->groups > 65535 ||
        desc->kernel_h * desc->kernel_w > 65535)
        return kas_fail(KAS_UNSUPPORTED, "convolution: at most 65535 groups, channels of a group "
                                         "and taps are allowed on a GPU");
    KAS_TRY(kas_cuda_module_builtin(&cuda->base, desc->dtype, &module));
    KAS_TRY(kas_cuda_module_function(module, "kas_dev_conv_weights", &out->weights));
    for (int pass = 0; pass < 3; pass++)
        KAS_TRY(kas_cuda_module_function(module, kas_conv_loops_name(desc, (kas_conv_pass)pass),
                                         &out->pass[pass]));
    const size_t weights = (size_t)desc->c_out * (size_t)(desc->c_in / desc->groups) *
                           (size_t)(desc->kernel_h * desc->kernel_w);
    if (weights > KAS_CUDA_MAX_WORKSPACE / sizeof(float))
        return kas_fail(KAS_UNSUPPORTED,
                        "convolution: %zu weights; at most %zu are allowed on a GPU", weights,
                        KAS_CUDA_MAX_WORKSPACE / sizeof(float));
    return kas_cuda_reserve_workspace(cuda, weights * sizeof(float));
}

kas_status kas_direct_run(kas_cuda *cuda, const kas_direct *direct, const kas_conv_desc *desc,
                          kas_conv_pass pass, void *x, void *w, void *y)
{
    const kas_conv_args args =
        kas_conv_loops_args(desc, x, w, y, (float *)(uintptr_t)cuda->workspace);
    if (kas_conv_loops_transpose(desc, pass)) {
        const kas_conv_launch transpose = kas_conv_loops_transpose_launch(desc);
        KAS_TRY(kas_cuda_launch(cuda, direct->weights, transpose.grid, transpose.block, &args));
    }
    const kas_conv_launch launch = kas_conv_loops_launch(desc, pass);
    return kas_cuda_launch(cuda, direct->pass[pass], launch.grid, launch.block, &args);
}
