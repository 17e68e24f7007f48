/* The options of every command that trains: --recipe, and one for each number of a recipe
 * (recipe/recipe.h), which counts more than the recipe wherever it stands on the command line. */
#ifndef KAS_CLI_RECIPE_OPTIONS_H
#define KAS_CLI_RECIPE_OPTIONS_H

#include "host/cli/cli.h"
#include "host/recipe/recipe.h"

enum { KAS_CLI_RECIPE_OVERRIDES = 128 };

typedef struct kas_cli_recipe {
    const char *name; /* NULL = search */
    struct {
        const kas_field *field;
        const char *text;
    } override[KAS_CLI_RECIPE_OVERRIDES]; /* in the order they were given */
    int overrides;
} kas_cli_recipe;

/* Input: kas_cli_recipe, zero at first. Its options are made from the table of fields. */
const struct argp *kas_cli_recipe_argp(void);

/* The recipe with its overrides. KAS_BAD_INPUT for a bad file, or numbers that contradict. */
kas_status kas_cli_recipe_get(const kas_cli_recipe *options, kas_recipe *out);

#endif
