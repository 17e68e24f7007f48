#include "host/ops/internal.h"

static kas_layer_norm_args make_args(const kas_layer_norm *norm)
{
    const int rows = kas_tensor_rows(&norm->x);
    return (kas_layer_norm_args){.x = norm->x.data,
                                 .gamma = norm->gamma,
                                 .beta = norm->beta,
                                 .mean = norm->saved_mean,
                                 .rstd = norm->saved_rstd,
                                 .saved_mean = norm->saved_mean,
                                 .saved_rstd = norm->saved_rstd,
                                 .partial = norm->scratch,
                                 .rows = rows,
                                 .c = norm->x.c,
                                 .chunk_rows = kas_ops_chunk_rows(rows),
                                 .pitch_x = norm->x.pitch,
                                 .eps = norm->eps};
}

/* Launches blocks whose rows of threads take a row each. */
static kas_status launch_rows(kas_plan *plan, kas_dtype dtype, const kas_function *function,
                              kas_layer_norm_args *args)
{
    unsigned block[3];
    kas_ops_part_block(args->c, KAS_LAYER_NORM_LANES, KAS_MAX_BLOCK, dtype, block);
    args->rows_per_block = (int)block[1];
    const unsigned grid[3] = {kas_ops_chunks(args->rows, args->rows_per_block), 1, 1};
    return kas_plan_launch(plan, function, grid, block, args, sizeof *args);
}

kas_status kas_op_layer_norm_forward(kas_ops *ops, kas_plan *plan, const kas_layer_norm *norm)
{
    KAS_TRY(kas_ops_check("layer norm", "x", &norm->x));
    KAS_TRY(kas_ops_check_like("layer norm", "y", &norm->y, &norm->x));
    kas_layer_norm_args args = make_args(norm);
    args.out = norm->y.data;
    args.pitch_out = norm->y.pitch;
    const kas_tensor *const all[] = {&norm->x, &norm->y, NULL};
    const float *const array[] = {norm->gamma, norm->beta, NULL};
    args.whole = kas_ops_whole(all, array);
    return launch_rows(plan, norm->x.dtype, ops->of[norm->x.dtype].layer_norm_forward, &args);
}

/* Records the sums over rows. They come before dx, which may overwrite dy. */
static kas_status parameter_gradients(kas_ops *ops, kas_plan *plan, kas_dtype dtype,
                                      const kas_layer_norm_args *args, float *dgamma, float *dbeta)
{
    const unsigned chunks = kas_ops_chunks(args->rows, args->chunk_rows);
    const unsigned channels = kas_ops_chunks(args->c, KAS_NORM_LANES);
    const kas_norm_args sums = {.partial = args->partial,
                                .chunks = (int)chunks,
                                .c = args->c,
                                .whole = args->whole,
                                .dgamma = dgamma,
                                .dbeta = dbeta};
    unsigned block[3];
    kas_ops_part_block(args->c, KAS_NORM_LANES, KAS_NORM_TEAMS, dtype, block);
    KAS_TRY(kas_plan_launch(plan, ops->of[dtype].layer_norm_gradient,
                            (unsigned[3]){chunks, channels, 1}, block, args, sizeof *args));
    return kas_ops_combine(plan, ops->of[KAS_F32].norm_gradient_combine, &sums);
}

kas_status kas_op_layer_norm_backward(kas_ops *ops, kas_plan *plan, const kas_layer_norm *norm,
                                      kas_tensor dy, kas_tensor dx, float *dgamma, float *dbeta)
{
    KAS_TRY(kas_ops_check("layer norm backward", "x", &norm->x));
    KAS_TRY(kas_ops_check_like("layer norm backward", "dy", &dy, &norm->x));
    KAS_TRY(kas_ops_check_like("layer norm backward", "dx", &dx, &norm->x));
    kas_layer_norm_args args = make_args(norm);
    args.dy = dy.data;
    args.pitch_dy = dy.pitch;
    args.out = dx.data;
    args.pitch_out = dx.pitch;
    const kas_tensor *const all[] = {&norm->x, &dy, &dx, NULL};
    const float *const array[] = {norm->gamma, args.partial, dgamma, dbeta, NULL};
    args.whole = kas_ops_whole(all, array);
    KAS_TRY(parameter_gradients(ops, plan, dy.dtype, &args, dgamma, dbeta));
    return launch_rows(plan, dy.dtype, ops->of[dy.dtype].layer_norm_backward, &args);
}
