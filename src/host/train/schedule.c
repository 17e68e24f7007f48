#include "host/train/schedule.h"

#include <math.h>

kas_step_row kas_schedule_row(const kas_recipe *r, uint64_t steps_per_epoch, uint64_t step)
{
    double done = (double)step;
    kas_step_row row = {.lr = (float)kas_recipe_lr(r, steps_per_epoch, step)};
    if (r->optimiser == KAS_ADAMW) {
        row.correction1 = (float)(1 / (1 - pow(r->beta1, done + 1)));
        row.correction2 = (float)(1 / sqrt(1 - pow(r->beta2, done + 1)));
    }
    row.renew = (float)(1 - fmin(r->ema, done / (done + 10)));
    return row;
}
