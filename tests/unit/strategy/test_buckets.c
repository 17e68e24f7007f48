/* Proposals that are compared before one of them is trained: against a list without such a choice. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "walk.h"

enum { EACH = 4 };

static uint64_t number_of(const char *name)
{
    return strtoull(name, NULL, 16);
}

/* Every fourth is slow, as if predicted. */
static kas_status judge(void *context, const kas_replacement *replacement, kas_work *work)
{
    (void)context, (void)replacement;
    if (number_of(work->name) % 4 == 0) {
        work->state = KAS_WORK_PREDICTED_SLOW;
        snprintf(work->reason, sizeof work->reason, "slow");
    }
    return KAS_OK;
}

/* Numbers that only the name decides, the later ones with many that are equal; every third name has none of the first. */
static double score_of(const char *name, int s)
{
    const uint64_t number = number_of(name);
    return s == 0 && number / 4 % 3 == 0 ? NAN : (double)(number / (s * 77 + 1) % (s ? 3 : 1009));
}

typedef struct scoring {
    int scores, scored;
} scoring;

static kas_status score(void *context, const kas_replacement *replacement, double *out)
{
    scoring *c = context;
    char name[KAS_NAME_SIZE];
    c->scored++;
    OK(kas_canonical_name(replacement->kernel, name));
    for (int s = 0; s < c->scores; s++)
        out[s] = score_of(name, s);
    return KAS_OK;
}

static kas_forecast forecast_of(scoring *c)
{
    return (kas_forecast){.judge = judge,
                          .context = c,
                          .score = score,
                          .proposals = EACH,
                          .scores = c->scores,
                          .score_name = "test"};
}

static int bucket_of(const kas_work *w)
{
    return (int)floor(log(w->flops / w->conv_flops) / log(sqrt(2)));
}

static bool has_scores(const study *plain, int k)
{
    return !isnan(score_of(plain->work[k].name, 0));
}

/* Twice the rank of a member among those with scores: 2 for each that is smaller, 1 for each that is equal. */
static int rank_of(const study *plain, const int *member, int i, int s)
{
    int rank = 1;
    for (int j = 0; j < EACH; j++) {
        const double mine = score_of(plain->work[member[i]].name, s),
                     other = score_of(plain->work[member[j]].name, s);
        if (has_scores(plain, member[j]))
            rank += 2 * (other < mine) + (other == mine);
    }
    return rank;
}

/* The member with the largest product of ranks. */
static int best_of(const study *plain, const int *member, int scores)
{
    int best = 0;
    long largest = 0;
    for (int i = 0; i < EACH; i++) {
        long product = has_scores(plain, member[i]);
        for (int s = 0; s < scores; s++)
            product *= rank_of(plain, member, i, s);
        if (product > largest) {
            largest = product;
            best = i;
        }
    }
    return best;
}

/* Puts the candidates of a list without a choice into the order that they have with one. *at and state [count]:
 * numbers in the list, and whether they are prefiltered. Returns how many. */
static int expected(const study *plain, int scores, int *at, bool *dismissed)
{
    int count = 0, bucket[64][EACH], held[64] = {0};
    for (int k = 0; k < plain->count; k++) {
        const kas_work *w = &plain->work[k];
        const int b = bucket_of(w) + 48;
        assert_in_range(b, 0, 63);
        if (w->state == KAS_WORK_PREDICTED_SLOW) {
            dismissed[count] = false;
            at[count++] = k;
            continue;
        }
        bucket[b][held[b]++] = k;
        if (held[b] < EACH)
            continue;
        const int best = best_of(plain, bucket[b], scores);
        for (int i = 0; i < EACH; i++) {
            dismissed[count] = i != best;
            at[count++] = bucket[b][i];
        }
        held[b] = 0;
    }
    return count;
}

static void trains_the_best_of_each_bucket(int scores)
{
    const kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    kas_forecast plain_forecast = {.judge = judge};
    study plain = {.count = 0}, s = {.count = 0};
    scoring c = {.scores = scores};
    int trained = 0, at[MOST];
    bool dismissed[MOST];
    open_and_walk(&o, &plain_forecast, &plain, 100);
    const int count = expected(&plain, scores, at, dismissed);
    assert_in_range(count, 40, 100);
    const kas_forecast forecast = forecast_of(&c);
    open_and_walk(&o, &forecast, &s, count);
    for (int k = 0; k < count; k++) {
        const kas_work *w = &s.work[k], *p = &plain.work[at[k]];
        assert_string_equal(w->name, p->name);
        assert_string_equal(w->kernel, p->kernel);
        assert_int_equal(w->state, dismissed[k] ? KAS_WORK_PREFILTERED : p->state);
        assert_true(kas_work_discarded(w->state) == (w->reason[0] != 0));
        if (dismissed[k] && !strstr(w->reason, has_scores(&plain, at[k]) ? "test " : "no score"))
            fail_msg("%s, score %g: %s", w->name, score_of(w->name, 0), w->reason);
        trained += !kas_work_discarded(w->state);
    }
    print_message("%d candidates, %d trained, %d scored\n", count, trained, c.scored);
    assert_true(trained > 8 && c.scored >= EACH * trained);
    forget(&plain);
    forget(&s);
}

TEST_WITH(the_best_of_each_bucket, set_up, tear_down)
{
    trains_the_best_of_each_bucket(1);
}

/* Several scores are compared by their ranks in the bucket. */
TEST_WITH(the_best_ranks_of_each_bucket, set_up, tear_down)
{
    trains_the_best_of_each_bucket(KAS_BUCKET_SCORES);
}

/* A run that goes on anywhere, also within a bucket, gives the same list, and scores only what the study does not have.
 * What the study has decided stands. */
TEST_WITH(goes_on_anywhere, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    scoring c = {.scores = KAS_BUCKET_SCORES};
    study s = {.count = 0}, whole = {.count = 0};
    kas_forecast forecast = forecast_of(&c);
    open_and_walk(&o, &forecast, &whole, 100);
    const int first = c.scored;
    for (int until = 1; until <= 100; until++)
        open_and_walk(&o, &forecast, &s, until);
    for (int k = 0; k < 100; k++) {
        assert_string_equal(s.work[k].name, whole.work[k].name);
        assert_int_equal(s.work[k].state, whole.work[k].state);
        assert_int_equal(s.work[k].generation, whole.work[k].generation);
    }
    c.scored = 0;
    open_and_walk(&o, &forecast, &s, 100); /* the study has all but those that still wait */
    assert_true(c.scored < first / 2);
    int trained = 0;
    for (int k = 0; k < 100; k++) {
        const bool discarded = kas_work_discarded(s.work[k].state);
        if (!discarded)
            assert_int_equal(s.work[k].generation, trained < 12 ? 0 : 1 + (trained - 12) / 4);
        trained += !discarded;
    }
    assert_true(trained > 12);
    forget(&s);
    forget(&whole);
}

TEST_WITH(known_kernels_are_not_compared, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    scoring c = {.scores = 1};
    study s = {.count = 0};
    const kas_forecast forecast = forecast_of(&c);
    o.known = true;
    open_and_walk(&o, &forecast, &s, 40);
    for (int k = 0; k < 40; k++)
        if (strncmp(s.work[k].origin, "known:", 6) == 0)
            assert_int_not_equal(s.work[k].state, KAS_WORK_PREFILTERED);
    assert_true(known_in(&s) >= 10);
    forget(&s);
}

RUN_TESTS()
