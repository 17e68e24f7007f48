/* The recipe as numbers: learning rate of a step, checks, and the digest that names a run. */
#ifndef KAS_TRAIN_RECIPE_H
#define KAS_TRAIN_RECIPE_H

#include "host/train/train.h"

/* Learning rate of 0-based `step`: with t = step + 1/2 (the middle of the step, so that neither the
 * first nor the last is wasted on a rate of 0), w = warmup_epochs * steps_per_epoch (less than
 * all):
 *
 *     t < w:  lr * t / w          else:  lr/2 * (1 + cos(pi * (t - w) / (steps - w)))          */
double kas_recipe_lr(const kas_recipe *recipe, uint64_t steps_per_epoch, uint64_t step);

/* KAS_BAD_INPUT naming the field, its value and what is allowed. */
kas_status kas_recipe_check(const kas_recipe *recipe);

/* SHA-256 over everything that determines the bits of a run: network, kernel with its sizes, data,
 * indices, recipe, seed, initial weights. Not the device, and not what only observes. */
kas_status kas_train_digest(const kas_train_options *options, uint8_t digest[32]);

#endif
