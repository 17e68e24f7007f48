/* Launches of our own convolution kernels on the GPU: on tensor cores (conv_mma.c) where these take the
 * pass, else by loops. */
#include "cuda/conv_cuda.h"
#include "host/device/conv_loops.h"

/* The fewest rows of images that are a block's */
enum { LEAST_ROWS = 2 * KAS_CONV_TEAMS };

static size_t weights_of(const kas_conv_desc *d)
{
    return (size_t)d->c_out * (size_t)(d->c_in / d->groups) * (size_t)(d->kernel_h * d->kernel_w);
}

/* Returns how many blocks share the rows of a depthwise gradient of the weights, of which each
 * block sums one tap of some channels. */
static int parts_of(const kas_conv_desc *d)
{
    const kas_conv_launch launch = kas_conv_loops_launch(d, KAS_CONV_BACKWARD_WEIGHTS);
    const int blocks = (int)(launch.grid[0] * launch.grid[1]);
    const int most = d->n * kas_conv_out_h(d) / LEAST_ROWS;
    const int wanted = (KAS_ENOUGH_BLOCKS + blocks - 1) / blocks;
    if (!kas_conv_is_depthwise(d) || most < 2)
        return 1;
    return wanted < most ? wanted : most;
}

bool kas_direct_takes(const kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                      kas_conv_beside beside)
{
    const bool takes_beside =
        !kas_conv_has_beside(beside) ||
        (pass == KAS_CONV_FORWARD && beside.activation <= KAS_ACTIVATION_RELU6);
    return takes_beside && (kas_conv_is_depthwise(desc) || kas_mma_takes(cuda, desc, pass));
}

static kas_status find_sum(kas_cuda *cuda, kas_direct *out)
{
    kas_module *module;
    KAS_TRY(kas_cuda_module_builtin(&cuda->base, KAS_F32, &module));
    return kas_cuda_module_function(module, "kas_dev_bias_backward", &out->sum);
}

/* Finds the kernels of a pass, and returns how many parts of a gradient of the weights they write. */
static kas_status find_pass(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                            kas_module *module, kas_direct *out, int *parts)
{
    const bool sums = pass == KAS_CONV_BACKWARD_WEIGHTS;
    KAS_TRY(kas_cuda_module_function(module, kas_conv_loops_name(desc, pass), &out->loops[pass]));
    *parts = sums ? out->parts : 1;
    if (!kas_mma_takes(cuda, desc, pass))
        return KAS_OK;
    const int mma = kas_mma_launch_of(desc, pass).parts;
    *parts = sums && mma > *parts ? mma : *parts;
    return kas_cuda_module_function(module, kas_mma_name(pass), &out->mma[pass]);
}

kas_status kas_direct_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_direct *out)
{
    kas_module *module;
    if (desc->c_in / desc->groups > 65535 || desc->groups > 65535 ||
        desc->kernel_h * desc->kernel_w > 65535)
        return kas_fail(KAS_UNSUPPORTED, "convolution: at most 65535 groups, channels of a group "
                                         "and taps are allowed on a GPU");
    const size_t weights = weights_of(desc);
    if (weights > KAS_OWN_WORKSPACE / sizeof(float))
        return kas_fail(KAS_UNSUPPORTED,
                        "convolution: %zu weights; at most %zu are allowed on a GPU", weights,
                        KAS_OWN_WORKSPACE / sizeof(float));
    KAS_TRY(kas_cuda_module_builtin(&cuda->base, desc->dtype, &module));
    KAS_TRY(kas_cuda_module_function(module, "kas_dev_conv_weights", &out->weights));
    out->parts = parts_of(desc);
    int parts = 1;
    for (int pass = 0; pass < 3; pass++)
        KAS_TRY(find_pass(cuda, desc, (kas_conv_pass)pass, module, out, &parts));
    if (parts > 1)
        KAS_TRY(find_sum(cuda, out));
    out->workspace_bytes = (size_t)parts * weights * sizeof(float);
    return kas_cuda_reserve_workspace(cuda, out->workspace_bytes);
}

/* Adds up the gradients of the parts, in order, of as many weights at a time as a grid has room for. */
static kas_status add_parts(kas_cuda *cuda, const kas_direct *direct, const kas_conv_args *conv)
{
    const int weights = conv->c_out * conv->group_in * conv->kernel_h * conv->kernel_w;
    const int most = 65535 * KAS_SUM_LANES;
    for (int first = 0; first < weights; first += most) {
        const int c = weights - first < most ? weights - first : most;
        const kas_column_sum_args args = {.x = conv->wt + first,
                                          .out = conv->dw + first,
                                          .rows = conv->parts,
                                          .chunk_rows = conv->parts,
                                          .c = c,
                                          .pitch = weights,
                                          .whole = weights % 4 == 0 && kas_is_aligned(conv->dw)};
        const unsigned grid[3] = {1, (unsigned)(c + KAS_SUM_LANES - 1) / KAS_SUM_LANES, 1};
        const unsigned block[3] = {KAS_SUM_LANES / 4, KAS_SUM_TEAMS, 1};
        KAS_TRY(kas_cuda_launch(cuda, direct->sum, grid, block, &args));
    }
    return KAS_OK;
}

static kas_status run_mma(kas_cuda *cuda, const kas_direct *direct, const kas_conv_desc *desc,
                          kas_conv_pass pass, kas_conv_args *args)
{
    const kas_mma_launch mma = kas_mma_launch_of(desc, pass);
    args->parts = mma.parts;
    return kas_cuda_launch(cuda, direct->mma[pass], mma.launch.grid, mma.launch.block, args);
}

static kas_status run_loops(kas_cuda *cuda, const kas_direct *direct, const kas_conv_desc *desc,
                            kas_conv_pass pass, kas_conv_args *args)
{
    if (kas_conv_loops_transpose(desc, pass)) {
        const kas_conv_launch transpose = kas_conv_loops_transpose_launch(desc);
        KAS_TRY(kas_cuda_launch(cuda, direct->weights, transpose.grid, transpose.block, args));
    }
    kas_conv_launch launch = kas_conv_loops_launch(desc, pass);
    if (pass == KAS_CONV_BACKWARD_WEIGHTS && direct->parts > 1) {
        args->parts = direct->parts;
        launch.grid[2] = (unsigned)direct->parts;
    }
    return kas_cuda_launch(cuda, direct->loops[pass], launch.grid, launch.block, args);
}

kas_status kas_direct_run(kas_cuda *cuda, const kas_direct *direct, const kas_conv_desc *desc,
                          kas_conv_pass pass, const kas_conv_operands *o, kas_activation activation)
{
    kas_conv_args args =
        kas_conv_loops_args(desc, o->x, o->w, o->y, (float *)(uintptr_t)cuda->workspace);
    args.bias = o->bias;
    args.residual = o->residual;
    if (activation != KAS_ACTIVATION_NONE)
        args.least = 0;
    if (activation == KAS_ACTIVATION_RELU6)
        args.most = 6;
    if (direct->mma[pass] && kas_conv_operands_are_aligned(o))
        KAS_TRY(run_mma(cuda, direct, desc, pass, &args));
    else
        KAS_TRY(run_loops(cuda, direct, desc, pass, &args));
    return pass == KAS_CONV_BACKWARD_WEIGHTS && args.parts > 1 ? add_parts(cuda, direct, &args)
                                                               : KAS_OK;
}
