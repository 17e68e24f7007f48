/* Fuzz test of the reader of recipe files, and through it of what all JSON files go through.
 *
 * A recipe is refused with a message that names its file, or accepted; then every number of it is
 * within its limits, and it reads back from what is written as the same numbers, byte for byte.
 * Those with a learning rate for every step count as having gone all the way. */
#include <math.h>

#include "fuzz_run.h"
#include "host/recipe/recipe.h"
#include "mutate.h"

static void write_recipe(const kas_recipe *recipe, kas_buf *out)
{
    kas_buf_puts(out, "{\"format\":\"kas-gpu recipe\",\"version\":1,");
    kas_fields_write(kas_recipe_fields, kas_recipe_field_count, recipe, out);
    kas_buf_puts(out, "}");
    MUST(kas_buf_status(out) == KAS_OK);
}

static void check_round_trip(const kas_recipe *recipe)
{
    kas_buf first = {0}, second = {0};
    kas_recipe again;
    write_recipe(recipe, &first);
    MUST(kas_recipe_read("written", first.data, first.size, &again, NULL) == KAS_OK);
    write_recipe(&again, &second);
    MUST(strcmp(kas_buf_text(&first), kas_buf_text(&second)) == 0);
    kas_buf_free(&first);
    kas_buf_free(&second);
}

static void check_rates(const kas_recipe *recipe)
{
    const uint64_t steps = 7, all = steps * (uint64_t)recipe->epochs;
    for (uint64_t step = 0; step < all; step += 1 + all / 16) {
        const double rate = kas_recipe_lr(recipe, steps, step);
        MUST(isfinite(rate) && rate >= 0 && rate <= recipe->lr);
    }
    fuzz.solved++;
}

static void make_mutant(kas_rng *rng, kas_buf *text)
{
    fuzz_json_mutant(rng, NULL, text);
}

static bool read_recipe(kas_rng *rng, const char *text, size_t size, const kas_buf *kept)
{
    kas_recipe recipe;
    char about[KAS_RECIPE_ABOUT + 1];
    if (!fuzz_accepts(kas_recipe_read("mutant.json", text, size, &recipe, about), "mutant.json"))
        return false;
    MUST(kas_recipe_check(&recipe) == KAS_OK);
    check_round_trip(&recipe);
    check_rates(&recipe);
    fuzz_keep(rng, kept);
    return true;
}

int main(int argc, char **argv)
{
    fuzz_begin(argc, argv, 30000);
    fuzz_add_folder("recipes");
    fuzz_cases(make_mutant, read_recipe);
    fuzz_end(5, 5, 25);
    return 0;
}
