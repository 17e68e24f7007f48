/* Strategies: which candidates they give, that a walk from the start gives the same ones again, and
 * what they refuse. Results are made up from the names of the candidates. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/core/file/files.h"
#include "host/score/correct.h"
#include "host/space/sample/sampler.h"
#include "host/strategy/select.h"
#include "walk.h"

/* ---- random ---------------------------------------------------------------------------------- */

/* Bit for bit the sampler's list. */
TEST_WITH(random_is_the_sampler, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    kas_sample_options sample = o.sample;
    kas_sampler *sampler;
    study s = {.count = 0};
    sample.seed = o.seed;
    sample.budget = kas_search_budget(&o);
    OK(kas_sampler_create(&sample, target, targets, &sampler));
    open_and_walk(&o, NULL, &s, 20);
    for (int k = 0; k < 20; k++) {
        kas_sample one;
        kas_buf json = {0};
        OK(kas_sampler_next(sampler, 0, &one));
        OK(kas_sample_write_json(&one, &json));
        assert_string_equal(s.work[k].name, one.name);
        assert_string_equal(s.work[k].kernel, kas_buf_text(&json));
        assert_int_equal(s.work[k].attempt, one.attempt);
        assert_string_equal(s.work[k].origin, "sampled");
        assert_int_equal(s.work[k].generation, 0);
        kas_buf_free(&json);
        kas_sample_free(&one);
    }
    kas_sampler_free(sampler);
    forget(&s);
}

/* With rungs the same list comes in generations, and each waits for the one before. */
TEST_WITH(random_in_generations, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    kas_strategy strategy;
    study plain = {.count = 0}, s = {.count = 0};
    open_and_walk(&o, NULL, &plain, 12);
    o.rungs = (kas_int_list){1, {3}};
    o.generation = 5;
    OK(kas_strategy_open(&o, target, targets, "", NULL, &strategy));
    walk(&strategy, &s, 5);
    static const kas_work_state under_way[] = {KAS_WORK_RUNNING, KAS_WORK_WAITING,
                                               KAS_WORK_MACHINE_FAULT};
    for (int i = 0; i < 3; i++) {
        kas_work work;
        bool ready = true;
        const kas_work_state before = s.work[4].state;
        s.work[4].state = under_way[i];
        OK(strategy.next(strategy.context, s.work, s.count, &work, &ready));
        assert_false(ready);
        s.work[4].state = before;
        OK(strategy.next(strategy.context, s.work, 4, &work, &ready)); /* not stored yet */
        assert_false(ready);
    }
    kas_work work; /* the unmodified network is under way */
    bool ready = true;
    s.work[s.count] = (kas_work){.kind = KAS_WORK_BASELINE, .state = KAS_WORK_RUNNING};
    OK(strategy.next(strategy.context, s.work, s.count + 1, &work, &ready));
    assert_false(ready);
    kas_strategy_close(&strategy);
    open_and_walk(&o, NULL, &s, 12);
    for (int k = 0; k < 12; k++) {
        assert_string_equal(s.work[k].name, plain.work[k].name);
        assert_int_equal(s.work[k].generation, k / 5);
    }
    forget(&plain);
    forget(&s);
}

/* ---- known kernels --------------------------------------------------------------------------- */

static const char *const cheap[] = {"known:group_conv", "known:depthwise_separable",
                                    "known:bottleneck", "known:conv group(8)",
                                    "known:nas_pte_3",  "known:conv bottleneck_out(4)"};

