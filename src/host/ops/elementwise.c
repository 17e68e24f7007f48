#include "host/ops/internal.h"

/* Launches y = f(a, b) row by row; `b` or `bias` may be NULL. */
static kas_status launch_rows(kas_plan *plan, const kas_function *function, const kas_tensor *a,
                              const kas_tensor *b, const float *bias, const kas_tensor *y)
{
    const int rows = kas_tensor_rows(y);
    const kas_tensor *const all[] = {a, y, b, NULL};
    const float *const array[] = {bias, NULL};
    const kas_rows_args args = {.a = a->data,
                                .b = b ? b->data : NULL,
                                .bias = bias,
                                .y = y->data,
                                .rows = rows,
                                .c = y->c,
                                .pitch_a = a->pitch,
                                .pitch_b = b ? b->pitch : 0,
                                .pitch_y = y->pitch,
                                .rows_per_block = kas_ops_rows_per_block(y->c),
                                .b_every = b ? rows / kas_tensor_rows(b) : 1,
                                .whole = kas_ops_whole(all, array)};
    return kas_ops_launch_rows(plan, function, y, &args, sizeof args);
}

kas_status kas_op_add(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b, kas_tensor sum)
{
    KAS_TRY(kas_ops_check("add", "a", &a));
    KAS_TRY(kas_ops_check_like("add", "b", &b, &a));
    KAS_TRY(kas_ops_check_like("add", "sum", &sum, &a));
    return launch_rows(plan, ops->of[a.dtype].add, &a, &b, NULL, &sum);
}

kas_status kas_op_subtract(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                           kas_tensor difference)
{
    KAS_TRY(kas_ops_check("subtract", "a", &a));
    KAS_TRY(kas_ops_check_like("subtract", "b", &b, &a));
    KAS_TRY(kas_ops_check_like("subtract", "difference", &difference, &a));
    return launch_rows(plan, ops->of[a.dtype].subtract, &a, &b, NULL, &difference);
}

kas_status kas_op_copy(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y)
{
    KAS_TRY(kas_ops_check("copy", "x", &x));
    KAS_TRY(kas_ops_check_like("copy", "y", &y, &x));
    return launch_rows(plan, ops->of[x.dtype].copy, &x, NULL, NULL, &y);
}

kas_status kas_op_cast(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y)
{
    KAS_TRY(kas_ops_check("cast", "x", &x));
    kas_tensor like = y;
    like.dtype = x.dtype;
    KAS_TRY(kas_ops_check_like("cast", "y", &like, &x));
    const bool widen = y.dtype == KAS_F32;
    if (!widen)
        KAS_TRY(kas_ops_check_number("cast", "x", &x, KAS_F32));
    const kas_tensor *real = widen ? &x : &y, *value = widen ? &y : &x;
    const kas_tensor *const all[] = {real, value, NULL};
    const kas_cast_args args = {.real = real->data,
                                .value = value->data,
                                .rows = kas_tensor_rows(&x),
                                .c = x.c,
                                .pitch_real = real->pitch,
                                .pitch_value = value->pitch,
                                .rows_per_block = kas_ops_rows_per_block(x.c),
                                .whole = kas_ops_whole(all, NULL)};
    const kas_kernels *k = &ops->of[real->dtype];
    return kas_ops_launch_rows(plan, widen ? k->widen : k->narrow, real, &args, sizeof args);
}

/* Checks that `b` is [n][1][1][c], which applies to every pixel of a's [n][h][w][c]. */
static kas_status check_gate(const char *operation, const kas_tensor *a, const kas_tensor *b)
{
    kas_tensor one = *a;
    one.h = one.w = 1;
    return kas_ops_check_like(operation, "what holds for every pixel", b, &one);
}

kas_status kas_op_multiply(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                           kas_tensor product)
{
    KAS_TRY(kas_ops_check("multiply", "a", &a));
    KAS_TRY(kas_ops_check_like("multiply", "product", &product, &a));
    if (b.h == 1 && b.w == 1)
        KAS_TRY(check_gate("multiply", &a, &b));
    else
        KAS_TRY(kas_ops_check_like("multiply", "b", &b, &a));
    return launch_rows(plan, ops->of[a.dtype].multiply, &a, &b, NULL, &product);
}

