/* The command line that begins or continues a study. */
#include "support/test.h"

#include <string.h>

#include "host/core/buf.h"
#include "host/study/options.h"

/* The command of a study says what is not the default, which depends on the strategy. */
TEST(commands_of_studies)
{
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
        o.ancestors = kas_search_ancestors(o.strategy);
        strcpy(o.legality, kas_search_legality(o.strategy));
        kas_search_options_command(&o, "d.h5", "s", &text);
        if (!strstr(kas_buf_text(&text), cases[i].said) ||
            strstr(kas_buf_text(&text), cases[i].not_said))
            fail_msg("case %d: %s", (int)i, kas_buf_text(&text));
        kas_buf_free(&text);
    }
}

static void expect_said(const kas_search_options *o, const char *ancestors, const char *legality)
{
    kas_buf text = {0};
    kas_search_options_command(o, "d.h5", "s", &text);
    const char *const said[] = {ancestors, legality}, *const names[] = {"--ancestors",
                                                                        "--legality"};
    for (int i = 0; i < 2; i++)
        if (said[i] ? !strstr(kas_buf_text(&text), said[i])
                    : !!strstr(kas_buf_text(&text), names[i]))
            fail_msg("%s: %s", names[i], kas_buf_text(&text));
    kas_buf_free(&text);
}

/* Evolution has ancestors and a check unless it is told otherwise; the others have neither. */
TEST(what_is_left_out)
{
    kas_search_options o = kas_search_options_default();
    o.recipe = kas_recipe_default();
    expect_said(&o, "--ancestors=0", "--legality=none");
    o.ancestors = kas_search_ancestors(o.strategy);
    strcpy(o.legality, kas_search_legality(o.strategy));
    expect_said(&o, NULL, NULL);
    o.strategy = KAS_STRATEGY_RANDOM;
    expect_said(&o, "--ancestors=1000", "--legality=imitation:0.9");
    o.ancestors = 0;
    *o.legality = 0;
    expect_said(&o, NULL, NULL);
}

/* A study keeps the threads of each worker, and --threads are those of all. */
TEST(other_threads)
{
    kas_search_options stored = kas_search_options_default(), given;
    stored.recipe = kas_recipe_default();
    stored.threads = 4;
    given = stored;
    given.threads = 2;
    assert_int_equal(kas_search_options_same("s", &stored, &given), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--threads, shared by the workers: threads of each (the "
                                        "study has 4, this command 2)"));
}

/* What a recipe's file says without an effect is no option, which the command line would refuse;
 * and a study with it is the same as one without. */
TEST(recipes_without_effect)
{
    kas_search_options o = kas_search_options_default(), usual;
    kas_buf text = {0};
    o.recipe = kas_recipe_default();
    o.recipe.optimiser = KAS_ADAMW;
    usual = o;
    o.recipe.momentum = 0.5;
    o.recipe.beta1 = 0.8;
    o.recipe.steps = (kas_int_list){1, {3}};
    kas_search_options_command(&o, "d.h5", "s", &text);
    assert_non_null(strstr(kas_buf_text(&text), "--beta1=0.8"));
    assert_null(strstr(kas_buf_text(&text), "--momentum"));
    assert_null(strstr(kas_buf_text(&text), "--steps"));
    kas_buf_free(&text);
    assert_int_equal(kas_search_options_same("s", &o, &usual), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--beta1"));
    assert_null(strstr(kas_error(), "--momentum"));
    usual.recipe.beta1 = 0.8;
    OK(kas_search_options_same("s", &o, &usual));
}

/* The command says the objective, on which the default of the latency depends. */
TEST(latencies_of_objectives)
{
    kas_search_options o = kas_search_options_default();
    o.recipe = kas_recipe_default();
    static const struct {
        int objective;
        double latency;
        const char *said, *latency_said; /* NULL: nothing */
    } cases[] = {{KAS_OBJECTIVE_FRONTIER, 1, "--objective=frontier", NULL},
                 {KAS_OBJECTIVE_ACCURACY, 0, "--objective=accuracy", NULL},
                 {KAS_OBJECTIVE_ACCURACY, 1, "--objective=accuracy", "--latency=1"},
                 {KAS_OBJECTIVE_LATENCY, 0, "--objective=latency", "--latency=0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_buf text = {0};
        o.objective = cases[i].objective;
        o.latency = cases[i].latency;
        kas_search_options_command(&o, "d.h5", "s", &text);
        const char *expected = cases[i].latency_said, *command = kas_buf_text(&text);
        if (!strstr(command, cases[i].said) ||
            (expected ? !strstr(command, expected) : !!strstr(command, "--latency")))
            fail_msg("case %d: %s", (int)i, command);
        kas_buf_free(&text);
    }
}

/* What the study has of its own needs no file of before; and a number of threads for each worker is
 * none for all of them. */
TEST(copies_of_the_study)
{
    kas_search_options o = kas_search_options_default();
    o.recipe = kas_recipe_default();
    strcpy(o.net, "mine-3f9a20c1");
    o.network = "{\"name\": \"mine\"}:width=8";
    strcpy(o.from, "abc");
    strcpy(o.init, "def");
    o.threads = 3;
    kas_buf text = {0};
    kas_search_options_command(&o, "d.h5", "a b", &text);
    static const char *const said[] = {"--net 'a b/network.json:width=8'",
                                       "--init 'a b/init.safetensors'", "--from 'a b/from.json'"};
    for (int i = 0; i < 3; i++)
        if (!strstr(kas_buf_text(&text), said[i]))
            fail_msg("no %s in %s", said[i], kas_buf_text(&text));
    assert_null(strstr(kas_buf_text(&text), "mine-"));
    assert_null(strstr(kas_buf_text(&text), "--threads"));
    kas_buf_free(&text);
}

RUN_TESTS()
