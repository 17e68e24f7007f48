#include "host/ops/internal.h"

/* Returns the rows of a chunk where `ranks` ranks with `rows` rows each share statistics: the most
 * that divide a rank's rows and are not more than one rank with all rows would take. */
static int shared_chunk_rows(int rows, int ranks)
{
    int chunk = kas_ops_chunk_rows(rows * ranks);
    while (rows % chunk != 0)
        chunk--;
    return chunk;
}

/* Returns the floats of the sums of `chunks` chunks, rounded up so that what follows is aligned. */
static size_t partial_size(int chunks, int c)
{
    return (size_t)kas_pitch(chunks * 2 * c);
}

size_t kas_batch_norm_scratch(const kas_tensor *x)
{
    const int rows = kas_tensor_rows(x);
    return (size_t)kas_ops_chunks(rows, kas_ops_chunk_rows(rows)) * 2 * (size_t)x->c;
}

size_t kas_batch_norm_shared_scratch(const kas_tensor *x, int ranks)
{
    const int rows = kas_tensor_rows(x);
    if (ranks == 1)
        return kas_batch_norm_scratch(x);
    const int own = (int)kas_ops_chunks(rows, kas_ops_chunk_rows(rows));
    const size_t shared = partial_size(ranks * (rows / shared_chunk_rows(rows, ranks)), x->c);
    const size_t gradient = partial_size(own, x->c) + 2 * (size_t)kas_pitch(x->c);
    return shared > gradient ? shared : gradient;
}

static kas_status check(const char *operation, const kas_batch_norm *norm)
{
    KAS_TRY(kas_ops_check(operation, "x", &norm->x));
    KAS_TRY(kas_ops_check_like(operation, "y", &norm->y, &norm->x));
    if (!norm->residual.data)
        return KAS_OK;
    if (norm->activation > KAS_ACTIVATION_RELU)
        return kas_fail(KAS_BAD_INPUT, "%s: activation %d with a residual; expected none or ReLU",
                        operation, (int)norm->activation);
    return kas_ops_check_like(operation, "residual", &norm->residual, &norm->x);
}

/* Each row of threads of a block takes KAS_NORM_ROWS rows. */
static int rows_per_block(const kas_tensor *x)
{
    unsigned block[3];
    kas_ops_wide_block(x->c, x->dtype, block);
    return KAS_NORM_ROWS * (int)block[1];
}

static kas_norm_args make_args(const kas_batch_norm *norm)
{
    const int rows = kas_tensor_rows(&norm->x);
    return (kas_norm_args){.x = norm->x.data,
                           .y = norm->y.data,
                           .residual = norm->residual.data,
                           .gamma = norm->gamma,
                           .beta = norm->beta,
                           .mean = norm->saved_mean,
                           .rstd = norm->saved_rstd,
                           .out = norm->y.data,
                           .running_mean = norm->running_mean,
                           .running_var = norm->running_var,
                           .saved_mean = norm->saved_mean,
                           .saved_rstd = norm->saved_rstd,
                           .partial = norm->scratch,
                           .watch = norm->watch,
                           .rows = rows,
                           .c = norm->x.c,
                           .chunk_rows = kas_ops_chunk_rows(rows),
                           .chunks = (int)kas_ops_chunks(rows, kas_ops_chunk_rows(rows)),
                           .rows_per_block = rows_per_block(&norm->x),
                           .activation = (int)norm->activation,
                           .pitch_x = norm->x.pitch,
                           .pitch_y = norm->y.pitch,
                           .pitch_residual = norm->residual.pitch,
                           .pitch_out = norm->y.pitch,
                           .eps = norm->eps,
                           .momentum = norm->momentum};
}

/* Returns whether all rows of the forward pass are whole (wide.h). */
static int whole(const kas_batch_norm *norm, const kas_norm_args *args)
{
    const kas_tensor *const all[] = {&norm->x, &norm->y, &norm->residual, NULL};
    const float *const array[] = {args->mean,       args->rstd,         args->gamma,
                                  args->beta,       args->running_mean, args->running_var,
                                  args->saved_mean, args->partial,      NULL};
    return kas_ops_whole(all, array);
}

/* Launches a kernel over chunks of rows and chunks of channels. */
static kas_status launch_chunks(kas_plan *plan, kas_dtype dtype, const kas_function *function,
                                const kas_norm_args *args)
{
    const unsigned grid[3] = {(unsigned)args->chunks, kas_ops_chunks(args->c, KAS_NORM_LANES), 1};
    unsigned block[3];
    kas_ops_part_block(args->c, KAS_NORM_LANES, KAS_NORM_TEAMS, dtype, block);
    return kas_plan_launch(plan, function, grid, block, args, sizeof *args);
}

