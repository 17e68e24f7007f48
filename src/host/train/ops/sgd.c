#include "host/train/ops/internal.h"

kas_status kas_op_sgd(kas_ops *ops, kas_plan *plan, const kas_sgd *sgd)
{
    if (sgd->count < 1 || sgd->count % KAS_SGD_GROUP || sgd->count > (size_t)INT32_MAX * 64)
        return kas_fail(KAS_BAD_INPUT, "sgd: %zu parameters, expected a multiple of %d", sgd->count,
                        KAS_SGD_GROUP);
    const kas_sgd_args args = {.param = sgd->param,
                               .velocity = sgd->velocity,
                               .grad = sgd->grad,
                               .decay = sgd->decay,
                               .lr = sgd->lr,
                               .state = (const kas_dev_state *)sgd->state,
                               .count = sgd->count,
                               .momentum = sgd->momentum,
                               .along_velocity = sgd->nesterov ? sgd->momentum : 1,
                               .along_gradient = sgd->nesterov ? 1 : 0};
    const unsigned grid[3] = {(unsigned)((sgd->count + KAS_SGD_BLOCK - 1) / KAS_SGD_BLOCK), 1, 1};
    const unsigned block[3] = {KAS_MAX_BLOCK, 1, 1};
    return kas_plan_launch(plan, ops->sgd, grid, block, &args, sizeof args);
}
