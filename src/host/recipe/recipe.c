#include "host/recipe/recipe.h"

#include <math.h>
#include <string.h>

static const char *const optimisers[] = {"nesterov", "sgd", "adamw", NULL};
static const char *const schedules[] = {"cosine", "steps", "linear", "constant", NULL};

const char *const kas_precision_names[] = {"fp32", "tf32", "bf16", "fp16", NULL};
static const char *const shuffles[] = {"full", "window", NULL}; /* kas_shuffle */

#define AT(member) .offset = offsetof(kas_recipe, member)
#define INTEGER .type = KAS_FIELD_INTEGER
#define NUMBER .type = KAS_FIELD_NUMBER

/* Optional fields are later additions, which older studies do not have. */
const kas_field kas_recipe_fields[] = {
    {"epochs", "--epochs", INTEGER, AT(epochs), .low = 1, .high = 100000, .short_option = 'e',
     .argument = "N", .help = "Passes over the training images"},
    {"batch", "--batch", INTEGER, AT(batch), .low = 1, .high = 65535, .short_option = 'b',
     .argument = "N", .help = "Images in a step"},
    {"optimiser", "--optimiser", KAS_FIELD_CHOICE, AT(optimiser), .choices = optimisers,
     .optional = true, .argument = "NAME",
     .help = "nesterov, sgd (momentum without Nesterov) or adamw"},
    {"momentum", "--momentum", NUMBER, AT(momentum), .low = 0, .high = 1, .argument = "X",
     .help = "SGD: momentum"},
    {"beta1", "--beta1", NUMBER, AT(beta1), .low = 0, .high = 0.999999, .optional = true,
     .absent = 0.9, .argument = "X", .help = "AdamW: decay of the mean of gradients"},
    {"beta2", "--beta2", NUMBER, AT(beta2), .low = 0, .high = 0.999999, .optional = true,
     .absent = 0.999, .argument = "X", .help = "AdamW: decay of the mean of squared gradients"},
    {"epsilon", "--epsilon", NUMBER, AT(epsilon), .low = 1e-30, .high = 1, .optional = true,
     .absent = 1e-8, .argument = "X",
     .help = "AdamW: added to the root of the mean of squared gradients"},
    {"weight_decay", "--weight-decay", NUMBER, AT(weight_decay), .low = 0, .high = 10,
     .argument = "X", .help = "Decay of the weights"},
    {"decay_all", "--decay-all", KAS_FIELD_FLAG, AT(decay_all), .optional = true,
     .argument = "on|off", .help = "Decay batch norm and biases too"},
    {"clip", "--clip", NUMBER, AT(clip), .low = 0, .high = 1e9, .optional = true, .argument = "X",
     .help = "Limit on the length of the whole gradient; 0 = none"},
    {"schedule", "--schedule", KAS_FIELD_CHOICE, AT(schedule), .choices = schedules,
     .optional = true, .argument = "NAME",
     .help = "Learning rate after the warm-up: cosine, steps, linear, constant"},
    {"lr", "--lr", NUMBER, AT(lr), .low = 0, .high = 1000, .short_option = 'l', .argument = "X",
     .help = "Peak learning rate"},
    {"warmup_epochs", "--warmup", NUMBER, AT(warmup_epochs), .low = 0, .high = 100000,
     .argument = "N", .help = "Epochs from rate 0 to the peak"},
    {"steps", "--steps", KAS_FIELD_LIST, AT(steps), .low = 1, .high = 100000, .optional = true,
     .argument = "LIST", .help = "Epochs after which the rate falls, such as 60,120,160"},
    {"step_factor", "--step-factor", NUMBER, AT(step_factor), .low = 0, .high = 1, .optional = true,
     .absent = 0.1, .argument = "X", .help = "Factor by which the rate falls"},
    {"label_smoothing", "--label-smoothing", NUMBER, AT(label_smoothing), .low = 0, .high = 0.99,
     .argument = "X", .help = "Share of the target spread over all classes"},
    {"ema", "--ema", NUMBER, AT(ema), .low = 0, .high = 0.999999, .optional = true, .argument = "X",
     .help =
         "Decay of a moving average of the weights, evaluated and saved in their place; 0 = none"},
    {"crop_pad", "--crop-pad", INTEGER, AT(crop_pad), .low = 0, .high = 64, .argument = "N",
     .help = "Random crop out of N pixels of padding"},
    {"flip", "--flip", KAS_FIELD_FLAG, AT(flip), .argument = "on|off",
     .help = "Mirror each image with probability 1/2"},
    {"crop_area", "--crop-area", NUMBER, AT(crop_area), .low = 0.01, .high = 1, .optional = true,
     .absent = 0.08, .argument = "X",
     .help = "JPEG and PNG images: a random crop has at least this share of the image"},
    {"shuffle", "--shuffle", KAS_FIELD_CHOICE, AT(shuffle), .choices = shuffles, .optional = true,
     .argument = "NAME", .help = "Order of images: full, or window for disks that seek slowly"},
    {"cutout", "--cutout", INTEGER, AT(cutout), .low = 0, .high = 65535, .optional = true,
     .argument = "N", .help = "Erase a square of N x N pixels of each image; 0 = none"},
    {"erase", "--erase", NUMBER, AT(erase), .low = 0, .high = 1, .optional = true, .argument = "P",
     .help = "Probability that a random rectangle of an image is erased"},
    {"mixup", "--mixup", NUMBER, AT(mixup), .low = 0, .high = 100, .optional = true,
     .argument = "ALPHA", .help = "Blend images, shares from Beta(ALPHA, ALPHA); 0 = none"},
    {"cutmix", "--cutmix", NUMBER, AT(cutmix), .low = 0, .high = 100, .optional = true,
     .argument = "ALPHA",
     .help = "Paste rectangles of other images, shares from Beta(ALPHA, ALPHA); 0 = none"},
    {"precision", "--precision", KAS_FIELD_CHOICE, AT(precision), .choices = kas_precision_names,
     .optional = true, .argument = "NAME",
     .help = "Dtype of activations: fp32, bf16 or fp16; tf32: fp32 with TF32 products"},
};
const int kas_recipe_field_count = sizeof kas_recipe_fields / sizeof *kas_recipe_fields;