static kas_status launch_rows(kas_plan *plan, kas_dtype dtype, const kas_function *function,
                              const kas_norm_args *args)
{
    const unsigned grid[3] = {kas_ops_chunks(args->rows, args->rows_per_block),
                              kas_ops_chunks(args->c, KAS_MAX_BLOCK * kas_ops_width(dtype)), 1};
    unsigned block[3];
    kas_ops_wide_block(args->c, dtype, block);
    return kas_plan_launch(plan, function, grid, block, args, sizeof *args);
}

/* Returns the column of the activation in the tables of kernels: none, ReLU, any other. */
static int variant(const kas_batch_norm *norm)
{
    return norm->activation < KAS_ACTIVATION_RELU6 ? (int)norm->activation : 2;
}

static kas_status launch_apply(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm,
                               const kas_norm_args *args)
{
    const kas_kernels *k = &ops->of[norm->x.dtype];
    const kas_function *const apply[2][3] = {
        {k->norm_apply, k->norm_apply_relu, k->norm_apply_active},
        {k->norm_apply_residual, k->norm_apply_residual_relu, NULL}};
    const kas_function *function = apply[norm->residual.data != NULL][variant(norm)];
    return launch_rows(plan, norm->x.dtype, function, args);
}

static kas_status launch_statistics(kas_ops *ops, kas_plan *plan, kas_dtype dtype,
                                    const kas_norm_args *args)
{
    KAS_TRY(launch_chunks(plan, dtype, ops->of[dtype].norm_statistics, args));
    return kas_ops_combine(plan, ops->of[KAS_F32].norm_combine, args);
}

/* Computes the statistics of all ranks: each sums up chunks of its own rows, and all of them
 * combine the chunks of all in the same order. */
static kas_status launch_shared_statistics(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm,
                                           kas_norm_args args)
{
    const int ranks = kas_group_ranks(norm->group);
    args.chunk_rows = shared_chunk_rows(args.rows, ranks);
    args.chunks = args.rows / args.chunk_rows;
    const size_t each = (size_t)args.chunks * 2 * (size_t)args.c;
    args.partial = norm->scratch + (size_t)kas_group_rank(norm->group) * each;
    args.whole = whole(norm, &args);
    KAS_TRY(launch_chunks(plan, norm->x.dtype, ops->of[norm->x.dtype].norm_statistics, &args));
    KAS_TRY(kas_plan_gather(plan, norm->group, norm->scratch, each * sizeof(float)));
    KAS_TRY(kas_plan_join(plan, norm->group));
    args.partial = norm->scratch;
    args.chunks *= ranks;
    args.rows *= ranks;
    return kas_ops_combine(plan, ops->of[KAS_F32].norm_combine, &args);
}

kas_status kas_op_batch_norm_forward(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm)
{
    KAS_TRY(check("batch norm", norm));
    kas_norm_args args = make_args(norm);
    args.whole = whole(norm, &args);
    KAS_TRY(norm->group ? launch_shared_statistics(ops, plan, norm, args)
                        : launch_statistics(ops, plan, norm->x.dtype, &args));
    return launch_apply(ops, plan, norm, &args);
}

kas_status kas_op_batch_norm_statistics(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm)
{
    KAS_TRY(kas_ops_check("batch norm statistics", "x", &norm->x));
    kas_norm_args args = make_args(norm);
    args.whole = whole(norm, &args);
    return launch_statistics(ops, plan, norm->x.dtype, &args);
}

kas_status kas_op_batch_norm_again(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm)
{
    KAS_TRY(check("batch norm again", norm));
    kas_norm_args args = make_args(norm);
    args.whole = whole(norm, &args);
    return launch_apply(ops, plan, norm, &args);
}

static kas_status launch_running(kas_ops *ops, kas_plan *plan, const kas_norm_args *args)
{
    unsigned block[3];
    kas_ops_block(args->c, KAS_MAX_BLOCK, false, block);
    return kas_plan_launch(plan, ops->of[KAS_F32].norm_running, (unsigned[3]){1, 1, 1}, block, args,
                           sizeof *args);
}

kas_status kas_op_batch_norm_inference(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm)
{
    KAS_TRY(check("batch norm inference", norm));
    kas_norm_args args = make_args(norm);
    args.mean = norm->running_mean;
    args.whole = whole(norm, &args);
    KAS_TRY(launch_running(ops, plan, &args));
    return launch_apply(ops, plan, norm, &args);
}

/* Returns whether the gradient behind the activation is a tensor of its own. */
static bool writes_g(const kas_batch_norm_gradient *d)
{
    return d->dy1.data || d->y.data;
}