/* Both strategies begin with the same list: the known kernels that fit, then the sampler's. */
TEST_WITH(known_kernels_come_first, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    study s = {.count = 0}, plain = {.count = 0};
    open_and_walk(&o, NULL, &plain, 5);
    o.known = true;
    open_and_walk(&o, NULL, &s, 30);
    const int known = known_in(&s);
    assert_true(known >= 10 && known < 25);
    for (int k = 0; k < 30; k++) {
        assert_int_equal(strncmp(s.work[k].origin, "known:", 6) == 0, k < known);
        assert_true(is_legal(&s.work[k]) && s.work[k].flops <= 0.5 * s.work[k].conv_flops);
        assert_string_not_equal(s.work[k].origin, "known:conv"); /* over the budget */
        for (int i = 0; i < k; i++)
            assert_string_not_equal(s.work[i].name, s.work[k].name);
    }
    for (size_t i = 0; i < sizeof cheap / sizeof *cheap; i++) {
        bool there = false;
        for (int k = 0; k < known; k++)
            there |= strcmp(s.work[k].origin, cheap[i]) == 0;
        if (!there)
            fail_msg("%s is not among the first candidates", cheap[i]);
    }
    for (int k = 0; k < 5; k++)
        assert_string_equal(s.work[known + k].name, plain.work[k].name);
    o.strategy = KAS_STRATEGY_EVOLUTION;
    o.population = 12, o.tournament = 3, o.generation = 4;
    open_and_walk(&o, NULL, &s, known); /* the same */
    forget(&plain);
    forget(&s);
}

/* ---- evolution ------------------------------------------------------------------------------- */

static bool is_change(const char *origin)
{
    static const char *const words[] = {"change", "replace", "insert", "delete", "regrow", "graft"};
    for (int i = 0; i < 6; i++)
        if (strcmp(origin, words[i]) == 0)
            return true;
    return false;
}

/* Children have parents of earlier generations that have a result; nobody comes twice; a walk that
 * begins again anywhere gives the same. */
