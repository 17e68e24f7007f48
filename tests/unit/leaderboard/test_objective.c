/* The objective: fronts, crowding and orders of points, finalists, the answer and the figures of
 * final trainings, against examples worked out by hand. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/leaderboard/finals.h"
#include "host/leaderboard/objective.h"

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%.9g, expected %.9g", found, expected);
}

/* ---- points ---------------------------------------------------------------------------------- */

/* 0, 1, 3 and 5 (equal to 1) are dominated by none; 0 dominates 4, 1 dominates 2. */
static const kas_point points[] = {
    {.accuracy = 0.9, .cost = 10, .number = 0},  {.accuracy = 0.8, .cost = 5, .number = 1},
    {.accuracy = 0.7, .cost = 5, .number = 2},   {.accuracy = 0.6, .cost = 1, .number = 3},
    {.accuracy = 0.85, .cost = 10, .number = 4}, {.accuracy = 0.8, .cost = 5, .number = 5},
    {.accuracy = 0.5, .cost = 2, .number = 6},   {.accuracy = NAN, .cost = 0, .number = 7},
    {.accuracy = 0.95, .cost = NAN, .number = 8}};
enum { POINTS = sizeof points / sizeof *points };

TEST(fronts)
{
    static const int expected[POINTS] = {0, 0, 1, 0, 1, 0, 1, POINTS, POINTS};
    int front[POINTS];
    OK(kas_pareto_fronts(points, POINTS, front));
    for (int i = 0; i < POINTS; i++)
        if (front[i] != expected[i])
            fail_msg("point %d is on front %d, expected %d", i, front[i], expected[i]);
}

/* A chain in which every point dominates the next: one front each. */
TEST(a_front_each)
{
    kas_point chain[5];
    int front[5];
    for (int i = 0; i < 5; i++)
        chain[i] = (kas_point){.accuracy = 0.5 + 0.01 * i, .cost = 9 - i, .number = i};
    OK(kas_pareto_fronts(chain, 5, front));
    for (int i = 0; i < 5; i++)
        assert_int_equal(front[i], 4 - i);
}

/* Front 0 from 0.9 to 0.6 and from 10 to 1: 0.9 (10), 0.8 (5), 0.8 (5), 0.6 (1). */
TEST(crowding)
{
    int front[POINTS];
    double distance[POINTS];
    OK(kas_pareto_fronts(points, POINTS, front));
    OK(kas_pareto_crowding(points, POINTS, front, distance));
    assert_true(isinf(distance[0]) && isinf(distance[3]));
    assert_near(distance[1], 0.1 / 0.3 + 5.0 / 9, 1e-12);
    assert_near(distance[5], 0.2 / 0.3 + 4.0 / 9, 1e-12);
    assert_true(isinf(distance[4]) && isinf(distance[6])); /* the ends of front 1 */
    assert_near(distance[2], 0.35 / 0.35 + 8.0 / 8, 1e-12);
    assert_true(distance[7] == 0 && distance[8] == 0);
}

static void assert_order(int objective, double max_loss, const kas_point *point, int count,
                         const int *expected)
{
    int order[POINTS];
    OK(kas_objective_order(objective, max_loss, point, count, order));
    for (int i = 0; i < count; i++)
        if (order[i] != expected[i])
            fail_msg("objective %s: place %d has point %d, expected %d",
                     kas_objective_names[objective], i, order[i], expected[i]);
}

TEST(orders)
{
    static const int by_accuracy[POINTS] = {8, 0, 4, 1, 5, 2, 3, 6, 7};
    assert_order(KAS_OBJECTIVE_ACCURACY, 1, points, POINTS, by_accuracy);
    static const int by_front[POINTS] = {0, 3, 5, 1, 4, 6, 2, 8, 7};
    assert_order(KAS_OBJECTIVE_FRONTIER, 1, points, POINTS, by_front);
    static const kas_point lossy[] = {
        {.accuracy = 0.9, .cost = 3, .loss = 0.2, .number = 0},
        {.accuracy = 0.8, .cost = 1, .loss = 1.0, .number = 1}, /* not below */
        {.accuracy = 0.7, .cost = 2, .loss = 0.9, .number = 2},
        {.accuracy = 0.99, .cost = 1, .loss = NAN, .number = 3},
        {.accuracy = 0.6, .cost = 0.5, .loss = 7, .number = 4},
        {.accuracy = 0.9, .cost = 2, .loss = -1, .number = 5}};
    static const int by_latency[] = {5, 2, 0, 1, 4, 3};
    assert_order(KAS_OBJECTIVE_LATENCY, 1, lossy, 6, by_latency);
    static const int within[] = {5, 0, 2, 1, 4, 3}; /* 5 dominates 0 and 2 */
    assert_order(KAS_OBJECTIVE_FRONTIER, 1, lossy, 6, within);
}

