/* Computes the values of every step that are known before a run begins. The device reads them from
 * a table, indexed by the step, so nothing has to be sent between steps. */
#ifndef KAS_TRAIN_SCHEDULE_H
#define KAS_TRAIN_SCHEDULE_H

#include "host/ops/ops.h"

typedef struct kas_run_plan {
    const kas_recipe *recipe;
    uint64_t steps_per_epoch;
    uint64_t seed; /* of the random values in a row: (seed, KAS_PURPOSE_MIX, step) */
    int h, w;      /* size of an image */
} kas_run_plan;

/* Returns the row of the 0-based `step`. With t = step + 1:
 *
 *     lr           kas_recipe_lr
 *     correction1  1 / (1 - beta1^t)         of AdamW's means, which begin at 0
 *     correction2  1 / sqrt(1 - beta2^t)
 *     renew        1 - min(ema, step / (step + 10)): the average forgets the first steps faster,
 *                  and begins as the parameters after the first one
 *
 * and with l from Beta(alpha, alpha), one for the whole batch (with both kinds each has half of the
 * steps, at random):
 *
 *     mixup        blend = share = l
 *     cutmix       a rectangle of h sqrt(1 - l) x w sqrt(1 - l) around a random pixel, cut off at
 *                  the border; share = what it leaves of the image; blend = 1
 *     neither      blend = share = 1 */
kas_step_row kas_schedule_row(const kas_run_plan *plan, uint64_t step);

#endif
