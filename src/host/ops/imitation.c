#include "host/ops/internal.h"

/* Vectors of [c] in the scratch, behind the partial sums of the statistics. */
enum {
    ERROR_MEAN,
    ERROR_RSTD,
    TARGET_MEAN,
    TARGET_RSTD,
    RUNNING_MEAN, /* which the statistics move by a momentum of 0: not used */
    RUNNING_VAR,
    FACTOR,
    ONE,
    ZERO,
    VECTORS
};

/* Keeps 1 / deviation finite for a channel that is constant, and vanishes beside any variance. */
static const float least_variance = 1e-20f;

static size_t partial_size(const kas_tensor *target)
{
    return (kas_batch_norm_scratch(target) + 3) / 4 * 4;
}

size_t kas_imitation_scratch(const kas_tensor *target)
{
    return partial_size(target) + VECTORS * (size_t)kas_pitch(target->c);
}

static float *vector(const kas_imitation *i, int which)
{
    return i->scratch + partial_size(&i->target) + (size_t)which * (size_t)kas_pitch(i->target.c);
}

static kas_batch_norm statistics_of(const kas_imitation *i, kas_tensor x, int mean, int rstd)
{
    return (kas_batch_norm){.x = x,
                            .y = x,
                            .eps = least_variance,
                            .running_mean = vector(i, RUNNING_MEAN),
                            .running_var = vector(i, RUNNING_VAR),
                            .saved_mean = vector(i, mean),
                            .saved_rstd = vector(i, rstd),
                            .scratch = i->scratch};
}

/* The gradient with respect to the output is factor * (e - mean of e): a batch norm's formula. */
static kas_status gradient(kas_ops *ops, kas_plan *plan, const kas_imitation *i)
{
    kas_batch_norm norm = statistics_of(i, i->output, ERROR_MEAN, FACTOR);
    norm.gamma = vector(i, ONE);
    norm.beta = vector(i, ZERO);
    return kas_op_batch_norm_again(ops, plan, &norm);
}

kas_status kas_op_imitation(kas_ops *ops, kas_plan *plan, const kas_imitation *i)
{
    KAS_TRY(kas_ops_check("imitation", "target", &i->target));
    KAS_TRY(kas_ops_check_like("imitation", "output", &i->output, &i->target));
    const kas_batch_norm error = statistics_of(i, i->output, ERROR_MEAN, ERROR_RSTD);
    const kas_batch_norm target = statistics_of(i, i->target, TARGET_MEAN, TARGET_RSTD);
    KAS_TRY(kas_op_subtract(ops, plan, i->output, i->target, i->output));
    KAS_TRY(kas_op_batch_norm_statistics(ops, plan, &error));
    KAS_TRY(kas_op_batch_norm_statistics(ops, plan, &target));
    const kas_imitation_args args = {.error_rstd = error.saved_rstd,
                                     .target_rstd = target.saved_rstd,
                                     .gamma = i->gamma,
                                     .running_var = i->running_var,
                                     .factor = vector(i, FACTOR),
                                     .one = vector(i, ONE),
                                     .zero = vector(i, ZERO),
                                     .sum = i->sum,
                                     .rows = kas_tensor_rows(&i->target),
                                     .c = i->target.c,
                                     .eps = i->eps};
    const unsigned grid[3] = {1, 1, 1}, block[3] = {KAS_IMITATION_LANES, 1, 1};
    KAS_TRY(kas_plan_launch(plan, ops->of[KAS_F32].imitation, grid, block, &args, sizeof args));
    return i->gradient ? gradient(ops, plan, i) : KAS_OK;
}
