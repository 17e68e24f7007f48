#include "host/train/ops/internal.h"

/* Checks that `small` is `large` pooled by `size` (channels apart). */
static kas_status check_pooled(const char *operation, int size, const kas_tensor *large,
                               const kas_tensor *small)
{
    KAS_TRY(kas_ops_check(operation, "the large tensor", large));
    KAS_TRY(kas_ops_check(operation, "the small tensor", small));
    if (size < 1)
        return kas_fail(KAS_BAD_INPUT, "%s: size %d, expected at least 1", operation, size);
    const int h = (large->h + size - 1) / size, w = (large->w + size - 1) / size;
    if (small->n != large->n || small->h != h || small->w != w)
        return kas_fail(KAS_BAD_INPUT, "%s: [%d][%d][%d] by %d is [%d][%d][%d], not [%d][%d][%d]",
                        operation, large->n, large->h, large->w, size, large->n, h, w, small->n,
                        small->h, small->w);
    return KAS_OK;
}

static kas_status check_channels(const char *operation, const kas_tensor *a, const kas_tensor *b)
{
    if (a->c != b->c)
        return kas_fail(KAS_BAD_INPUT, "%s: %d and %d channels must be equal", operation, a->c,
                        b->c);
    return KAS_OK;
}

static kas_pool_args make_args(int size, const kas_tensor *x, const kas_tensor *y, bool forward)
{
    return (kas_pool_args){.in = forward ? x->data : y->data,
                           .out = forward ? y->data : x->data,
                           .h = x->h,
                           .width = x->w,
                           .out_h = y->h,
                           .out_w = y->w,
                           .size = size,
                           .c = x->c,
                           .pitch_x = x->pitch,
                           .pitch_y = y->pitch,
                           .c_out = y->c,
                           .front = (y->c - x->c) / 2};
}

static kas_status launch(kas_plan *plan, const kas_function *function, const kas_pool_args *args,
                         unsigned gx, unsigned gy, unsigned gz, int lanes, bool rows)
{
    unsigned block[3];
    kas_ops_block(lanes, KAS_POOL_LANES, rows, block);
    return kas_plan_launch(plan, function, (unsigned[3]){gx, gy, gz}, block, args, sizeof *args);
}

kas_status kas_op_avg_pool_forward(kas_ops *ops, kas_plan *plan, int s, kas_tensor x, kas_tensor y)
{
    KAS_TRY(check_pooled("average pool", s, &x, &y));
    KAS_TRY(check_channels("average pool", &x, &y));
    const kas_pool_args args = make_args(s, &x, &y, true);
    return launch(plan, ops->avg_pool_forward, &args, (unsigned)y.h, (unsigned)y.n,
                  kas_ops_chunks(x.c, KAS_POOL_LANES), x.c, true);
}

kas_status kas_op_avg_pool_backward(kas_ops *ops, kas_plan *plan, int s, kas_tensor dy,
                                    kas_tensor dx)
{
    KAS_TRY(check_pooled("average pool backward", s, &dx, &dy));
    KAS_TRY(check_channels("average pool backward", &dx, &dy));
    const kas_pool_args args = make_args(s, &dx, &dy, false);
    return launch(plan, ops->avg_pool_backward, &args, (unsigned)dy.h, (unsigned)dy.n, 1, dx.c,
                  true);
}

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
    const kas_pool_args args = make_args(1, &x, &y, true);
    return launch(plan, ops->global_pool_forward, &args, (unsigned)x.n,
                  kas_ops_chunks(x.c, KAS_POOL_LANES), 1, x.c, false);
}

kas_status kas_op_global_pool_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, kas_tensor dx)
{
    KAS_TRY(check_global("global pool backward", &dx, &dy));
    const kas_pool_args args = make_args(1, &dx, &dy, false);
    return launch(plan, ops->global_pool_backward, &args, (unsigned)dx.n, 1, 1, dx.c, true);
}

static kas_status check_shortcut(const char *operation, int stride, const kas_tensor *x,
                                 const kas_tensor *y)
{
    KAS_TRY(check_pooled(operation, stride, x, y));
    if (y->c < x->c)
        return kas_fail(KAS_BAD_INPUT, "%s: %d channels cannot be padded to %d", operation, x->c,
                        y->c);
    return KAS_OK;
}

kas_status kas_op_shortcut_a_forward(kas_ops *ops, kas_plan *plan, int stride, kas_tensor x,
                                     kas_tensor y)
{
    KAS_TRY(check_shortcut("shortcut", stride, &x, &y));
    const kas_pool_args args = make_args(stride, &x, &y, true);
    return launch(plan, ops->shortcut_a_forward, &args, (unsigned)y.h, (unsigned)y.n, 1, y.c, true);
}

kas_status kas_op_shortcut_a_backward(kas_ops *ops, kas_plan *plan, int stride, kas_tensor dy,
                                      kas_tensor dx)
{
    KAS_TRY(check_shortcut("shortcut backward", stride, &dx, &dy));
    const kas_pool_args args = make_args(stride, &dx, &dy, false);
    return launch(plan, ops->shortcut_a_backward, &args, (unsigned)dy.h, (unsigned)dy.n, 1, dx.c,
                  true);
}
