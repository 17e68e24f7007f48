/* The options of every command that trains: --recipe, and one for each field of a recipe
 * (recipe/recipe.h). The latter override the recipe, wherever they stand on the command line. */
#ifndef KAS_CLI_RECIPE_OPTIONS_H
#define KAS_CLI_RECIPE_OPTIONS_H

#include "host/cli/cli.h"
#include "host/data/dataset.h"
#include "host/recipe/recipe.h"

enum { KAS_CLI_RECIPE_OVERRIDES = 128 };

typedef struct kas_cli_recipe {
    const char *name; /* NULL = search */
    struct {
        const kas_field *field;
        const char *text;
    } override[KAS_CLI_RECIPE_OVERRIDES]; /* in the order in which they were given */
    int overrides;
} kas_cli_recipe;

/* Returns the parser, whose input is a zero-initialised kas_cli_recipe. Its options are made from
 * the table of fields; their help has the numbers of the recipe `usual`, the command's default. A
 * process calls it once. */
const struct argp *kas_cli_recipe_argp(const char *usual);

/* Gets the recipe with its overrides. Fails with KAS_BAD_INPUT for a bad file, or for numbers that
 * contradict each other, such as steps behind the last epoch; with KAS_USAGE for an option that the recipe gives no effect, such as
 * --steps with another schedule. */
kas_status kas_cli_recipe_get(const kas_cli_recipe *options, kas_recipe *out);
/* Fails with KAS_USAGE for an option that has no effect on the images of this data set, and with
 * KAS_BAD_INPUT for a recipe that erases all of each. */
kas_status kas_cli_recipe_suits(const kas_cli_recipe *options, const kas_recipe *recipe,
                                const kas_dataset *dataset);

#endif
