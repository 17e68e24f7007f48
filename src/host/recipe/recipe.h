/* A recipe says in numbers how a network is trained: optimiser, schedule, loss, augmentation.
 *
 * A recipe is a file (docs/recipe-file.md). The files of recipes/ are part of the program and have
 * names; a user's own file is given by its path. Studies and checkpoints hold the content of a
 * recipe and never its name, so that a changed file does not affect what was begun with it.  Other
 * folders include this header. */
#ifndef KAS_RECIPE_RECIPE_H
#define KAS_RECIPE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/json/fields.h"

/* The value zero is the behaviour from before there was a choice: files and studies without the
 * field mean it. */
typedef enum kas_optimiser { KAS_NESTEROV, KAS_SGD, KAS_ADAMW } kas_optimiser;
typedef enum kas_lr_schedule { KAS_COSINE, KAS_STEPS, KAS_LINEAR, KAS_CONSTANT } kas_lr_schedule;

/* The numbers in which a network is computed (docs/training.md, Precision). TF32 rounds the factors
 * of products; the last two store activations, and the weights that products read, in 16 bits. */
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
    double weight_decay;          /* of weights of convolutions, linear layers and
                                     fully-connected maps */
    bool decay_all;               /* batch norm and biases decay too, as by default in PyTorch's
                                     optimisers */
    double clip;                  /* largest length of the whole gradient; 0 = no limit */
    int schedule;                 /* kas_lr_schedule */
    double lr;                    /* peak */
    double warmup_epochs;         /* linear from 0 to the peak; then the schedule */
    kas_int_list steps;           /* STEPS: the rate falls after this many epochs */
    double step_factor;           /* STEPS: the factor by which it falls */
    double label_smoothing;
    double ema;       /* decay of the averaged weights, which are evaluated and saved; 0 = none */
    int crop_pad;     /* random crop with zero padding (after normalisation); 0 = none */
    bool flip;        /* random horizontal flip */
    double crop_area; /* encoded images: least share that a random crop keeps (data/image/view.h) */
    int shuffle;      /* kas_shuffle (host/data/order.h) */
    int cutout;       /* side of an erased square, in pixels; 0 = none */
    double erase;     /* probability of an erased rectangle */
    double mixup, cutmix; /* alpha of the Beta distribution of the shares; 0 = none */
    int precision;        /* kas_precision */
} kas_recipe;

extern const char *const kas_precision_names[]; /* "fp32", "tf32", "bf16", "fp16", NULL */

/* The fields of a recipe by name, in the order of the files. */
extern const kas_field kas_recipe_fields[];
extern const int kas_recipe_field_count;

/* Returns the recipe `search`. */
kas_recipe kas_recipe_default(void);

/* Loads a recipe. `name` is a name of kas_embedded_recipes, or a path when it contains "/" or ".".
 * Fails with KAS_BAD_INPUT and names the file, the field and what was expected. `about` (may be
 * NULL) gets a copy of the file's "about", or "" when there is none. */
enum { KAS_RECIPE_ABOUT = 4096 }; /* most characters of "about" */
kas_status kas_recipe_load(const char *name, kas_recipe *out, char about[KAS_RECIPE_ABOUT + 1]);
/* Reads the text of such a file; `where` names it in messages. */
kas_status kas_recipe_read(const char *where, const char *text, size_t size, kas_recipe *out,
                           char about[KAS_RECIPE_ABOUT + 1]);

/* Checks that the numbers are in range and agree. Fails with KAS_BAD_INPUT and names the field, its
 * value and what is allowed. */
kas_status kas_recipe_check(const kas_recipe *recipe);

/* Returns NULL if a field has an effect in this recipe, and else of which option's word it is: that
 * of "momentum" with AdamW is "--optimiser nesterov and sgd". Files may have such fields; of an
 * option the user would expect an effect. */
const char *kas_recipe_without_effect(const kas_recipe *recipe, const kas_field *field);

/* Returns whether images are mixed with each other. */
static inline bool kas_recipe_mixes(const kas_recipe *recipe)
{
    return recipe->mixup > 0 || recipe->cutmix > 0;
}

/* Returns the learning rate of the 0-based `step`. With t = step + 1/2 (the middle of the step, so
 * that neither the first nor the last is wasted on a rate of 0), n steps in all and w =
 * warmup_epochs * steps_per_epoch (less than all):
 *
 *     t < w:     lr * t / w                                     else
 *     COSINE:    lr/2 * (1 + cos(pi * (t - w) / (n - w)))
 *     LINEAR:    lr * (1 - (t - w) / (n - w))
 *     STEPS:     lr * step_factor ^ (how many of `steps` are at most the step's epoch)
 *     CONSTANT:  lr */
double kas_recipe_lr(const kas_recipe *recipe, uint64_t steps_per_epoch, uint64_t step);

#endif
