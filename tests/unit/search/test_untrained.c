/* The search that trains nothing, against the scores and predictions of its configurations one by one; and the scores of
 * --prefilter. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/search/prefilter.h"
#include "host/search/untrained.h"
#include "small_problem.h"

static kas_search_options options_of(void)
{
    kas_search_options o = kas_search_options_default();
    o.recipe = kas_recipe_default();
    o.sample.space = KAS_SPACE_NAS_PTE;
    o.sample.per_layer = KAS_PER_LAYER_YES;
    o.flops = 0;
    o.seed = 1;
    snprintf(o.legality, sizeof o.legality, "fisher");
    return o;
}

static kas_untrained_options search_of(const kas_search_options *o, const kas_problem *p,
                                       const kas_machine *machine)
{
    return (kas_untrained_options){.search = o,
                                   .problem = p,
                                   .machine = machine,
                                   .configurations = 24,
                                   .wanted = 1,
                                   .threads = 1};
}

/* What the search says of a configuration, from its file. */
static void check_configuration(const kas_search_options *o, const kas_problem *p,
                                const kas_predictor *predictor, const kas_untrained *u,
                                const kas_configuration *c)
{
    kas_assignment read;
    kas_replacement r;
    char name[KAS_NAME_SIZE];
    double seconds;
    OK(kas_assignment_read_json("configuration", c->text, strlen(c->text), &read));
    OK(kas_assignment_name(&read, name));
    assert_string_equal(name, c->name);
    OK(kas_assignment_fit(&read, p->target, p->targets, &(kas_budget){0}, &r));
    OK(kas_predict_candidate(predictor, &r, &seconds));
    assert_int_equal(kas_replacement_replaced(&r), c->changed);
    assert_true(seconds == c->predicted);
    assert_true(r.solution.flops / r.solution.conv_flops == c->flops);
    if (c->state == KAS_CONFIGURATION_LEGAL || c->state == KAS_CONFIGURATION_REJECTED) {
        assert_true(potential(p, KAS_SCORE_LEAST_BATCH, o->seed, &r) == c->potential);
        assert_true((c->potential >= u->least) == (c->state == KAS_CONFIGURATION_LEGAL));
    } else {
        assert_true(isnan(c->potential));
    }
    kas_replacement_free(&r);
    kas_assignment_free(&read);
}

static void same(const kas_untrained *a, const kas_untrained *b)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        assert_string_equal(a->configuration[i].name, b->configuration[i].name);
        assert_int_equal(a->configuration[i].state, b->configuration[i].state);
    }
}

/* The legal ones wanted are the first legal ones, and what is slower than these was not scored. */
static void first_legal(const kas_untrained *u, const kas_untrained *all, int wanted)
{
    int legal = 0;
    for (int i = 0; i < u->count; i++) {
        const kas_configuration_state state = all->configuration[i].state;
        assert_int_equal(
            u->configuration[i].state,
            legal < wanted || state == KAS_CONFIGURATION_SLOW ? state : KAS_CONFIGURATION_UNSCORED);
        if (legal < wanted && state == KAS_CONFIGURATION_LEGAL)
            assert_int_equal(u->legal[legal], i);
        legal += state == KAS_CONFIGURATION_LEGAL;
    }
    assert_true(legal > wanted); /* otherwise this says nothing */
    assert_int_equal(u->states[KAS_CONFIGURATION_LEGAL], wanted);
}

TEST(takes_the_fastest_legal)
{
    kas_search_options o = options_of();
    kas_problem p;
    kas_machine machine;
    kas_predictor *predictor;
    kas_untrained u, threads, all;
    o.latency = 0;
    snprintf(o.legality, sizeof o.legality, "fisher:0.25");
    open_problem(&p);
    OK(kas_machine_find("h100", "auto", 0, &machine));
    OK(kas_predictor_create(&machine, p.net, KAS_LATENCY_BATCH, KAS_PRECISION_FP32, &predictor));
    kas_untrained_options search = search_of(&o, &p, &machine);
    OK(kas_untrained_search(&search, &u));
    search.threads = 3;
    OK(kas_untrained_search(&search, &threads));
    search.score_all = true;
    OK(kas_untrained_search(&search, &all));
    same(&u, &threads);
    first_legal(&u, &all, search.wanted);
    assert_true(u.potential == potential(&p, KAS_SCORE_LEAST_BATCH, o.seed, NULL) &&
                u.least == 0.75 * u.potential);
    for (int i = 0; i < all.count; i++) {
        check_configuration(&o, &p, predictor, &all, &all.configuration[i]);
        assert_true(i == 0 || all.configuration[i - 1].predicted <= all.configuration[i].predicted);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(all.configuration[k].name, all.configuration[i].name);
    }
    assert_int_equal(all.states[KAS_CONFIGURATION_UNSCORED], 0);
    assert_true(all.states[KAS_CONFIGURATION_REJECTED] > 0);
    print_message("%d legal, %d rejected, %d slow of %d\n", all.states[KAS_CONFIGURATION_LEGAL],
                  all.states[KAS_CONFIGURATION_REJECTED], all.states[KAS_CONFIGURATION_SLOW],
                  all.count);
    kas_untrained_free(&u);
    kas_untrained_free(&threads);
    kas_untrained_free(&all);
    kas_predictor_free(predictor);
    kas_problem_close(&p);
}

