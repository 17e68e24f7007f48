#include "host/ops/internal.h"

static kas_status check_count(const char *operation, size_t count)
{
    if (count < 1 || count % KAS_UPDATE_GROUP || count > (size_t)INT32_MAX * KAS_UPDATE_GROUP)
        return kas_fail(KAS_BAD_INPUT, "%s: %zu parameters, expected a multiple of %d", operation,
                        count, KAS_UPDATE_GROUP);
    return KAS_OK;
}

/* Checks the alignment of buffers, because a GPU accesses them 16 bytes at a time. */
static kas_status check_aligned(const char *operation, const void *const *buffer, int count)
{
    for (int i = 0; i < count; i++)
        if (!kas_is_aligned(buffer[i]))
            return kas_fail(KAS_BAD_INPUT, "%s: a buffer lies at %p, expected a multiple of 16",
                            operation, buffer[i]);
    return KAS_OK;
}

static unsigned blocks_of(size_t count, size_t block)
{
    return (unsigned)((count + block - 1) / block);
}

kas_status kas_op_update(kas_ops *ops, kas_plan *plan, const kas_update *u)
{
    const kas_recipe *r = u->recipe;
    KAS_TRY(check_count("update", u->count));
    if ((u->dtype == KAS_F32) != !u->copy)
        return kas_fail(KAS_BAD_INPUT, "update: %s with%s a copy of the parameters",
                        kas_dtype_names[u->dtype], u->copy ? "" : "out");
    const void *const buffer[] = {u->param, u->first, u->second, u->grad, u->copy};
    KAS_TRY(check_aligned("update", buffer, 5));
    const kas_kernels *k = &ops->of[u->dtype];
    const kas_function *function = k->sgd;
    kas_update_args args = {.param = u->param,
                            .first = u->first,
                            .second = u->second,
                            .copy = u->copy,
                            .grad = u->grad,
                            .decay = u->decay,
                            .grad_scale = u->grad_scale,
                            .rows = u->rows,
                            .state = u->state,
                            .watch = u->watch,
                            .count = u->count};
    if (r->optimiser == KAS_ADAMW) {
        function = k->adamw;
        args.beta1 = (float)r->beta1;
        args.beta2 = (float)r->beta2;
        args.rest1 = (float)(1 - r->beta1);
        args.rest2 = (float)(1 - r->beta2);
        args.epsilon = (float)r->epsilon;
    } else {
        bool nesterov = r->optimiser == KAS_NESTEROV;
        args.momentum = (float)r->momentum;
        args.along_velocity = nesterov ? (float)r->momentum : 1;
        args.along_gradient = nesterov ? 1 : 0;
    }
    const unsigned grid[3] = {blocks_of(u->count, KAS_UPDATE_BLOCK), 1, 1};
    const unsigned block[3] = {KAS_UPDATE_BLOCK / (unsigned)kas_ops_width(u->dtype), 1, 1};
    return kas_plan_launch(plan, function, grid, block, &args, sizeof args);
}

kas_status kas_op_average(kas_ops *ops, kas_plan *plan, const kas_average *average)
{
    KAS_TRY(check_count("average", average->count));
    const void *const buffer[] = {average->average, average->value};
    KAS_TRY(check_aligned("average", buffer, 2));
    const kas_average_args args = {.average = average->average,
                                   .value = average->value,
                                   .rows = average->rows,
                                   .state = average->state,
                                   .watch = average->watch,
                                   .count = average->count};
    const unsigned grid[3] = {blocks_of(average->count, KAS_UPDATE_BLOCK), 1, 1};
    const unsigned block[3] = {KAS_MAX_BLOCK, 1, 1};
    return kas_plan_launch(plan, ops->of[KAS_F32].average, grid, block, &args, sizeof args);
}

size_t kas_clip_scratch(size_t count)
{
    return blocks_of(count, KAS_CLIP_BLOCK);
}

kas_status kas_op_clip(kas_ops *ops, kas_plan *plan, const float *grad, size_t count, double limit,
                       float *scratch, float *scale)
{
    KAS_TRY(check_count("clip", count));
    KAS_TRY(check_aligned("clip", (const void *const[]){grad}, 1));
    if (!(limit > 0))
        return kas_fail(KAS_BAD_INPUT, "clip: limit %g, expected above 0", limit);
    const kas_clip_args args = {.grad = grad,
                                .partial = scratch,
                                .scale = scale,
                                .count = count,
                                .blocks = (int)kas_clip_scratch(count),
                                .limit = (float)limit};
    const unsigned grid[3] = {(unsigned)args.blocks, 1, 1}, one[3] = {1, 1, 1};
    const unsigned block[3] = {KAS_CLIP_LANES, 1, 1};
    KAS_TRY(kas_plan_launch(plan, ops->of[KAS_F32].clip_partial, grid, block, &args, sizeof args));
    return kas_plan_launch(plan, ops->of[KAS_F32].clip_scale, one, block, &args, sizeof args);
}

kas_status kas_op_loss_scale(kas_ops *ops, kas_plan *plan, const kas_scaling *s)
{
    KAS_TRY(check_count("loss scale", s->count));
    KAS_TRY(check_aligned("loss scale", (const void *const[]){s->grad}, 1));
    const int blocks = (int)kas_clip_scratch(s->count);
    const kas_clip_args sums = {
        .grad = s->grad, .partial = s->scratch, .count = s->count, .blocks = blocks};
    const kas_loss_scale_args args = {.partial = s->scratch,
                                      .factor = s->factor,
                                      .state = s->scale,
                                      .blocks = blocks,
                                      .limit = (float)s->limit,
                                      .patience = s->patience};
    const unsigned grid[3] = {(unsigned)blocks, 1, 1}, one[3] = {1, 1, 1};
    const unsigned block[3] = {KAS_CLIP_LANES, 1, 1};
    KAS_TRY(kas_plan_launch(plan, ops->of[KAS_F32].clip_partial, grid, block, &sums, sizeof sums));
    return kas_plan_launch(plan, ops->of[KAS_F32].loss_scale, one, block, &args, sizeof args);
}