kas_status kas_op_multiply_sum(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                               kas_tensor sum)
{
    KAS_TRY(kas_ops_check("sum of products", "a", &a));
    KAS_TRY(kas_ops_check_like("sum of products", "b", &b, &a));
    KAS_TRY(check_gate("sum of products", &a, &sum));
    const kas_tensor *const all[] = {&a, &b, &sum, NULL};
    const kas_rows_args args = {.a = a.data,
                                .b = b.data,
                                .y = sum.data,
                                .c = a.c,
                                .pitch_a = a.pitch,
                                .pitch_b = b.pitch,
                                .pitch_y = sum.pitch,
                                .b_every = a.h * a.w,
                                .whole = kas_ops_whole(all, NULL)};
    unsigned block[3];
    kas_ops_part_block(a.c, KAS_SUM_LANES, KAS_SUM_TEAMS, a.dtype, block);
    const unsigned grid[3] = {(unsigned)a.n, kas_ops_chunks(a.c, KAS_SUM_LANES), 1};
    return kas_plan_launch(plan, ops->of[a.dtype].multiply_sum, grid, block, &args, sizeof args);
}

kas_status kas_op_bias_forward(kas_ops *ops, kas_plan *plan, kas_tensor y, const float *bias)
{
    KAS_TRY(kas_ops_check("bias", "y", &y));
    return launch_rows(plan, ops->of[y.dtype].bias_forward, &y, NULL, bias, &y);
}

size_t kas_bias_scratch(const kas_tensor *dy)
{
    const int rows = kas_tensor_rows(dy);
    const unsigned chunks = kas_ops_chunks(rows, kas_ops_chunk_rows(rows));
    return chunks > 1 ? (size_t)chunks * (size_t)dy->c : 0;
}

/* Records out [chunks][c] = the sums of chunk_rows rows of x. */
static kas_status column_sums(kas_ops *ops, kas_plan *plan, const kas_tensor *x, int chunk_rows,
                              float *out)
{
    const kas_tensor *const all[] = {x, NULL};
    const float *const array[] = {out, NULL};
    const kas_column_sum_args args = {.x = x->data,
                                      .out = out,
                                      .rows = kas_tensor_rows(x),
                                      .c = x->c,
                                      .pitch = x->pitch,
                                      .chunk_rows = chunk_rows,
                                      .whole = kas_ops_whole(all, array)};
    unsigned block[3];
    kas_ops_part_block(x->c, KAS_SUM_LANES, KAS_SUM_TEAMS, x->dtype, block);
    const unsigned grid[3] = {kas_ops_chunks(args.rows, chunk_rows),
                              kas_ops_chunks(x->c, KAS_SUM_LANES), 1};
    return kas_plan_launch(plan, ops->of[x->dtype].bias_backward, grid, block, &args, sizeof args);
}

kas_status kas_op_bias_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, float *dbias,
                                float *scratch)
{
    KAS_TRY(kas_ops_check("bias backward", "dy", &dy));
    const int rows = kas_tensor_rows(&dy), chunk = kas_ops_chunk_rows(rows);
    const int chunks = (int)kas_ops_chunks(rows, chunk);
    if (chunks == 1)
        return column_sums(ops, plan, &dy, chunk, dbias);
    const kas_tensor partial = {scratch, 1, 1, chunks, dy.c, dy.c, KAS_F32};
    KAS_TRY(column_sums(ops, plan, &dy, chunk, scratch));
    return column_sums(ops, plan, &partial, chunks, dbias);
}

kas_status kas_op_advance(kas_ops *ops, kas_plan *plan, kas_step_state *state, int batch)
{
    const kas_advance_args args = {state, (kas_u32)batch};
    const unsigned one[3] = {1, 1, 1};
    return kas_plan_launch(plan, ops->of[KAS_F32].advance, one, one, &args, sizeof args);
}