TEST(keeps_the_budget)
{
    kas_search_options o = options_of();
    kas_problem p;
    kas_machine machine;
    kas_untrained u;
    open_problem(&p);
    OK(kas_machine_find("h100", "auto", 0, &machine));
    kas_untrained_options search = search_of(&o, &p, &machine);
    search.configurations = 6;
    o.flops = 0.6;
    OK(kas_untrained_search(&search, &u));
    assert_true(u.over_budget > 0);
    for (int i = 0; i < u.count; i++) {
        const kas_configuration *c = &u.configuration[i];
        assert_true(c->flops <= 0.6);
        assert_true((c->state == KAS_CONFIGURATION_SLOW) == (c->predicted > u.predicted));
    }
    assert_true(u.states[KAS_CONFIGURATION_SLOW] > 0);
    kas_untrained_free(&u);
    o.flops = 1e-6;
    search.configurations = 1;
    assert_int_equal(kas_untrained_search(&search, &u), KAS_NOTHING_VALID);
    assert_non_null(strstr(kas_error(), "over the budget"));
    kas_untrained_free(&u);
    kas_problem_close(&p);
}

TEST(prefilter_scores)
{
    static const char *const wrong[] = {"naswot",   "naswot:1", "naswot:33", "naswot:2x",
                                        "fishes:2", ":4",       "az_nas:1",  "naswot:nan"};
    kas_search_options o = options_of();
    kas_problem p;
    kas_prefilter *prefilter;
    int id, proposals;
    double found[KAS_SCORE_PARTS];
    open_problem(&p);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(kas_prefilter_parse(wrong[i], &id, &proposals), KAS_USAGE);
        assert_non_null(strstr(kas_error(), wrong[i]));
    }
    OK(kas_prefilter_open(&o, &p, NULL, &prefilter));
    assert_null(prefilter); /* not asked for */
    OK(kas_prefilter_parse("fisher_all:32", &id, &proposals));
    assert_true(id == KAS_SCORE_FISHER_ALL && proposals == 32);
    snprintf(o.prefilter, sizeof o.prefilter, "latency:2");
    assert_int_equal(kas_prefilter_open(&o, &p, NULL, &prefilter), KAS_USAGE);
    snprintf(o.prefilter, sizeof o.prefilter, "params:2");
    OK(kas_prefilter_open(&o, &p, NULL, &prefilter));
    assert_int_equal(kas_prefilter_scores(prefilter), 1);
    OK(kas_prefilter_score(prefilter, NULL, found));
    assert_true(found[0] == kas_net_params(p.net));
    kas_prefilter_close(prefilter);
    snprintf(o.prefilter, sizeof o.prefilter, "az_nas:2");
    OK(kas_prefilter_open(&o, &p, NULL, &prefilter));
    assert_int_equal(kas_prefilter_scores(prefilter), 4);
    OK(kas_prefilter_score(prefilter, NULL, found));
    assert_true(isfinite(found[0] + found[1] + found[2]));
    assert_true(found[3] == kas_net_flops(p.net));
    kas_prefilter_close(prefilter);
    kas_problem_close(&p);
}

/* A constant image, and one class: both searches say so before they draw anything. */
TEST(bad_images)
{
    kas_search_options o = options_of();
    kas_problem p;
    kas_machine machine;
    kas_untrained u;
    kas_prefilter *prefilter;
    snprintf(o.prefilter, sizeof o.prefilter, "naswot:2");
    OK(kas_machine_find("h100", "auto", 0, &machine));
    for (int constant = 0; constant < 2; constant++) {
        open_problem(&p);
        if (constant)
            memset(p.dataset->train.pixels, 7, IMAGES * SIZE * SIZE * 3);
        else
            memset(p.dataset->train.labels, 0, sizeof *p.dataset->train.labels * IMAGES);
        const kas_untrained_options search = search_of(&o, &p, &machine);
        const char *what = constant ? "is constant" : "of class 0";
        assert_int_equal(kas_untrained_search(&search, &u), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), what));
        assert_int_equal(u.count, 0);
        kas_untrained_free(&u);
        assert_int_equal(kas_prefilter_open(&o, &p, NULL, &prefilter), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), what));
        kas_problem_close(&p);
    }
}

RUN_TESTS()