static void assert_selected(const kas_point *point, int count, const int *expected)
{
    kas_search_options o = kas_search_options_default();
    int order[POINTS];
    for (o.objective = KAS_OBJECTIVE_LATENCY; o.objective <= KAS_OBJECTIVE_FRONTIER;
         o.objective++) {
        OK(kas_objective_select(&o, point, count, order));
        assert_memory_equal(order, expected, (size_t)count * sizeof *order);
    }
}

/* Nobody is within a point, and costs count all the same among those near the best. */
TEST(selection_where_nobody_is_within)
{
    static const kas_point late[] = {{0.390, 0.61, 2.9, 0}, {0.386, 0.60, 3.2, 1},
                                     {0.364, 0.34, 5.5, 2}, {0.380, 1.00, 3.5, 3},
                                     {0.379, 0.99, 3.6, 4}, {0.325, 0.24, 9.5, 5}};
    assert_selected(late, 6, (int[]){0, 2, 1, 3, 4, 5}); /* 5 is more than 5 points behind 0 */
    static const kas_point early[] = {
        {0.080, 0.90, NAN, 0}, {0.079, 0.95, NAN, 1}, {0.065, 0.50, NAN, 2}, {0.063, 0.10, NAN, 3}};
    assert_selected(early, 4, (int[]){0, 2, 1, 3}); /* 3 is more than a fifth behind 0 */
}

/* What the unmodified network (number -1) dominates comes behind its front. */
TEST(the_unmodified_network_is_a_point)
{
    static const kas_point all[] = {{.accuracy = 0.6, .cost = 1, .number = -1},
                                    {.accuracy = 0.59, .cost = 1.5, .number = 0},
                                    {.accuracy = 0.5, .cost = 0.5, .number = 1},
                                    {.accuracy = 0.4, .cost = 1.6, .number = 2}};
    int front[4];
    OK(kas_pareto_fronts(all, 4, front));
    assert_true(front[0] == 0 && front[1] == 1 && front[2] == 0 && front[3] == 2);
}

/* ---- the end --------------------------------------------------------------------------------- */

enum { IMAGES = 100 };

/* Of 100 images of each half the first so many are right. */
static char *correct(int select, int confirm)
{
    kas_buf text = {0};
    for (int part = 0; part < 2; part++) {
        float hit[IMAGES];
        for (int i = 0; i < IMAGES; i++)
            hit[i] = i < (part ? confirm : select);
        if (part == 0 || confirm >= 0)
            kas_correct_add(hit, IMAGES, &text);
    }
    assert_false(text.failed);
    return text.data;
}

static kas_work item(kas_work_kind kind, int index, int select, int confirm, double latency)
{
    kas_work w = {.kind = kind,
                  .index = index,
                  .state = KAS_WORK_FINISHED,
                  .flops = 100,
                  .conv_flops = 100,
                  .correct = correct(select, confirm),
                  .measured = kas_measured_unknown()};
    if (kind == KAS_WORK_CANDIDATE || kind == KAS_WORK_FINAL)
        snprintf(w.name, sizeof w.name, "kernel-%d", index);
    w.measured.accuracy = select / (double)IMAGES;
    w.measured.latency = latency;
    return w;
}

static kas_search_options looking_for(int objective, double max_loss, int finalists)
{
    kas_search_options o = kas_search_options_default();
    o.objective = objective;
    o.max_loss = max_loss;
    o.finalists = finalists;
    o.latency = 0; /* slower ones may be finalists */
    return o;
}

static void forget(kas_work *work, int count)
{
    for (int i = 0; i < count; i++)
        free(work[i].correct);
}

static void assert_finalists(const kas_ending *end, const int *expected, int count, int answer)
{
    assert_int_equal(end->finalists, count);
    for (int i = 0; i < count; i++)
        if (end->finalist[i]->index != expected[i])
            fail_msg("finalist %d is candidate %d, expected %d", i, (int)end->finalist[i]->index,
                     expected[i]);
    if (answer < 0)
        assert_null(end->answer);
    else
        assert_int_equal(end->answer->index, answer);
}

