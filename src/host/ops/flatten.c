#include "host/ops/internal.h"

static kas_status launch(kas_plan *plan, const kas_function *function, const char *operation,
                         const kas_tensor *x, const kas_tensor *y, bool forward)
{
    KAS_TRY(kas_ops_check(operation, "the image", x));
    KAS_TRY(kas_ops_check(operation, "the vector", y));
    if (y->n != x->n || y->h != 1 || y->w != 1 || (double)y->c != (double)x->c * x->h * x->w)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: [%d][%d][%d][%d] gives [%d][1][1][%.0f], not "
                        "[%d][%d][%d][%d]",
                        operation, x->n, x->h, x->w, x->c, x->n, (double)x->c * x->h * x->w, y->n,
                        y->h, y->w, y->c);
    KAS_TRY(kas_ops_check_number(operation, "the vector", y, x->dtype));
    const kas_flatten_args args = {.in = forward ? x->data : y->data,
                                   .out = forward ? y->data : x->data,
                                   .pixels = x->h * x->w,
                                   .c = x->c,
                                   .pitch_x = x->pitch,
                                   .pitch_y = y->pitch};
    unsigned block[3];
    kas_ops_block(x->c, KAS_MAX_BLOCK, false, block);
    const unsigned grid[3] = {(unsigned)args.pixels, (unsigned)x->n, 1};
    return kas_plan_launch(plan, function, grid, block, &args, sizeof args);
}

kas_status kas_op_flatten_forward(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y)
{
    return launch(plan, ops->of[x.dtype].flatten_forward, "flatten", &x, &y, true);
}

kas_status kas_op_flatten_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, kas_tensor dx)
{
    return launch(plan, ops->of[dy.dtype].flatten_backward, "flatten backward", &dx, &dy, false);
}
