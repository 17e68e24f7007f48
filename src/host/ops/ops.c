#include "host/ops/internal.h"

#include <stdlib.h>

_Static_assert(KAS_MAX_BLOCK == KAS_BLOCK_MAX, "device.h and the prelude agree on a block");
_Static_assert((int)KAS_ACTIVATION_GELU == KAS_ACT_GELU &&
                   (int)KAS_ACTIVATION_HARD_SIGMOID == KAS_ACT_KEEPS_OUTPUT,
               "the host's and the device's activations");

kas_status kas_ops_use(kas_ops *ops, kas_dtype dtype)
{
    kas_module *module;
    kas_kernels *kernels = &ops->of[dtype];
    KAS_TRY(kas_module_builtin(ops->device, dtype, &module));
#define KAS_OPS_LOOK_UP(name)                                                                      \
    KAS_TRY(kas_module_function(module, "kas_dev_" #name, &kernels->name));
    KAS_OPS_KERNELS(KAS_OPS_LOOK_UP)
#undef KAS_OPS_LOOK_UP
    return KAS_OK;
}

kas_status kas_ops_create(kas_device *device, kas_ops **out)
{
    *out = NULL;
    kas_ops *ops = calloc(1, sizeof *ops);
    if (!ops)
        return kas_fail(KAS_NO_MEMORY, "no memory for the operations");
    ops->device = device;
    const kas_status status = kas_ops_use(ops, KAS_F32);
    if (status != KAS_OK) {
        free(ops);
        return status;
    }
    *out = ops;
    return KAS_OK;
}

void kas_ops_free(kas_ops *ops)
{
    free(ops);
}

void kas_ops_block(int lanes, unsigned most, bool rows, unsigned block[3])
{
    unsigned x = 1;
    while ((int)x < lanes && x < most && x < KAS_MAX_BLOCK)
        x *= 2;
    if (!rows && x < 32)
        x = 32; /* a warp is never smaller */
    block[0] = x;
    block[1] = rows ? KAS_MAX_BLOCK / x : 1;
    block[2] = 1;
}

int kas_ops_width(kas_dtype dtype)
{
    return 16 / (int)kas_dtype_size(dtype);
}

void kas_ops_wide_block(int c, kas_dtype dtype, unsigned block[3])
{
    const int width = kas_ops_width(dtype);
    kas_ops_block((c + width - 1) / width, KAS_MAX_BLOCK, true, block);
}

void kas_ops_part_block(int c, int most, unsigned rows, kas_dtype dtype, unsigned block[3])
{
    kas_ops_wide_block(c < most ? c : most, dtype, block);
    if (block[1] > rows)
        block[1] = rows;
}

bool kas_ops_whole(const kas_tensor *const *tensor, const float *const *array)
{
    bool whole = true;
    for (; *tensor; tensor++) {
        const kas_tensor *t = *tensor;
        const int width = kas_ops_width(t->dtype);
        whole &=
            !t->data || (t->c % width == 0 && t->pitch % width == 0 && kas_is_aligned(t->data));
    }
    for (; array && *array; array++)
        whole &= kas_is_aligned(*array);
    return whole;
}

int kas_ops_rows_per_block(int c)
{
    return c < 4096 ? 4096 / c : 1;
}

kas_status kas_ops_launch_rows(kas_plan *plan, const kas_function *function, const kas_tensor *t,
                               const void *args, size_t size)
{
    unsigned block[3];
    kas_ops_wide_block(t->c, t->dtype, block);
    const unsigned grid[3] = {kas_ops_chunks(kas_tensor_rows(t), kas_ops_rows_per_block(t->c)), 1,
                              1};
    return kas_plan_launch(plan, function, grid, block, args, size);
}

int kas_ops_chunk_rows(int rows)
{
    const int even = (rows + 255) / 256;
    return even > 128 ? even : 128;
}

kas_status kas_ops_combine(kas_plan *plan, const kas_function *function, const kas_norm_args *args)
{
    const unsigned grid[3] = {kas_ops_chunks(args->c, KAS_COMBINE_LANES), 1, 1};
    unsigned block[3];
    kas_ops_part_block(args->c, KAS_COMBINE_LANES, KAS_COMBINE_TEAMS, KAS_F32, block);
    return kas_plan_launch(plan, function, grid, block, args, sizeof *args);
}

kas_status kas_ops_check(const char *operation, const char *name, const kas_tensor *t)
{
    if (!t->data)
        return kas_fail(KAS_BAD_INPUT, "%s: %s has no memory", operation, name);
    if (t->n < 1 || t->h < 1 || t->w < 1 || t->c < 1 || t->pitch < t->c ||
        (double)t->n * t->h * t->w > INT32_MAX)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s is [%d][%d][%d][%d] of pitch %d: sizes must be at least 1, the "
                        "pitch at least the channels, and there are at most 2^31 - 1 pixels",
                        operation, name, t->n, t->h, t->w, t->c, t->pitch);
    return KAS_OK;
}

kas_status kas_ops_check_number(const char *operation, const char *name, const kas_tensor *t,
                                kas_dtype dtype)
{
    if (t->dtype != dtype)
        return kas_fail(KAS_BAD_INPUT, "%s: %s is %s, expected %s", operation, name,
                        kas_dtype_names[t->dtype], kas_dtype_names[dtype]);
    return KAS_OK;
}

kas_status kas_ops_check_like(const char *operation, const char *name, const kas_tensor *t,
                              const kas_tensor *like)
{
    KAS_TRY(kas_ops_check(operation, name, t));
    if (t->n != like->n || t->h != like->h || t->w != like->w || t->c != like->c)
        return kas_fail(KAS_BAD_INPUT, "%s: %s is [%d][%d][%d][%d], expected [%d][%d][%d][%d]",
                        operation, name, t->n, t->h, t->w, t->c, like->n, like->h, like->w,
                        like->c);
    return kas_ops_check_number(operation, name, t, like->dtype);
}