TEST_WITH(evolution_repeats_itself, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    study s = {.count = 0};
    o.known = true;
    for (int until = 10; until <= 60; until += 10)
        open_and_walk(&o, NULL, &s, until);
    study again = {.count = 0};
    open_and_walk(&o, NULL, &again, 60);
    const int first = known_in(&s) > 12 ? known_in(&s) : 12;
    for (int k = 0; k < 60; k++) {
        const kas_work *w = &s.work[k];
        assert_string_equal(w->name, again.work[k].name);
        assert_int_equal(w->generation, k < first ? 0 : 1 + (k - first) / 4);
        assert_true(is_legal(w));
        for (int i = 0; i < k; i++)
            assert_string_not_equal(s.work[i].name, w->name);
        if (k < first)
            continue;
        assert_true(is_change(w->origin));
        char parents[64], *rest;
        snprintf(parents, sizeof parents, "%s", w->parents);
        assert_true((strchr(parents, ',') != NULL) == (strcmp(w->origin, "graft") == 0));
        for (char *name = strtok_r(parents, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
            const kas_work *parent = named(&s, name);
            assert_non_null(parent);
            assert_true(parent->generation < w->generation && parent->state == KAS_WORK_FINISHED);
        }
    }
    forget(&s);
    forget(&again);
}

/* Another result, another child. */
TEST_WITH(children_follow_the_results, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    study a = {.count = 0}, b = {.count = 0};
    open_and_walk(&o, NULL, &a, 12);
    open_and_walk(&o, NULL, &b, 12);
    for (int k = 0; k < 12; k++) {
        a.work[k].state = b.work[k].state = KAS_WORK_FINISHED;
        a.work[k].measured.accuracy = 0.1 + 0.01 * k;
        b.work[k].measured.accuracy = 0.9 - 0.01 * k;
    }
    open_and_walk(&o, NULL, &a, 16);
    open_and_walk(&o, NULL, &b, 16);
    int differ = 0;
    for (int k = 12; k < 16; k++)
        differ += strcmp(a.work[k].name, b.work[k].name) != 0;
    assert_true(differ > 0);
    forget(&a);
    forget(&b);
}

/* Without a single result there is nobody to descend from. */
TEST_WITH(all_failed, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    study s = {.count = 0};
    open_and_walk(&o, NULL, &s, 12);
    for (int k = 0; k < 12; k++)
        s.work[k].state = KAS_WORK_SCREENED;
    open_and_walk(&o, NULL, &s, 16);
    for (int k = 12; k < 16; k++)
        assert_string_equal(s.work[k].origin, "sampled");
    forget(&s);
}

/* The newest generations stay whole; of the oldest the best stay. Who ended at a rung comes behind
 * all that went further. */
TEST_WITH(the_oldest_die, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    study s = {.count = 0};
    kas_population p;
    o.rungs = (kas_int_list){1, {3}};
    open_and_walk(&o, NULL, &s, 12);
    for (int k = 0; k < 12; k++) { /* generations of 4; accuracy falls with the number */
        kas_work *w = &s.work[k];
        w->generation = k / 4;
        w->state = k == 11 ? KAS_WORK_DIVERGED : KAS_WORK_FINISHED;
        w->rung = 1;
        w->measured.accuracy = 0.9 - 0.01 * k;
    }
    s.work[8].state = KAS_WORK_NOT_PROMOTED;
    s.work[8].rung = 0;
    OK(kas_population_select(&o, s.work, s.count, 3, 6, &p));
    assert_int_equal(p.count, 6);
    assert_int_equal(p.fertile, 5);
    static const int expected[] = {4, 5, 9, 10, 8}; /* 6 and 7 are dead, and so is generation 0 */
    for (int i = 0; i < 5; i++)
        assert_string_equal(p.member[i].name, s.work[expected[i]].name);
    kas_population_free(&p);
    forget(&s);
}

/* With generations that are nearly as large as the population a candidate still lives for three. */
TEST_WITH(small_populations_last, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    kas_strategy strategy;
    study s = {.count = 0};
    int from_first = 0;
    char first[12][17];
    o.population = 12, o.generation = 9;
    OK(kas_strategy_open(&o, target, targets, "", NULL, &strategy));
    walk(&strategy, &s, 12 + 3 * 9);
    for (int i = 0; i < 12; i++)
        memcpy(first[i], s.work[i].name, sizeof first[i]);
    for (int i = 12 + 2 * 9; i < s.count; i++)
        for (int j = 0; j < 12; j++)
            from_first += strstr(s.work[i].parents, first[j]) != NULL;
    assert_true(from_first > 0);
    kas_strategy_close(&strategy);
    forget(&s);
}

/* Those that ended at a rung are parents by the objective too, among themselves: 3 costs less than
 * anything that went further, and that does not help it; 5 costs more than 4 and is not better. */
TEST_WITH(parents_that_ended_at_a_rung, set_up, tear_down)
{
    static const double accuracy[] = {0.4, 0.2, 0.19, 0.18, 0.185, 0.184},
                        predicted[] = {0.5, 0.9, 0.6, 0.1, 0.5, 0.55};
    static const int expected[] = {0, 1, 3, 2, 4, 5};
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    study s = {.count = 0};
    kas_population p;
    o.objective = KAS_OBJECTIVE_FRONTIER;
    o.rungs = (kas_int_list){1, {1}};
    open_and_walk(&o, NULL, &s, 6);
    for (int k = 0; k < 6; k++) {
        s.work[k].generation = 0;
        s.work[k].state = k ? KAS_WORK_NOT_PROMOTED : KAS_WORK_FINISHED;
        s.work[k].rung = k == 0;
        s.work[k].measured.accuracy = accuracy[k];
        s.work[k].predicted = predicted[k];
    }
    OK(kas_population_select(&o, s.work, s.count, 1, 6, &p));
    for (int i = 0; i < 6; i++)
        assert_string_equal(p.member[i].name, s.work[expected[i]].name);
    kas_population_free(&p);
    forget(&s);
}

/* Those that imitate too badly to be trained come behind all that were trained, by what they miss. */
TEST_WITH(what_is_missed_ranks_the_untrained, set_up, tear_down)
{
    static const kas_objective objectives[] = {KAS_OBJECTIVE_ACCURACY, KAS_OBJECTIVE_LATENCY,
                                               KAS_OBJECTIVE_FRONTIER};
    static const int expected[] = {3, 4, 1, 2};
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    study s = {.count = 0};
    open_and_walk(&o, NULL, &s, 6);
    for (int k = 0; k < 6; k++) {
        s.work[k].generation = 0;
        s.work[k].state = k == 3 || k == 4 ? KAS_WORK_FINISHED : KAS_WORK_SCREENED;
        s.work[k].measured = kas_measured_unknown();
        s.work[k].measured.missed = 1.2 - 0.1 * k; /* of the trained ones it says nothing more */
    }
    s.work[3].measured.accuracy = 0.02;
    s.work[4].measured.accuracy = 0.01;
    s.work[2].measured.missed = 1.3;
    s.work[0].measured.missed = NAN; /* its output was constant */
    s.work[5].state = KAS_WORK_DIVERGED;
    for (size_t i = 0; i < sizeof objectives / sizeof *objectives; i++) {
        kas_population p;
        o.objective = objectives[i];
        OK(kas_population_select(&o, s.work, s.count, 1, 6, &p));
        assert_int_equal(p.count, 6);
        assert_int_equal(p.fertile, 4);
        for (int k = 0; k < 4; k++)
            assert_string_equal(p.member[k].name, s.work[expected[k]].name);
        kas_population_free(&p);
    }
    double reward[6];
    OK(kas_rewards(&o, s.work, s.count, 1, 6, reward));
    assert_true(reward[3] == 1 && reward[4] < 1 && reward[1] < reward[4] && reward[2] < reward[1]);
    assert_true(reward[2] > 0 && reward[0] == 0 && reward[5] == 0);
    forget(&s);
}

/* Of 1000 images so many are right. */
static void give_right(kas_work *w, int right)
{
    kas_buf text = {0};
    float hit[1000];
    for (int i = 0; i < 1000; i++)
        hit[i] = i < right;
    kas_correct_add(hit, 1000, &text);
    free(w->correct);
    w->correct = text.data;
    w->state = KAS_WORK_FINISHED;
    w->measured.accuracy = right / 1000.0;
}

/* Accuracy falls with the number, and so does the predicted time, so no candidate dominates another.
 * The unmodified network has 600 right. The last two have learned nothing, at nearly no cost: with
 * the frontier as the objective they come last too, and are no parents while there are others. */
TEST_WITH(parents_by_the_objective, set_up, tear_down)
{
    static const int right[6] = {640, 630, 610, 590, 12, 10};
    static const double predicted[6] = {4, 3.9, 2, 1, 0.02, 0.01};
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    study s = {.count = 0};
    open_and_walk(&o, NULL, &s, 6);
    for (int k = 0; k < 6; k++) {
        s.work[k].generation = 0;
        s.work[k].predicted = predicted[k];
        give_right(&s.work[k], right[k]);
    }
    s.work[6] = (kas_work){.kind = KAS_WORK_BASELINE, .predicted = 5};
    give_right(&s.work[6], 600);
    /* 3 loses 1 point with a standard error of 0.31: it is the cheap end within 2 points. */
    static const struct {
        int objective;
        double max_loss;
        int order[6];
    } cases[] = {{KAS_OBJECTIVE_ACCURACY, 1, {0, 1, 2, 3, 4, 5}},
                 {KAS_OBJECTIVE_FRONTIER, 2, {0, 3, 2, 1, 4, 5}},
                 {KAS_OBJECTIVE_FRONTIER, 1, {0, 2, 1, 3, 4, 5}},
                 {KAS_OBJECTIVE_FRONTIER, 100, {0, 5, 3, 4, 2, 1}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        kas_population p;
        o.objective = cases[c].objective;
        o.max_loss = cases[c].max_loss;
        OK(kas_population_select(&o, s.work, 7, 1, 6, &p));
        assert_int_equal(p.fertile, 6);
        for (int i = 0; i < 6; i++)
            if (strcmp(p.member[i].name, s.work[cases[c].order[i]].name) != 0)
                fail_msg("case %d: place %d has %s, expected candidate %d", (int)c, i,
                         p.member[i].name, cases[c].order[i]);
        kas_population_free(&p);
    }
    kas_work_clear(&s.work[6]);
    forget(&s);
}

/* ---- forecasts ------------------------------------------------------------------------------- */

typedef struct oracle {
    int calls;
} oracle;

/* Kernels whose names end in an odd digit are slow. */
static kas_status predict(void *context, const kas_replacement *replacement, kas_work *work)
{
    oracle *o = context;
    const bool slow = strtoull(work->name, NULL, 16) % 2;
    o->calls++;
    assert_true(replacement->solution.flops == work->flops);
    work->predicted = slow ? 2 : 1;
    if (slow) {
        work->state = KAS_WORK_PREDICTED_SLOW;
        snprintf(work->reason, sizeof work->reason, "2 s, where 1 s is allowed");
    }
    return KAS_OK;
}

/* What is discarded keeps its number, counts in no generation, and is predicted once. */
TEST_WITH(slow_ones_do_not_count, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    oracle seer = {.calls = 0};
    const kas_forecast forecast = {.judge = predict, .context = &seer};
    study s = {.count = 0};
    open_and_walk(&o, &forecast, &s, 50);
    assert_int_equal(seer.calls, 50);
    open_and_walk(&o, &forecast, &s, 60);
    assert_int_equal(seer.calls, 60);
    int trained = 0, slow = 0;
    for (int k = 0; k < 60; k++) {
        const kas_work *w = &s.work[k];
        const bool discarded = w->state == KAS_WORK_PREDICTED_SLOW;
        assert_true(w->predicted == (discarded ? 2 : 1));
        assert_true(discarded == (w->reason[0] != 0));
        if (!discarded)
            assert_int_equal(w->generation, trained < 12 ? 0 : 1 + (trained - 12) / 4);
        trained += !discarded;
        slow += discarded;
        if (*w->parents) { /* nobody descends from what was not trained */
            char first[17];
            snprintf(first, sizeof first, "%.16s", w->parents);
            assert_int_equal(named(&s, first)->state, KAS_WORK_FINISHED);
        }
    }
    assert_true(trained > 15 && slow > 15);
    forget(&s);
}

static int prepared, at_once;

static kas_status prepare(void *context, const kas_coming *list, int count)
{
    (void)context;
    prepared += count;
    at_once = count > at_once ? count : at_once;
    for (int i = 0; i < count; i++)
        assert_true(strlen(list[i].name) == 16 && list[i].replacement->solution.flops > 0);
    return KAS_OK;
}

/* However many are proposed before the first of them is judged, the list is the same, also where a
 * process goes on within a generation, and what the store has is not prepared. */
TEST_WITH(the_list_of_any_number_of_cores, set_up, tear_down)
{
    static const kas_strategy_kind strategies[] = {KAS_STRATEGY_EVOLUTION, KAS_STRATEGY_TREE};
    for (int i = 0; i < 2; i++) {
        const kas_search_options o = options_of(strategies[i]);
        oracle seer = {.calls = 0};
        kas_forecast forecast = {.judge = predict, .context = &seer};
        study alone = {.count = 0}, together = {.count = 0};
        open_and_walk(&o, &forecast, &alone, 60);
        forecast.prepare = prepare;
        for (int until = 5; until <= 60; until += 11) {
            prepared = at_once = 0;
            forecast.together = until;
            open_and_walk(&o, &forecast, &together, until);
            assert_true(prepared <= 11 + 4 && at_once <= 12); /* at most one generation too many */
        }
        assert_true(together.count == 60 && at_once >= 2);
        for (int k = 0; k < 60; k++) {
            assert_string_equal(together.work[k].name, alone.work[k].name);
            assert_string_equal(together.work[k].parents, alone.work[k].parents);
            assert_int_equal(together.work[k].generation, alone.work[k].generation);
            assert_int_equal(together.work[k].state, alone.work[k].state);
        }
        forget(&alone);
        forget(&together);
    }
}

static kas_status all_slow(void *context, const kas_replacement *replacement, kas_work *work)
{
    (void)context, (void)replacement;
    work->state = KAS_WORK_PREDICTED_SLOW;
    return KAS_OK;
}

TEST_WITH(a_hopeless_limit_ends, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    const kas_forecast forecast = {.judge = all_slow};
    kas_strategy strategy;
    kas_status status = KAS_OK;
    OK(kas_strategy_open(&o, target, targets, "", &forecast, &strategy));
    for (int k = 0; k < 600 && status == KAS_OK; k++) {
        kas_work work = {0};
        bool ready;
        status = strategy.next(strategy.context, NULL, 0, &work, &ready);
        kas_work_clear(&work);
    }
    assert_int_equal(status, KAS_NOTHING_VALID);
    assert_non_null(strstr(kas_error(), "predicted to be too slow"));
    kas_strategy_close(&strategy);
}

/* ---- spaces ---------------------------------------------------------------------------------- */

TEST_WITH(no_children_elsewhere, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    kas_strategy strategy;
    o.sample.space = KAS_SPACE_NAS_PTE;
    assert_int_equal(kas_strategy_open(&o, target, targets, "", NULL, &strategy), KAS_USAGE);
}

RUN_TESTS()