/* The unmodified network has 60 of 100. A loss of k points has the error sqrt(k - k * k / 100): 1
 * point counts as 1.99, 2 as 3.4, 3 as 4.71. */
TEST(finalists_and_answer)
{
    kas_work work[] = {item(KAS_WORK_BASELINE, 0, 60, 60, 1.0),
                       item(KAS_WORK_CANDIDATE, 0, 70, 58, 0.9),  /* lucky, but within */
                       item(KAS_WORK_CANDIDATE, 1, 59, 60, 0.5),  /* within, fast */
                       item(KAS_WORK_CANDIDATE, 2, 60, 50, 0.4),  /* not confirmed */
                       item(KAS_WORK_CANDIDATE, 3, 57, 62, 0.1),  /* 3 points lost, and 1.71 */
                       item(KAS_WORK_CANDIDATE, 4, 65, 66, 1.1),  /* slower than unmodified */
                       item(KAS_WORK_CANDIDATE, 5, 90, 90, 0.1)}; /* did not finish */
    work[6].state = KAS_WORK_PRUNED;
    kas_search_options o = looking_for(KAS_OBJECTIVE_LATENCY, 4, 1);
    kas_ending end = kas_ending_of(&o, work, 7);
    assert_finalists(&end, (int[]){1}, 1, 1);
    assert_true(end.within);
    o.finalists = 4; /* by turns the fastest within and the most accurate; then who is left */
    end = kas_ending_of(&o, work, 7);
    assert_finalists(&end, (int[]){1, 0, 4, 2}, 4, 1);
    o.objective = KAS_OBJECTIVE_FRONTIER;
    end = kas_ending_of(&o, work, 7);
    assert_finalists(&end, (int[]){1, 0, 4, 2}, 4, 1);
    o.objective = KAS_OBJECTIVE_ACCURACY; /* 0 is first on the half that selects, 4 on the other */
    o.finalists = 2;
    end = kas_ending_of(&o, work, 7);
    assert_finalists(&end, (int[]){0, 4}, 2, 4);
    o.halves = false; /* an older study */
    end = kas_ending_of(&o, work, 7);
    assert_finalists(&end, (int[]){0, 4}, 2, 0);
    o.finalists = 32; /* more than there are */
    end = kas_ending_of(&o, work, 7);
    assert_int_equal(end.finalists, 5);
    forget(work, 7);
}

/* The confirming half is asked about the four fastest that the selecting half allows, or about as
 * many as there are finalists: the fifth may be confirmed by chance like any other. */
TEST(few_are_confirmed)
{
    kas_work work[7] = {item(KAS_WORK_BASELINE, 0, 60, 60, 1.0)};
    for (int i = 0; i < 6; i++)
        work[i + 1] = item(KAS_WORK_CANDIDATE, i, 60, i < 4 ? 50 : 60, 0.4 + 0.1 * i);
    kas_search_options o = looking_for(KAS_OBJECTIVE_LATENCY, 1, 1);
    kas_ending end = kas_ending_of(&o, work, 7);
    assert_finalists(&end, NULL, 0, -1);
    o.finalists = 5;
    end = kas_ending_of(&o, work, 7);
    assert_int_equal(end.answer->index, 4);
    o.objective = KAS_OBJECTIVE_FRONTIER;
    o.finalists = 1;
    assert_false(kas_ending_of(&o, work, 7).within);
    o.halves = false;
    assert_int_equal(kas_ending_of(&o, work, 7).answer->index, 0);
    forget(work, 7);
}

