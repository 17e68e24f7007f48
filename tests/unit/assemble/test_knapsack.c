/* The frontier of choices: a table worked out by hand, every limit against all combinations, and
 * the bound on what thinning loses. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/assemble/knapsack.h"
#include "host/core/random.h"

/* Two layers. Sums by hand: (0,0) 0/0; (0,1) -2/1; (1,0) -3/2; (1,1) -5/3; (2,0) -4/9; (2,1) -6/10.
 * The last layer has no third option. -4/9 is beaten by -5/3. */
TEST(a_table_by_hand)
{
    const kas_option option[] = {{.cost = 0}, {.cost = -3, .loss = 2}, {.cost = -4, .loss = 9},
                                 {.cost = 0}, {.cost = -2, .loss = 1}, {.cost = NAN}};
    const kas_frontier_point expected[] = {{-6, 10}, {-5, 3}, {-3, 2}, {-2, 1}, {0, 0}};
    kas_frontier f;
    int chosen[2];
    OK(kas_frontier_find(option, 2, 3, NULL, KAS_FRONTIER_MOST, &f));
    assert_int_equal(f.points, 5);
    for (int i = 0; i < 5; i++) {
        assert_true(f.point[i].cost == expected[i].cost);
        assert_true(f.point[i].loss == expected[i].loss);
    }
    assert_true(f.gap == 0);
    assert_int_equal(kas_frontier_within(&f, -6.5), -1);
    assert_int_equal(kas_frontier_within(&f, -4), 1);
    kas_frontier_choice(&f, 1, chosen);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 1);
    kas_frontier_choice(&f, 0, chosen);
    assert_int_equal(chosen[0], 2);
    assert_int_equal(chosen[1], 1);
    kas_frontier_free(&f);
}

TEST(a_layer_without_an_option)
{
    const kas_option option[] = {{.cost = 0},
                                 {.cost = NAN, .loss = 1},
                                 {.cost = 1, .loss = INFINITY},
                                 {.cost = NAN, .loss = NAN}};
    kas_frontier f;
    assert_int_equal(kas_frontier_find(option, 2, 2, NULL, KAS_FRONTIER_MOST, &f),
                     KAS_NOTHING_VALID);
}

enum { LAYERS = 6, OPTIONS = 4, ALL = 4096 /* OPTIONS ^ LAYERS */ };

static void draw(kas_option option[LAYERS * OPTIONS], uint64_t seed)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 0);
    for (int i = 0; i < LAYERS * OPTIONS; i++) {
        option[i] = (kas_option){2 * kas_rng_unit(&rng) - 1, 2 * kas_rng_unit(&rng) - 0.5, {0}};
        if (i % OPTIONS && kas_rng_unit(&rng) < 0.1)
            option[i].loss = NAN;
        if (kas_rng_unit(&rng) < 0.2) /* equal costs and losses */
            option[i] = (kas_option){0.25, 0.5, {0}};
        option[i].further[0] = floor(10 * kas_rng_unit(&rng)); /* as parameters: whole numbers */
        option[i].further[1] = floor(10 * kas_rng_unit(&rng));
    }
}

/* Sums in the order of layers, as the frontier does. */
static kas_option combination(const kas_option option[LAYERS * OPTIONS], int number)
{
    kas_option sum = {.cost = 0};
    for (int l = 0; l < LAYERS; l++, number /= OPTIONS) {
        sum.cost += option[l * OPTIONS + number % OPTIONS].cost;
        sum.loss += option[l * OPTIONS + number % OPTIONS].loss;
        for (int f = 0; f < KAS_FRONTIER_FURTHER; f++)
            sum.further[f] += option[l * OPTIONS + number % OPTIONS].further[f];
    }
    return sum;
}

static double least_loss(const kas_option option[LAYERS * OPTIONS], double limit,
                         const double *further)
{
    double least = INFINITY;
    for (int i = 0; i < ALL; i++) {
        const kas_option sum = combination(option, i);
        const bool within =
            !further || (sum.further[0] <= further[0] && sum.further[1] <= further[1]);
        if (within && sum.cost <= limit && sum.loss < least)
            least = sum.loss;
    }
    return least;
}

static void check_choice(const kas_frontier *f, const kas_option *option, int point)
{
    int chosen[LAYERS];
    kas_option sum = {.cost = 0};
    kas_frontier_choice(f, point, chosen);
    for (int l = 0; l < LAYERS; l++) {
        sum.cost += option[l * OPTIONS + chosen[l]].cost;
        sum.loss += option[l * OPTIONS + chosen[l]].loss;
    }
    assert_true(sum.cost == f->point[point].cost && sum.loss == f->point[point].loss);
}

