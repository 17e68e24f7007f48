#include "host/ops/internal.h"

/* Returns whether the first and the last of `out` windows each contain one of the `size` pixels. */
static bool windows_fit(int size, int out, int kernel, int stride, int pad)
{
    return stride >= 1 && kernel >= 1 && pad >= 0 && pad < kernel &&
           (double)(out - 1) * stride - pad < size;
}

static kas_status check_channels(const char *operation, const kas_tensor *a, const kas_tensor *b)
{
    if (a->c != b->c)
        return kas_fail(KAS_BAD_INPUT, "%s: %d and %d channels must be equal", operation, a->c,
                        b->c);
    return kas_ops_check_number(operation, "the small tensor", b, a->dtype);
}

/* Checks that `small` is `large` pooled. */
static kas_status check_pooled(const char *operation, const kas_pool *pool, const kas_tensor *large,
                               const kas_tensor *small)
{
    KAS_TRY(kas_ops_check(operation, "the large tensor", large));
    KAS_TRY(kas_ops_check(operation, "the small tensor", small));
    KAS_TRY(check_channels(operation, large, small));
    if (small->n == large->n &&
        (pool->adaptive ||
         (windows_fit(large->h, small->h, pool->kernel_h, pool->stride, pool->pad_h) &&
          windows_fit(large->w, small->w, pool->kernel_w, pool->stride, pool->pad_w))))
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT,
                    "%s: windows of %dx%d, stride %d, padding %d and %d, do not make "
                    "[%d][%d][%d] of [%d][%d][%d]",
                    operation, pool->kernel_h, pool->kernel_w, pool->stride, pool->pad_h,
                    pool->pad_w, small->n, small->h, small->w, large->n, large->h, large->w);
}

static kas_pool_args make_args(const kas_pool *pool, const kas_tensor *x, const kas_tensor *y,
                               bool forward)
{
    const kas_tensor *const all[] = {x, y, NULL};
    return (kas_pool_args){.in = forward ? x->data : y->data,
                           .out = forward ? y->data : x->data,
                           .h = x->h,
                           .width = x->w,
                           .out_h = y->h,
                           .out_w = y->w,
                           .kernel_h = pool->kernel_h,
                           .kernel_w = pool->kernel_w,
                           .stride = pool->stride,
                           .pad_h = pool->pad_h,
                           .pad_w = pool->pad_w,
                           .adaptive = pool->adaptive,
                           .count_pad = pool->count_include_pad,
                           .c = x->c,
                           .pitch_x = x->pitch,
                           .pitch_y = y->pitch,
                           .whole = kas_ops_whole(all, NULL)};
}

/* Launches a block for each row of the output (y forward, dx backward), image and chunk
 * of channels. */
static kas_status launch_rows(kas_plan *plan, const kas_function *function,
                              const kas_pool_args *args, const kas_tensor *out)
{
    const unsigned grid[3] = {(unsigned)out->h, (unsigned)out->n,
                              kas_ops_chunks(args->c, KAS_POOL_LANES)};
    unsigned block[3];
    kas_ops_part_block(args->c, KAS_POOL_LANES, KAS_MAX_BLOCK, out->dtype, block);
    return kas_plan_launch(plan, function, grid, block, args, sizeof *args);
}

kas_status kas_op_avg_pool_forward(kas_ops *ops, kas_plan *plan, const kas_pool *pool, kas_tensor x,
                                   kas_tensor y)
{
    KAS_TRY(check_pooled("average pool", pool, &x, &y));
    const kas_pool_args args = make_args(pool, &x, &y, true);
    return launch_rows(plan, ops->of[x.dtype].avg_pool_forward, &args, &y);
}

kas_status kas_op_avg_pool_backward(kas_ops *ops, kas_plan *plan, const kas_pool *pool,
                                    kas_tensor dy, kas_tensor dx)
{
    KAS_TRY(check_pooled("average pool backward", pool, &dx, &dy));
    const kas_pool_args args = make_args(pool, &dx, &dy, false);
    return launch_rows(plan, ops->of[dx.dtype].avg_pool_backward, &args, &dx);
}