TEST(without_a_kernel_within_the_loss)
{
    kas_work work[] = {
        item(KAS_WORK_BASELINE, 0, 60, 60, 1.0), item(KAS_WORK_CANDIDATE, 0, 50, 58, 0.9),
        item(KAS_WORK_CANDIDATE, 1, 55, 41, 0.5), item(KAS_WORK_CANDIDATE, 2, 55, 52, 0.5)};
    work[3].flops = 10;
    kas_search_options o = looking_for(KAS_OBJECTIVE_LATENCY, 1, 3);
    kas_ending end = kas_ending_of(&o, work, 4);
    assert_finalists(&end, NULL, 0, -1);
    assert_int_equal(end.nearest->index, 2); /* a tie: fewer FLOPs */
    assert_int_equal(kas_objective_leader(&o, work, 4)->index, 2);
    o.objective = KAS_OBJECTIVE_FRONTIER; /* the most accurate, by the half that confirms */
    end = kas_ending_of(&o, work, 4);
    assert_finalists(&end, (int[]){2, 1, 0}, 3, 0);
    assert_false(end.within);
    free(work[1].correct); /* as accurate, but no faster */
    work[1].correct = correct(60, 60);
    work[1].measured.latency = 1;
    o.objective = KAS_OBJECTIVE_LATENCY;
    assert_null(kas_ending_of(&o, work, 4).answer);
    work[1].measured.latency = 0.99;
    assert_int_equal(kas_ending_of(&o, work, 4).answer->index, 0);
    work[0].state = KAS_WORK_RUNNING; /* nothing to compare with yet */
    o.objective = KAS_OBJECTIVE_LATENCY;
    end = kas_ending_of(&o, work, 4);
    assert_finalists(&end, NULL, 0, -1);
    assert_int_equal(end.nearest->index, 2);
    end = kas_ending_of(&o, work, 1);
    assert_true(!end.answer && !end.nearest && end.finalists == 0);
    forget(work, 4);
}

/* What fails by its latency or by its loss is nearer than what fails by both; the half that confirms
 * has no say. */
TEST(the_nearest)
{
    kas_work work[] = {item(KAS_WORK_BASELINE, 0, 60, 60, 1.0),
                       item(KAS_WORK_CANDIDATE, 0, 64, 64, 1.65), /* too slow by 0.65 */
                       item(KAS_WORK_CANDIDATE, 1, 59, 59, 1.01), /* too slow, and loses 1.99 */
                       item(KAS_WORK_CANDIDATE, 2, 50, 40, 0.5),  /* loses 13 */
                       item(KAS_WORK_CANDIDATE, 3, 50, 60, 0.5),  /* as many, and is lucky */
                       item(KAS_WORK_CANDIDATE, 4, 64, 58, 0.9)}; /* is not confirmed */
    kas_search_options o = looking_for(KAS_OBJECTIVE_LATENCY, 1, 1);
    assert_int_equal(kas_ending_of(&o, work, 6).nearest->index, 4);
    o.halves = false; /* 4 is the answer, and looks for no more */
    assert_int_equal(kas_ending_of(&o, work, 6).answer->index, 4);
    o.halves = true;
    assert_int_equal(kas_ending_of(&o, work, 5).nearest->index, 2); /* 0.12 is less than 0.65 */
    assert_int_equal(kas_ending_of(&o, work, 3).nearest->index, 0); /* 1 fails by both */
    o.latency = 0.4; /* now all fail by their latency, and 0 and 4 by nothing else */
    assert_int_equal(kas_ending_of(&o, work, 6).nearest->index, 4);
    o.objective = KAS_OBJECTIVE_ACCURACY;
    assert_int_equal(kas_ending_of(&o, work, 6).nearest->index, 2);
    forget(work, 6);
}

static void assert_missing(const kas_search_options *o, const kas_work *nearest, const char *text)
{
    char missing[KAS_ENDING_MISSING];
    assert_string_equal(kas_ending_missing(o, nearest, missing), text);
}

TEST(ended_without_an_answer)
{
    kas_work work[] = {item(KAS_WORK_BASELINE, 0, 60, 60, 1.0),
                       item(KAS_WORK_CANDIDATE, 0, 50, 60, 0.5),
                       item(KAS_WORK_CANDIDATE, 1, 50, 60, 0.5)};
    kas_search_options o = looking_for(KAS_OBJECTIVE_LATENCY, 1, 1);
    o.candidates = 2;
    assert_true(kas_ending_without_answer(&o, 0, work, 3));
    assert_missing(&o, &work[1],
                   "no kernel is faster than the unmodified network and within --max-loss 1");
    assert_missing(&o, NULL, "no candidate finished");
    work[2].state = KAS_WORK_RUNNING;
    assert_false(kas_ending_without_answer(&o, 0, work, 3));
    work[2].state = KAS_WORK_PREDICTED_SLOW; /* not counted among the two */
    assert_false(kas_ending_without_answer(&o, 0, work, 3));
    o.candidates = 0; /* the time ends it */
    o.time_limit = 60;
    assert_false(kas_ending_without_answer(&o, 59, work, 3));
    assert_true(kas_ending_without_answer(&o, 60, work, 3));
    work[0].state = KAS_WORK_RUNNING;
    assert_false(kas_ending_without_answer(&o, 60, work, 3));
    work[0].state = KAS_WORK_FINISHED;
    o.latency = 0.4;
    assert_missing(&o, &work[1], "no kernel is within --latency 0.4 and --max-loss 1");
    o.max_loss = 50;
    o.latency = 0;
    assert_false(kas_ending_without_answer(&o, 60, work, 3)); /* it has one */
    o.finalists = 0;
    assert_true(kas_ending_without_answer(&o, 60, work, 3));
    assert_missing(&o, &work[1], "no finalists were asked for (--finalists 0)");
    o = looking_for(KAS_OBJECTIVE_FRONTIER, 1, 1);
    o.latency = 0.4;
    assert_missing(&o, &work[1], "no kernel that finished is within --latency 0.4");
    forget(work, 3);
}

