#include "host/ops/internal.h"

static kas_status check_shortcut(const char *operation, int stride, const kas_tensor *x,
                                 const kas_tensor *y)
{
    KAS_TRY(kas_ops_check(operation, "the large tensor", x));
    KAS_TRY(kas_ops_check(operation, "the small tensor", y));
    if (stride < 1)
        return kas_fail(KAS_BAD_INPUT, "%s: stride %d, expected at least 1", operation, stride);
    const int h = (x->h + stride - 1) / stride, w = (x->w + stride - 1) / stride;
    if (y->n != x->n || y->h != h || y->w != w)
        return kas_fail(KAS_BAD_INPUT, "%s: [%d][%d][%d] by %d is [%d][%d][%d], not [%d][%d][%d]",
                        operation, x->n, x->h, x->w, stride, x->n, h, w, y->n, y->h, y->w);
    if (y->c < x->c)
        return kas_fail(KAS_BAD_INPUT, "%s: %d channels cannot be padded to %d", operation, x->c,
                        y->c);
    return kas_ops_check_number(operation, "the small tensor", y, x->dtype);
}

/* Launches a block for each row and image of the small tensor. */
static kas_status launch(kas_plan *plan, const kas_function *function, int stride,
                         const kas_tensor *x, const kas_tensor *y, bool forward)
{
    const kas_tensor *const all[] = {x, y, NULL};
    const int front = (y->c - x->c) / 2;
    const kas_shortcut_args args = {.in = forward ? x->data : y->data,
                                    .out = forward ? y->data : x->data,
                                    .h = x->h,
                                    .width = x->w,
                                    .out_h = y->h,
                                    .out_w = y->w,
                                    .size = stride,
                                    .c = x->c,
                                    .pitch_x = x->pitch,
                                    .pitch_y = y->pitch,
                                    .c_out = y->c,
                                    .front = front,
                                    .whole = kas_ops_whole(all, NULL) &&
                                             front % kas_ops_width(x->dtype) == 0};
    const unsigned grid[3] = {(unsigned)y->h, (unsigned)y->n, 1};
    unsigned block[3];
    kas_ops_wide_block(x->c, x->dtype, block);
    return kas_plan_launch(plan, function, grid, block, &args, sizeof args);
}

kas_status kas_op_shortcut_a_forward(kas_ops *ops, kas_plan *plan, int stride, kas_tensor x,
                                     kas_tensor y)
{
    KAS_TRY(check_shortcut("shortcut", stride, &x, &y));
    return launch(plan, ops->of[x.dtype].shortcut_a_forward, stride, &x, &y, true);
}

kas_status kas_op_shortcut_a_backward(kas_ops *ops, kas_plan *plan, int stride, kas_tensor dy,
                                      kas_tensor dx)
{
    KAS_TRY(check_shortcut("shortcut backward", stride, &dx, &dy));
    return launch(plan, ops->of[dx.dtype].shortcut_a_backward, stride, &dx, &dy, false);
}
