/* The command line that begins or continues a study. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "host/core/buf.h"
#include "host/study/options.h"
#include "support/ok.h"

/* The command of a study says what is not the default, which depends on the strategy. */
static void commands_of_studies(void **state)
{
    (void)state;
    kas_search_options o = kas_search_options_default();
    static const kas_int_list none = {0}, other = {2, {2, 9}};
    static const struct {
        int strategy;
        const kas_int_list *rungs; /* NULL: auto */
        const char *said, *not_said;
    } cases[] = {{KAS_STRATEGY_EVOLUTION, NULL, "--study", "--rungs"},
                 {KAS_STRATEGY_EVOLUTION, NULL, "--study", "--strategy"},
                 {KAS_STRATEGY_EVOLUTION, &none, "--rungs=none", "--strategy"},
                 {KAS_STRATEGY_TREE, NULL, "--strategy=tree", "--rungs"},
                 {KAS_STRATEGY_TREE, &other, "--rungs=2,9", "--known"},
                 {KAS_STRATEGY_RANDOM, &none, "--strategy=random", "--rungs"},
                 {KAS_STRATEGY_RANDOM, &other, "--rungs=2,9", "--known"}};
    o.recipe = kas_recipe_default();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_buf text = {0};
        o.strategy = cases[i].strategy;
        o.known = o.strategy != KAS_STRATEGY_RANDOM;
        o.rungs = cases[i].rungs ? *cases[i].rungs : kas_search_rungs(&o);
        kas_search_options_command(&o, "d.h5", "s", &text);
        if (!strstr(kas_buf_text(&text), cases[i].said) ||
            strstr(kas_buf_text(&text), cases[i].not_said))
            fail_msg("case %d: %s", (int)i, kas_buf_text(&text));
        kas_buf_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_of_studies),
    };
    return cmocka_run_group_tests_name("commands of studies", tests, NULL, NULL);
}