static kas_work in_turns(int index, double ratio)
{
    kas_work w = item(KAS_WORK_TURNS, index, 0, 0, ratio);
    w.measured.ratio = ratio;
    w.measured.ratio_low = ratio - 0.02;
    w.measured.ratio_high = ratio + 0.03;
    return w;
}

/* The ratio in turns takes the place of that of the search. */
TEST(timed_in_turns)
{
    kas_work work[] = {item(KAS_WORK_BASELINE, 0, 60, 60, 2.0),
                       item(KAS_WORK_CANDIDATE, 0, 60, 60, 1.0), /* 0.5 in the search */
                       item(KAS_WORK_CANDIDATE, 1, 60, 60, 1.2),
                       item(KAS_WORK_CANDIDATE, 2, 70, 70, 1.9),
                       in_turns(0, 0.65),
                       in_turns(1, 0.70),
                       in_turns(2, 1.1)};
    kas_search_options o = looking_for(KAS_OBJECTIVE_LATENCY, 4, 2);
    kas_ending end = kas_ending_of(&o, work, 4);
    assert_finalists(&end, (int[]){0, 2}, 2, 0);
    end = kas_ending_of(&o, work, 5); /* not timed yet: 1 is faster */
    assert_finalists(&end, (int[]){1, 2}, 2, 1);
    end = kas_ending_of(&o, work, 6);
    assert_finalists(&end, (int[]){0, 2}, 2, 0);
    o.latency = 1; /* 2 is slower in turns than that allows */
    end = kas_ending_of(&o, work, 7);
    assert_finalists(&end, (int[]){0, 1}, 2, 0);
    assert_near(kas_objective_ratio(&o, work, 7, &work[1]), 0.65, 1e-12);
    assert_near(kas_objective_ratio(&o, work, 4, &work[1]), 0.5, 1e-12);
    work[6].state = KAS_WORK_CRASHED;
    work[6].measured = kas_measured_unknown();
    end = kas_ending_of(&o, work, 7);
    assert_finalists(&end, (int[]){0, 2}, 2, 0);
    work[0].predicted = 4;
    work[1].predicted = 1;
    strcpy(o.latency_on, "h100");
    assert_near(kas_objective_ratio(&o, work, 7, &work[1]), 0.25, 1e-12);
    assert_true(isnan(kas_objective_ratio(&o, work + 1, 6, &work[1])));
    forget(work, 7);
}

/* ---- final trainings ------------------------------------------------------------------------- */

static kas_work final(kas_work_kind kind, int index, int seed, int right, double latency)
{
    kas_work w = item(kind, index, right, -1, latency);
    w.seed = seed;
    w.answers = kind == KAS_WORK_FINAL && index == 7;
    return w;
}

static void assert_exchanges(kas_work *work, int count, const char *expected)
{
    kas_buf text = {0};
    kas_finals_exchanges(work, count, "by", &text);
    assert_string_equal(kas_buf_text(&text), expected);
    kas_buf_free(&text);
}