/* Returns the learning rate relative to the peak, after the warm-up. */
static double relative_rate(const kas_recipe *r, double progress, uint64_t epoch)
{
    double rate = 1;
    switch ((kas_lr_schedule)r->schedule) {
    case KAS_COSINE:
        return (1 + cos(acos(-1.0) * progress)) / 2;
    case KAS_LINEAR:
        return 1 - progress;
    case KAS_STEPS:
        for (int i = 0; i < r->steps.count && (uint64_t)r->steps.value[i] <= epoch; i++)
            rate *= r->step_factor;
        return rate;
    case KAS_CONSTANT:
        break;
    }
    return rate;
}

double kas_recipe_lr(const kas_recipe *r, uint64_t steps_per_epoch, uint64_t step)
{
    double steps = (double)r->epochs * (double)steps_per_epoch;
    double warmup = fmin(r->warmup_epochs * (double)steps_per_epoch, 0.9 * steps);
    double t = (double)step + 0.5;
    if (t < warmup)
        return r->lr * t / warmup;
    return r->lr * relative_rate(r, (t - warmup) / (steps - warmup), step / steps_per_epoch);
}

static bool falls_by_steps(const kas_recipe *r)
{
    return r->schedule == KAS_STEPS;
}

static bool is_adamw(const kas_recipe *r)
{
    return r->optimiser == KAS_ADAMW;
}

static bool is_sgd(const kas_recipe *r)
{
    return !is_adamw(r);
}

static bool decays(const kas_recipe *r)
{
    return r->weight_decay > 0;
}

const char *kas_recipe_without_effect(const kas_recipe *recipe, const kas_field *field)
{
    static const struct {
        const char *key, *of;
        bool (*has_effect)(const kas_recipe *);
    } conditions[] = {
        {"steps", "--schedule steps", falls_by_steps},
        {"step_factor", "--schedule steps", falls_by_steps},
        {"decay_all", "--weight-decay above 0", decays},
        {"momentum", "--optimiser nesterov and sgd", is_sgd},
        {"beta1", "--optimiser adamw", is_adamw},
        {"beta2", "--optimiser adamw", is_adamw},
        {"epsilon", "--optimiser adamw", is_adamw},
    };
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        if (strcmp(conditions[i].key, field->key) == 0 && !conditions[i].has_effect(recipe))
            return conditions[i].of;
    return NULL;
}

static kas_status check_number(const kas_field *f, double value)
{
    if (value >= f->low && value <= f->high)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT, "recipe: %s is %g; expected %g to %g", f->key, value, f->low,
                    f->high);
}

static kas_status check_choice(const kas_field *f, int value)
{
    int words = 0;
    while (f->choices[words])
        words++;
    if (value >= 0 && value < words)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT, "recipe: %s is number %d of %d", f->key, value, words);
}

kas_status kas_recipe_check(const kas_recipe *r)
{
    for (int i = 0; i < kas_recipe_field_count; i++) {
        const kas_field *f = &kas_recipe_fields[i];
        const void *value = (const char *)r + f->offset;
        if (f->type == KAS_FIELD_NUMBER)
            KAS_TRY(check_number(f, *(const double *)value));
        if (f->type == KAS_FIELD_INTEGER)
            KAS_TRY(check_number(f, *(const int *)value));
        if (f->type == KAS_FIELD_CHOICE)
            KAS_TRY(check_choice(f, *(const int *)value));
    }
    if (r->schedule == KAS_STEPS && r->steps.count == 0)
        return kas_fail(KAS_BAD_INPUT,
                        "recipe: steps is empty; the schedule \"steps\" needs the epochs after "
                        "which the rate falls, such as 60, 120, 160");
    return KAS_OK;
}