TEST(every_limit_against_all_combinations)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        kas_option option[LAYERS * OPTIONS];
        kas_frontier f;
        draw(option, seed);
        OK(kas_frontier_find(option, LAYERS, OPTIONS, NULL, KAS_FRONTIER_MOST, &f));
        for (int i = 0; i < f.points; i++)
            check_choice(&f, option, i);
        for (double limit = -6.1; limit < 6.1; limit += 0.05) {
            const int i = kas_frontier_within(&f, limit);
            assert_true((i < 0 ? INFINITY : f.point[i].loss) == least_loss(option, limit, NULL));
        }
        kas_frontier_free(&f);
    }
}

/* Further costs within limits that few combinations keep, and within limits that none keeps. Thinned,
 * the frontier still has a choice that keeps them. */
TEST(further_limits_against_all_combinations)
{
    const double further[] = {24, 26}, none[] = {-1, 60};
    int thinned = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        kas_option option[LAYERS * OPTIONS];
        kas_frontier f;
        draw(option, seed);
        OK(kas_frontier_find(option, LAYERS, OPTIONS, further, KAS_FRONTIER_MOST, &f));
        assert_true(f.gap == 0);
        for (int i = 0; i < f.points; i++)
            check_choice(&f, option, i);
        for (double limit = -6.1; limit < 6.1; limit += 0.05) {
            const int i = kas_frontier_within(&f, limit);
            assert_true((i < 0 ? INFINITY : f.point[i].loss) == least_loss(option, limit, further));
        }
        kas_frontier_free(&f);
        assert_int_equal(kas_frontier_find(option, LAYERS, OPTIONS, none, KAS_FRONTIER_MOST, &f),
                         KAS_OVER_BUDGET);
        assert_true(f.gap == 0);
        OK(kas_frontier_find(option, LAYERS, OPTIONS, further, 20, &f));
        assert_true(f.points > 0);
        thinned += isinf(f.gap);
        kas_frontier_free(&f);
    }
    assert_true(thinned > 0);
}

enum { DEEP = 20, WIDE = 6 };

/* Draws kernels that have few of one further cost where they have many of the other, and limits that
 * are `slack` above the sums of the most balanced options. */
static void draw_opposed(kas_option option[DEEP * WIDE], uint64_t seed, double slack,
                         double limit[KAS_FRONTIER_FURTHER])
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 1);
    limit[0] = limit[1] = 0;
    for (int l = 0; l < DEEP; l++) {
        const double params = 1000 + floor(19000 * kas_rng_unit(&rng)), flops = 256 * params;
        int balanced = l * WIDE;
        option[balanced] = (kas_option){.further = {flops, params}};
        for (int k = l * WIDE + 1; k < (l + 1) * WIDE; k++) {
            const double share = 0.1 + 0.5 * kas_rng_unit(&rng);
            option[k].cost = -kas_rng_unit(&rng);
            option[k].loss = kas_rng_unit(&rng);
            option[k].further[0] = floor(flops * share);
            option[k].further[1] = floor(params * 0.06 / share);
            if (option[k].further[0] / 256 + option[k].further[1] <
                option[balanced].further[0] / 256 + option[balanced].further[1])
                balanced = k;
        }
        limit[0] += option[balanced].further[0];
        limit[1] += option[balanced].further[1];
    }
    limit[0] *= 1 + slack;
    limit[1] *= 1 + slack;
}

/* Only choices that are balanced in both further costs are within the limits, and thinning keeps
 * some. Where far too few choices are kept none is found, and the gap says that it may be so. */
TEST(thinning_keeps_balanced_choices)
{
    int missed = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        kas_option option[DEEP * WIDE];
        double limit[KAS_FRONTIER_FURTHER];
        kas_frontier f;
        draw_opposed(option, seed, 0.02, limit);
        OK(kas_frontier_find(option, DEEP, WIDE, limit, 400, &f));
        assert_true(f.points > 0 && isinf(f.gap));
        kas_frontier_free(&f);
        draw_opposed(option, seed, 0, limit);
        if (kas_frontier_find(option, DEEP, WIDE, limit, 9, &f) == KAS_OVER_BUDGET) {
            assert_true(isinf(f.gap));
            missed++;
        }
        kas_frontier_free(&f);
    }
    assert_true(missed > 0);
}

TEST(thinning_keeps_its_bound)
{
    double most = 0, bound = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        kas_option option[LAYERS * OPTIONS];
        kas_frontier f;
        draw(option, seed);
        OK(kas_frontier_find(option, LAYERS, OPTIONS, NULL, 6, &f));
        assert_true(f.points <= 6);
        for (double limit = -6.1; limit < 6.1; limit += 0.05) {
            const double least = least_loss(option, limit, NULL);
            const int i = kas_frontier_within(&f, limit);
            assert_true((i < 0) == (least == INFINITY));
            if (i >= 0)
                most = fmax(most, (f.point[i].loss - least) / f.gap);
        }
        bound = fmax(bound, f.gap);
        kas_frontier_free(&f);
    }
    printf("largest loss beyond the least: %.3f of the bound; largest bound %.3f\n", most, bound);
    assert_true(bound > 0 && most > 0 && most <= 1);
}

RUN_TESTS()