/* Of all seeds, not of the first one only. */
TEST(ways_to_exchange)
{
    char one[] = "NCCL 1", two[] = "NCCL 2";
    kas_work work[] = {
        final(KAS_WORK_CANDIDATE, 7, 0, 60, 1),      final(KAS_WORK_FINAL, 7, 0, 61, 1),
        final(KAS_WORK_FINAL, 7, 1, 65, 1),          final(KAS_WORK_FINAL_BASELINE, 0, 0, 60, 5),
        final(KAS_WORK_FINAL_BASELINE, 0, 1, 62, 5), final(KAS_WORK_EARLIER_FINAL, 1, 0, 1, 1)};
    assert_exchanges(work, 6, "");
    for (int i = 1; i < 5; i++)
        work[i].exchange = one;
    work[0].exchange = work[5].exchange = two; /* no final trainings of the study */
    assert_exchanges(work, 6, "by NCCL 1.\n");
    work[2].exchange = work[4].exchange = two;
    assert_exchanges(work, 6,
                     "by NCCL 1: kernel-7 seed 0, unmodified network seed 0.\n"
                     "by NCCL 2: kernel-7 seed 1, unmodified network seed 1.\n");
    for (int i = 0; i < 6; i++)
        work[i].exchange = NULL;
    forget(work, 6);
}

/* Differences of candidate 7 to the unmodified network: 1, 3, 2 points. */
TEST(figures_over_seeds)
{
    kas_work work[] = {
        final(KAS_WORK_FINAL, 3, 0, 70, 2),          final(KAS_WORK_FINAL, 3, 1, 74, 4),
        final(KAS_WORK_FINAL, 3, 2, 90, 4),          final(KAS_WORK_FINAL, 7, 0, 61, 1),
        final(KAS_WORK_FINAL, 7, 1, 65, 1),          final(KAS_WORK_FINAL, 7, 2, 66, 1),
        final(KAS_WORK_FINAL_BASELINE, 0, 0, 60, 5), final(KAS_WORK_FINAL_BASELINE, 0, 1, 62, 5),
        final(KAS_WORK_FINAL_BASELINE, 0, 2, 64, 5)};
    kas_finalist list[KAS_FINALISTS_MOST + 1];
    work[2].state = KAS_WORK_DIVERGED; /* it only explores */
    assert_true(kas_finals_done(work, 9));
    assert_int_equal(kas_finals_of(work, 9, list), 3);
    assert_true(!list[0].answers && list[1].answers && !list[2].answers);
    assert_near(list[0].accuracy.mean, 0.62, 1e-12);
    assert_near(list[0].accuracy.spread, 0.02, 1e-12);
    assert_int_equal(list[0].pairs, 0);
    assert_int_equal(list[1].work->index, 7);
    assert_near(list[1].accuracy.mean, 0.64, 1e-12);
    assert_near(list[1].difference.mean, 0.02, 1e-12);
    assert_near(list[1].difference.low, 0.02 - 0.02484338, 1e-6);
    assert_near(list[1].difference.high, 0.02 + 0.02484338, 1e-6);
    assert_near(list[1].latency, 1, 0);
    assert_true(list[2].seeds == 2 && list[2].trainings == 3 && list[2].pairs == 2);
    assert_near(list[2].accuracy.mean, 0.72, 1e-12);
    assert_near(list[2].difference.mean, 0.11, 1e-12); /* 10 and 12 points */
    kas_buf text = {0};
    const kas_search_options o = looking_for(KAS_OBJECTIVE_ACCURACY, 1, 2);
    OK(kas_finals_text(&o, work, 9, &text));
    assert_non_null(strstr(kas_buf_text(&text), "answer: kernel kernel-7, the most accurate"));
    assert_null(strstr(kas_buf_text(&text), "best new kernel"));
    const char *answer = strstr(kas_buf_text(&text), "\nkernel-7");
    assert_non_null(answer);
    assert_non_null(strstr(answer, "+2.00"));
    assert_non_null(strstr(answer, "-0.48 to +4.48"));
    assert_non_null(strstr(answer, "0.20x"));
    assert_non_null(strstr(answer, "exploratory"));
    kas_buf_free(&text);
    work[4].state = KAS_WORK_RUNNING;
    assert_false(kas_finals_done(work, 9));
    work[4].state = KAS_WORK_FINISHED;
    work[2].state = KAS_WORK_RUNNING;
    assert_false(kas_finals_done(work, 9));
    forget(work, 9);
}

