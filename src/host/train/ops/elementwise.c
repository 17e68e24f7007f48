#include "host/train/ops/internal.h"

/* y = f(a, b) row by row; `b` may be NULL. */
static kas_status launch_rows(kas_plan *plan, const kas_function *function, const kas_tensor *a,
                              const kas_tensor *b, const kas_tensor *y)
{
    const int rows = kas_tensor_rows(y);
    const kas_rows_args args = {.a = a->data,
                                .b = b ? b->data : NULL,
                                .y = y->data,
                                .rows = rows,
                                .c = y->c,
                                .pitch_a = a->pitch,
                                .pitch_b = b ? b->pitch : 0,
                                .pitch_y = y->pitch,
                                .rows_per_block = kas_ops_rows_per_block(y->c)};
    unsigned block[3];
    kas_ops_block(y->c, KAS_MAX_BLOCK, true, block);
    const unsigned grid[3] = {kas_ops_chunks(rows, args.rows_per_block), 1, 1};
    return kas_plan_launch(plan, function, grid, block, &args, sizeof args);
}

kas_status kas_op_add(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b, kas_tensor sum)
{
    KAS_TRY(kas_ops_check("add", "a", &a));
    KAS_TRY(kas_ops_check_like("add", "b", &b, &a));
    KAS_TRY(kas_ops_check_like("add", "sum", &sum, &a));
    return launch_rows(plan, ops->add, &a, &b, &sum);
}

kas_status kas_op_relu_forward(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y)
{
    KAS_TRY(kas_ops_check("relu", "x", &x));
    KAS_TRY(kas_ops_check_like("relu", "y", &y, &x));
    return launch_rows(plan, ops->relu_forward, &x, NULL, &y);
}

kas_status kas_op_relu_backward(kas_ops *ops, kas_plan *plan, kas_tensor y, kas_tensor dy,
                                kas_tensor dx)
{
    KAS_TRY(kas_ops_check("relu backward", "y", &y));
    KAS_TRY(kas_ops_check_like("relu backward", "dy", &dy, &y));
    KAS_TRY(kas_ops_check_like("relu backward", "dx", &dx, &y));
    return launch_rows(plan, ops->relu_backward, &y, &dy, &dx);
}

kas_status kas_op_bias_forward(kas_ops *ops, kas_plan *plan, kas_tensor y, const float *bias)
{
    KAS_TRY(kas_ops_check("bias", "y", &y));
    const kas_tensor b = {.data = (float *)bias, .c = y.c};
    return launch_rows(plan, ops->bias_forward, &y, &b, &y);
}

kas_status kas_op_bias_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, float *dbias)
{
    KAS_TRY(kas_ops_check("bias backward", "dy", &dy));
    const kas_rows_args args = {
        .a = dy.data, .y = dbias, .rows = kas_tensor_rows(&dy), .c = dy.c, .pitch_a = dy.pitch};
    unsigned block[3];
    kas_ops_block(dy.c, KAS_MAX_BLOCK, false, block);
    return kas_plan_launch(plan, ops->bias_backward, (unsigned[3]){1, 1, 1}, block, &args,
                           sizeof args);
}

kas_status kas_op_advance(kas_ops *ops, kas_plan *plan, kas_step_state *state, int batch)
{
    const kas_advance_args args = {(kas_dev_state *)state, (kas_u32)batch};
    const unsigned one[3] = {1, 1, 1};
    return kas_plan_launch(plan, ops->advance, one, one, &args, sizeof args);
}
