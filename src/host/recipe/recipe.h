/* How a network is trained, as numbers: optimiser, schedule, loss, augmentation.
 *
 * A recipe is a file (docs/recipe-file.md): those of recipes/ travel inside the program and are
 * called by name, a user's own by path.  Studies and checkpoints hold its content, never its name,
 * so that a file may change without changing what was begun with it.  Other folders include this
 * header. */
#ifndef KAS_RECIPE_RECIPE_H
#define KAS_RECIPE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/json/fields.h"

/* Zero is what every recipe was before it could be chosen: files and studies without the field mean
 * that. */
typedef enum kas_optimiser { KAS_NESTEROV, KAS_SGD, KAS_ADAMW } kas_optimiser;
typedef enum kas_lr_schedule { KAS_COSINE, KAS_STEPS, KAS_LINEAR, KAS_CONSTANT } kas_lr_schedule;

/* In which numbers a network is computed (docs/training.md, Precision): TF32 rounds the factors of
 * products, the last two store activations and the weights that products read in 16 bits. */
typedef enum kas_precision {
    KAS_PRECISION_FP32,
    KAS_PRECISION_TF32,
    KAS_PRECISION_BF16,
    KAS_PRECISION_FP16
} kas_precision;

typedef struct kas_recipe {
    int epochs;
    int batch;
    int optimiser;                /* kas_optimiser */
    double momentum;              /* of SGD */
    double beta1, beta2, epsilon; /* of AdamW */
    double weight_decay;          /* of weights: convolutions, linear and fully-connected maps */
    bool decay_all;       /* of batch norm and biases too, as PyTorch's optimisers do unasked */
    double clip;          /* most length of the whole gradient; 0 = any */
    int schedule;         /* kas_lr_schedule */
    double lr;            /* peak */
    double warmup_epochs; /* linear from 0 to the peak; then the schedule */
    kas_int_list steps;   /* STEPS: after so many epochs the rate falls */
    double step_factor;   /* STEPS: what it is multiplied by */
    double label_smoothing;
    double ema;   /* decay of the moving average of weights that is evaluated and saved; 0 = none */
    int crop_pad; /* random crop with zero padding (after normalisation); 0 = none */
    bool flip;    /* random horizontal flip */
    double crop_area; /* encoded images: least share of a random crop (host/data/image/view.h) */
    int shuffle;      /* kas_shuffle (host/data/order.h) */
    int cutout;       /* side of an erased square, in pixels; 0 = none */
    double erase;     /* probability of an erased rectangle */
    double mixup, cutmix; /* alpha of the Beta distribution of their shares; 0 = none */
    int precision;        /* kas_precision */
} kas_recipe;

extern const char *const kas_precision_names[]; /* "fp32", "tf32", "bf16", "fp16", NULL */

/* The numbers by name, in the order of the files. */
extern const kas_field kas_recipe_fields[];
extern const int kas_recipe_field_count;

/* The recipe `search`. */
kas_recipe kas_recipe_default(void);

/* A name of kas_embedded_recipes, or a path when there is a "/" or a "." in it. KAS_BAD_INPUT
 * naming file, field and what was expected. `about` (may be NULL) gets a copy of the file's
 * "about",
 * "" when there is none. */
enum { KAS_RECIPE_ABOUT = 4096 }; /* characters of "about" at most */
kas_status kas_recipe_load(const char *name, kas_recipe *out, char about[KAS_RECIPE_ABOUT + 1]);
/* The text of such a file; `where` is for messages. */
kas_status kas_recipe_read(const char *where, const char *text, size_t size, kas_recipe *out,
                           char about[KAS_RECIPE_ABOUT + 1]);

/* KAS_BAD_INPUT naming the field, its value and what is allowed. */
kas_status kas_recipe_check(const kas_recipe *recipe);

/* Are images mixed with each other? */
static inline bool kas_recipe_mixes(const kas_recipe *recipe)
{
    return recipe->mixup > 0 || recipe->cutmix > 0;
}

/* Learning rate of 0-based `step`: with t = step + 1/2 (the middle of the step, so that neither the
 * first nor the last is wasted on a rate of 0), n steps in all and w = warmup_epochs *
 * steps_per_epoch (less than all):
 *
 *     t < w:     lr * t / w                                     else
 *     COSINE:    lr/2 * (1 + cos(pi * (t - w) / (n - w)))
 *     LINEAR:    lr * (1 - (t - w) / (n - w))
 *     STEPS:     lr * step_factor ^ (how many of `steps` are at most the step's epoch)
 *     CONSTANT:  lr                                                                            */
double kas_recipe_lr(const kas_recipe *recipe, uint64_t steps_per_epoch, uint64_t step);

#endif
