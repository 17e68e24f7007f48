#include "host/cli/recipe_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/core/log.h"

/* Options without a letter are numbered from here, by their place in the table of fields. */
enum { KEY_RECIPE = 0x7000, KEY_FIELDS, MOST_FIELDS = 64, GROUP = 20 };

static int key_of(int field)
{
    int letter = kas_recipe_fields[field].short_option;
    return letter ? letter : KEY_FIELDS + field;
}

static const kas_field *field_of(int key)
{
    for (int i = 0; i < kas_recipe_field_count; i++)
        if (key == key_of(i))
            return &kas_recipe_fields[i];
    return NULL;
}

/* Adds an override. A wrong value is a usage error, so the value is tried on a recipe that is then
 * thrown away. */
static void add(kas_cli_recipe *o, const kas_field *field, const char *text,
                struct argp_state *state)
{
    kas_recipe scratch;
    if (o->overrides == KAS_CLI_RECIPE_OVERRIDES)
        argp_error(state, "more than %d options of the recipe", KAS_CLI_RECIPE_OVERRIDES);
    else if (kas_field_parse(field, text, &scratch) != KAS_OK)
        argp_error(state, "%s", kas_error());
    else {
        o->override[o->overrides].field = field;
        o->override[o->overrides++].text = text;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    kas_cli_recipe *o = state->input;
    const kas_field *field = field_of(key);
    if (key == KEY_RECIPE)
        o->name = arg;
    else if (field)
        add(o, field, arg, state);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

/* Writes the help of an option: "Peak learning rate (recipe search: 0.1)". */
static void write_help(const kas_field *field, const char *name, const kas_recipe *recipe,
                       char *out, size_t size)
{
    kas_buf value = {0};
    kas_field_print(field, recipe, &value);
    snprintf(out, size, "%s (recipe %s: %s)", field->help, name, value.size ? value.data : "none");
    kas_buf_free(&value);
}

const struct argp *kas_cli_recipe_argp(const char *usual)
{
    static char which[160];
    static char help[MOST_FIELDS][160];
    static struct argp_option options[MOST_FIELDS + 2] = {
        {"recipe", KEY_RECIPE, "NAME|FILE", 0, which, GROUP}};
    static const struct argp argp = {options, parse, 0, 0, 0, 0, 0};
    kas_recipe recipe;
    if (kas_recipe_load(usual, &recipe, NULL) != KAS_OK)
        recipe = kas_recipe_default();
    snprintf(which, sizeof which,
             "How to train: a name of `kas-gpu recipe list` or a file (default %s); the options "
             "below change single numbers of it",
             usual);
    for (int i = 0; i < kas_recipe_field_count && i < MOST_FIELDS; i++) {
        const kas_field *f = &kas_recipe_fields[i];
        write_help(f, usual, &recipe, help[i], sizeof help[i]);
        options[1 + i] =
            (struct argp_option){f->option + 2, key_of(i), f->argument, 0, help[i], GROUP};
    }
    return &argp;
}

/* A file's steps may lie behind its epochs only until --epochs is known. */
static kas_status check_steps(const kas_recipe *r)
{
    const int last = r->steps.count ? r->steps.value[r->steps.count - 1] : 0;
    if (r->schedule != KAS_STEPS || last < r->epochs)
        return KAS_OK;
    return kas_fail(
        KAS_BAD_INPUT,
        "recipe: the rate falls after epoch %d, behind the last of %d epochs; give other "
        "--steps, or --schedule cosine",
        last, r->epochs);
}

static bool is_given(const kas_cli_recipe *o, const char *key)
{
    for (int i = 0; i < o->overrides; i++)
        if (strcmp(o->override[i].field->key, key) == 0)
            return true;
    return false;
}

kas_status kas_cli_recipe_suits(const kas_cli_recipe *o, const kas_recipe *r, const kas_dataset *d)
{
    if (d->encoded && r->crop_pad > 0 && is_given(o, "crop_pad"))
        return kas_fail(
            KAS_USAGE,
            "--crop-pad has no effect: %s has JPEG or PNG images; --crop-area is for them",
            d->path);
    if (!d->encoded && is_given(o, "crop_area"))
        return kas_fail(
            KAS_USAGE, "--crop-area has no effect: %s has pixels; --crop-pad is for them", d->path);
    if (r->cutout >= 2 * (int64_t)(d->h > d->w ? d->h : d->w))
        return kas_fail(KAS_BAD_INPUT,
                        "recipe: cutout %d leaves nothing of images of %" PRIu32 "x%" PRIu32,
                        r->cutout, d->h, d->w);
    return KAS_OK;
}

kas_status kas_cli_recipe_get(const kas_cli_recipe *o, kas_recipe *out)
{
    KAS_TRY(kas_recipe_load(o->name ? o->name : "search", out, NULL));
    const int optimiser = out->optimiser;
    for (int i = 0; i < o->overrides; i++)
        KAS_TRY(kas_field_parse(o->override[i].field, o->override[i].text, out));
    for (int i = 0; i < o->overrides; i++) {
        const kas_field *field = o->override[i].field;
        const char *of = kas_recipe_without_effect(out, field);
        if (of)
            return kas_fail(KAS_USAGE, "%s is an option of %s", field->option, of);
    }
    KAS_TRY(kas_recipe_check(out));
    if (out->optimiser == KAS_ADAMW && optimiser != KAS_ADAMW && !is_given(o, "lr"))
        kas_warn(
            "the rate %g is that of a recipe for SGD; with AdamW 0.001 to 0.005 is usual (--lr)",
            out->lr);
    return check_steps(out);
}