/* One seed: the interval is over the 100 images; 3 points lost have the error 1.7059. */
TEST(figures_of_one_seed)
{
    kas_work work[] = {final(KAS_WORK_FINAL, 7, 0, 57, 1),
                       final(KAS_WORK_FINAL_BASELINE, 0, 0, 60, 2)};
    kas_finalist list[KAS_FINALISTS_MOST + 1];
    assert_int_equal(kas_finals_of(work, 2, list), 2);
    assert_near(list[1].difference.mean, -0.03, 1e-12);
    assert_near(list[1].difference.low, -0.03 - 1.96 * 0.0170587, 1e-6);
    assert_near(list[1].difference.high, -0.03 + 1.96 * 0.0170587, 1e-6);
    assert_true(isnan(list[1].accuracy.spread));
    assert_ptr_equal(kas_finals_answer(work, 2), &work[0]);
    assert_true(isnan(list[0].ratio) && isnan(list[1].ratio));
    forget(work, 2);
    kas_work timed[] = {final(KAS_WORK_FINAL, 7, 0, 57, 1),
                        final(KAS_WORK_FINAL_BASELINE, 0, 0, 60, 2), in_turns(7, 0.6)};
    const kas_search_options o = looking_for(KAS_OBJECTIVE_ACCURACY, 1, 1);
    kas_buf text = {0};
    assert_int_equal(kas_finals_of(timed, 3, list), 2);
    assert_true(isnan(list[0].ratio) && list[1].ratio == 0.6);
    assert_true(kas_finals_done(timed, 3));
    OK(kas_finals_text(&o, timed, 3, &text));
    assert_non_null(strstr(kas_buf_text(&text), "0.60x (0.58 - 0.63)"));
    assert_non_null(strstr(kas_buf_text(&text), "timed in turns with it"));
    kas_buf_clear(&text);
    kas_finalist_json(&list[1], &text);
    assert_non_null(
        strstr(kas_buf_text(&text), "\"latency_ratio\": 0.6, \"latency_ratio_low\": 0.5"));
    kas_buf_free(&text);
    forget(timed, 3);
}

/* Where the answer is a known kernel, the best of the others is named too. */
TEST(the_best_new_kernel)
{
    kas_work work[] = {
        item(KAS_WORK_BASELINE, 0, 60, 60, 2),  item(KAS_WORK_CANDIDATE, 6, 55, 55, 1),
        item(KAS_WORK_CANDIDATE, 7, 60, 60, 1), item(KAS_WORK_CANDIDATE, 8, 57, 57, 0.5),
        final(KAS_WORK_FINAL, 7, 0, 57, 1),     final(KAS_WORK_FINAL_BASELINE, 0, 0, 60, 2)};
    strcpy(work[1].origin, "regrow");
    strcpy(work[2].origin, "known:group_conv");
    strcpy(work[3].origin, "graft");
    strcpy(work[4].origin, "known:group_conv");
    kas_search_options o = looking_for(KAS_OBJECTIVE_FRONTIER, 1, 1);
    kas_buf text = {0};
    OK(kas_finals_text(&o, work, 6, &text));
    assert_non_null(strstr(kas_buf_text(&text), "answer: kernel kernel-7 (known:group_conv), the "
                                                "fastest that loses less than 1 point against "
                                                "the unmodified network, the standard error "
                                                "included, on both halves"));
    assert_non_null(strstr(kas_buf_text(&text), "best new kernel: kernel-8 (graft), 57.00% of the "
                                                "images that select, 0.25x the latency"));
    kas_buf_clear(&text);
    work[1].measured.latency = work[3].measured.latency = 3;
    o.latency = 1; /* that of the unmodified network: 2 s */
    OK(kas_finals_text(&o, work, 6, &text));
    assert_null(strstr(kas_buf_text(&text), "best new kernel"));
    kas_buf_free(&text);
    forget(work, 6);
}

/* A kernel may be faster than the unmodified network, and not fast enough. */
TEST(the_answer_under_a_limit_of_the_latency)
{
    kas_work work[] = {
        item(KAS_WORK_BASELINE, 0, 60, 60, 2), item(KAS_WORK_CANDIDATE, 7, 55, 55, 0.6),
        item(KAS_WORK_CANDIDATE, 8, 60, 60, 1.6), final(KAS_WORK_FINAL, 7, 0, 57, 0.6),
        final(KAS_WORK_FINAL_BASELINE, 0, 0, 60, 2)};
    kas_search_options o = looking_for(KAS_OBJECTIVE_FRONTIER, 1, 1);
    kas_buf text = {0};
    o.latency = 0.4;
    OK(kas_finals_text(&o, work, 5, &text));
    assert_non_null(strstr(kas_buf_text(&text), "the most accurate; none is within --latency 0.4 "
                                                "and loses less than 1 point\n"));
    kas_buf_free(&text);
    forget(work, 5);
}

RUN_TESTS()