static kas_status check_gradient(const kas_batch_norm *norm, const kas_batch_norm_gradient *d)
{
    static const char operation[] = "batch norm backward";
    const struct {
        const char *name;
        const kas_tensor *tensor;
        bool wanted;
    } all[] = {{"y", &d->y, false}, {"dy", &d->dy, true}, {"dy1", &d->dy1, false},
               {"g", &d->g, false}, {"dx", &d->dx, true}, {"base", &d->base, false}};
    KAS_TRY(kas_ops_check(operation, "x", &norm->x));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].wanted || all[i].tensor->data)
            KAS_TRY(kas_ops_check_like(operation, all[i].name, all[i].tensor, &norm->x));
    if ((d->dy1.data || d->base.data) && norm->activation > KAS_ACTIVATION_RELU)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: activation %d with a second gradient or a base; expected none or ReLU",
                        operation, (int)norm->activation);
    if (d->y.data && norm->activation != KAS_ACTIVATION_RELU)
        return kas_fail(KAS_BAD_INPUT, "%s: activation %d with y; expected ReLU", operation,
                        (int)norm->activation);
    if (writes_g(d) != (d->g.data != NULL))
        return kas_fail(KAS_BAD_INPUT, "%s: g goes with y or dy1, and only with them", operation);
    return KAS_OK;
}

static kas_status launch_gradient(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm,
                                  const kas_batch_norm_gradient *d, const kas_norm_args *args)
{
    const kas_kernels *k = &ops->of[norm->x.dtype];
    const kas_function *const one[3] = {
        k->norm_gradient, d->y.data ? k->norm_gradient_residual_relu : k->norm_gradient_relu,
        k->norm_gradient_active};
    const kas_function *const two[2] = {k->norm_gradient_two,
                                        d->y.data ? k->norm_gradient_two_residual_relu
                                                  : k->norm_gradient_two_relu};
    const kas_function *function = (d->dy1.data ? two : one)[variant(norm)];
    KAS_TRY(launch_chunks(plan, norm->x.dtype, function, args));
    return kas_ops_combine(plan, ops->of[KAS_F32].norm_gradient_combine, args);
}

/* Makes dx use the sums over the rows of all ranks: their means over the ranks, because they are
 * divided by this rank's rows. The gradient of gamma and beta stays that of this rank. */
static kas_status share_sums(kas_plan *plan, const kas_batch_norm *norm, kas_norm_args *args)
{
    const size_t pitch = (size_t)kas_pitch(args->c), bytes = sizeof(float) * (size_t)args->c;
    float *mean = norm->scratch + partial_size(args->chunks, args->c);
    KAS_TRY(kas_plan_copy(plan, mean, args->dgamma, bytes));
    KAS_TRY(kas_plan_copy(plan, mean + pitch, args->dbeta, bytes));
    args->dgamma = mean;
    args->dbeta = mean + pitch;
    KAS_TRY(kas_plan_mean(plan, norm->group, mean, 2 * pitch));
    return kas_plan_join(plan, norm->group);
}

kas_status kas_op_batch_norm_backward(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm,
                                      const kas_batch_norm_gradient *d)
{
    KAS_TRY(check_gradient(norm, d));
    kas_norm_args args = make_args(norm);
    args.y = d->y.data;
    args.dy = d->dy.data;
    args.dy1 = d->dy1.data;
    args.g = d->g.data;
    args.base = d->base.data;
    args.out = d->dx.data;
    args.dgamma = d->dgamma;
    args.dbeta = d->dbeta;
    args.pitch_y = d->y.pitch;
    args.pitch_dy = d->dy.pitch;
    args.pitch_dy1 = d->dy1.pitch;
    args.pitch_g = d->g.pitch;
    args.pitch_base = d->base.pitch;
    args.pitch_out = d->dx.pitch;
    const kas_tensor *const all[] = {&norm->x, &d->y,    &d->dy, &d->dy1,
                                     &d->g,    &d->base, &d->dx, NULL};
    const float *const array[] = {args.mean,  args.rstd,   args.gamma,   args.beta,
                                  args.dbeta, args.dgamma, args.partial, NULL};
    args.whole = kas_ops_whole(all, array);
    KAS_TRY(launch_gradient(ops, plan, norm, d, &args));
    if (norm->group)
        KAS_TRY(share_sums(plan, norm, &args));
    const bool seen = writes_g(d); /* through the activation */
    if (seen) {
        args.dy = d->g.data;
        args.pitch_dy = d->g.pitch;
    }
    const kas_kernels *k = &ops->of[norm->x.dtype];
    const kas_function *const apply[2][3] = {
        {k->norm_backward, k->norm_backward_relu, k->norm_backward_active},
        {k->norm_backward_add, k->norm_backward_relu_add, NULL}};
    const kas_function *function = apply[d->base.data != NULL][seen ? 0 : variant(norm)];
    return launch_rows(plan, norm->x.dtype, function, &args);
}