static kas_status check_max_pool(const char *operation, const kas_pool *pool, const kas_tensor *x,
                                 const kas_tensor *y)
{
    KAS_TRY(check_pooled(operation, pool, x, y));
    if (pool->adaptive || pool->kernel_h * pool->kernel_w > KAS_MAX_POOL_TAPS)
        return kas_fail(KAS_BAD_INPUT, "%s: windows of %dx%d pixels; at most %d are supported",
                        operation, pool->kernel_h, pool->kernel_w, KAS_MAX_POOL_TAPS);
    return KAS_OK;
}

/* Sets the index, which is like the small tensor and has rows of a pitch of its own. */
static void set_index(kas_pool_args *args, uint8_t *index, const kas_tensor *small)
{
    const kas_tensor *const none[] = {NULL};
    const float *const array[] = {(const float *)(const void *)index, NULL};
    args->index = index;
    args->pitch_index = kas_pitch(small->c);
    args->whole &= args->pitch_index % kas_ops_width(small->dtype) == 0;
    args->whole &= kas_ops_whole(none, array);
}

kas_status kas_op_max_pool_forward(kas_ops *ops, kas_plan *plan, const kas_pool *pool, kas_tensor x,
                                   kas_tensor y, uint8_t *index)
{
    KAS_TRY(check_max_pool("max pool", pool, &x, &y));
    kas_pool_args args = make_args(pool, &x, &y, true);
    set_index(&args, index, &y);
    return launch_rows(plan, ops->of[x.dtype].max_pool_forward, &args, &y);
}

kas_status kas_op_max_pool_backward(kas_ops *ops, kas_plan *plan, const kas_pool *pool,
                                    const uint8_t *index, kas_tensor dy, kas_tensor dx)
{
    KAS_TRY(check_max_pool("max pool backward", pool, &dx, &dy));
    kas_pool_args args = make_args(pool, &dx, &dy, false);
    set_index(&args, (uint8_t *)index, &dy);
    return launch_rows(plan, ops->of[dx.dtype].max_pool_backward, &args, &dx);
}

/* The global pools use only the sizes of the tensors. */
static const kas_pool whole = {0};

static kas_status check_global(const char *operation, const kas_tensor *x, const kas_tensor *y)
{
    KAS_TRY(kas_ops_check(operation, "the large tensor", x));
    KAS_TRY(kas_ops_check(operation, "the small tensor", y));
    if (y->n != x->n || y->h != 1 || y->w != 1)
        return kas_fail(KAS_BAD_INPUT, "%s: [%d][%d][%d] gives [%d][1][1], not [%d][%d][%d]",
                        operation, x->n, x->h, x->w, x->n, y->n, y->h, y->w);
    return check_channels(operation, x, y);
}

kas_status kas_op_global_pool_forward(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y)
{
    KAS_TRY(check_global("global pool", &x, &y));
    const kas_pool_args args = make_args(&whole, &x, &y, true);
    const unsigned grid[3] = {(unsigned)x.n, kas_ops_chunks(x.c, KAS_POOL_LANES), 1};
    unsigned block[3];
    kas_ops_part_block(x.c, KAS_POOL_LANES, KAS_POOL_TEAMS, x.dtype, block);
    return kas_plan_launch(plan, ops->of[x.dtype].global_pool_forward, grid, block, &args,
                           sizeof args);
}

kas_status kas_op_global_pool_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, kas_tensor dx)
{
    KAS_TRY(check_global("global pool backward", &dx, &dy));
    const kas_pool_args args = make_args(&whole, &dx, &dy, false);
    const unsigned grid[3] = {(unsigned)dx.n, 1, 1};
    unsigned block[3];
    kas_ops_wide_block(dx.c, dx.dtype, block);
    return kas_plan_launch(plan, ops->of[dx.dtype].global_pool_backward, grid, block, &args,
                           sizeof args);
}
