/* The legality check against the scores themselves: who is rejected, who is tolerated, what the reason says. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/search/legality.h"
#include "host/space/file/assignment.h"
#include "small_problem.h"

static kas_work judged(const kas_search_options *options, const kas_problem *p,
                       const kas_replacement *r)
{
    kas_legality *legality;
    kas_work work = {.state = KAS_WORK_QUEUED};
    OK(kas_legality_open(options, p, KAS_LEGALITY_BATCH, &legality));
    assert_non_null(legality);
    OK(kas_legality_judge(legality, r, &work));
    kas_legality_close(legality);
    return work;
}

static void place(const kas_problem *p, const char *name, kas_replacement *out)
{
    kas_assignment kernels;
    const char *text = kas_embedded_find(kas_embedded_kernels, name);
    assert_non_null(text);
    OK(kas_assignment_read_json(name, text, strlen(text), &kernels));
    OK(kas_assignment_fit(&kernels, p->target, p->targets, &(kas_budget){0}, out));
    kas_assignment_free(&kernels);
}

TEST(rejects_below_the_original)
{
    static const char *const names[] = {"conv", "nas_pte_1", "group_conv", "shift_conv"};
    kas_problem p;
    kas_search_options options = kas_search_options_default();
    int rejected = 0, accepted = 0;
    open_problem(&p);
    for (size_t i = 0; i < 3 * sizeof names / sizeof *names; i++) {
        options.seed = 1 + i / 4;
        const double original = potential(&p, KAS_LEGALITY_BATCH, options.seed, NULL);
        kas_replacement r;
        place(&p, names[i % 4], &r);
        const double found = potential(&p, KAS_LEGALITY_BATCH, options.seed, &r);
        snprintf(options.legality, sizeof options.legality, "fisher");
        const kas_work work = judged(&options, &p, &r);
        printf("%s: %.6g, original %.6g: %s\n", names[i % 4], found, original,
               kas_work_state_name(work.state));
        assert_int_equal(work.state, found < original ? KAS_WORK_LOW_SCORE : KAS_WORK_QUEUED);
        assert_true(kas_work_discarded(work.state) == (found < original));
        if (found < original) {
            assert_non_null(strstr(work.reason, "that of the unmodified network is"));
            /* Just above and just below what it lacks. */
            snprintf(options.legality, sizeof options.legality, "fisher:%.6f",
                     1 - found / original + 2e-6);
            assert_int_equal(judged(&options, &p, &r).state, KAS_WORK_QUEUED);
            snprintf(options.legality, sizeof options.legality, "fisher:%.6f",
                     1 - found / original - 2e-6);
            assert_int_equal(judged(&options, &p, &r).state, KAS_WORK_LOW_SCORE);
        }
        rejected += found < original;
        accepted += found >= original;
        kas_replacement_free(&r);
    }
    assert_true(rejected > 0 && accepted > 0);
    kas_problem_close(&p);
}

/* By another score: that of the unmodified network is 1. */
TEST(rejects_by_imitation)
{
    kas_problem p;
    kas_search_options options = kas_search_options_default();
    kas_legality *legality;
    kas_score_memory memory = {0};
    kas_replacement r;
    double found = 0;
    open_problem(&p);
    place(&p, "group_conv", &r);
    snprintf(options.legality, sizeof options.legality, "imitation");
    assert_int_equal(judged(&options, &p, &r).state, KAS_WORK_LOW_SCORE);
    OK(kas_legality_open(&options, &p, KAS_LEGALITY_BATCH, &legality));
    assert_true(kas_legality_original(legality) == 1);
    OK(kas_legality_score(legality, &r, &memory, &found));
    assert_true(found > 0.01 && found < 0.99);
    snprintf(options.legality, sizeof options.legality, "imitation:%.6f", 1 - found + 2e-6);
    assert_int_equal(judged(&options, &p, &r).state, KAS_WORK_QUEUED);
    snprintf(options.legality, sizeof options.legality, "imitation:%.6f", 1 - found - 2e-6);
    const kas_work work = judged(&options, &p, &r);
    assert_int_equal(work.state, KAS_WORK_LOW_SCORE);
    assert_non_null(strstr(work.reason, "score imitation 0."));
    kas_legality_close(legality);
    kas_score_memory_free(&memory);
    kas_replacement_free(&r);
    kas_problem_close(&p);
}

/* What was scored before is not scored again, but for another candidate. */
TEST(prepared_scores_are_used)
{
    kas_problem p;
    kas_search_options options = kas_search_options_default();
    kas_legality *legality;
    kas_replacement r, plain;
    open_problem(&p);
    place(&p, "group_conv", &r);
    place(&p, "conv", &plain);
    snprintf(options.legality, sizeof options.legality, "imitation");
    OK(kas_legality_open(&options, &p, KAS_LEGALITY_BATCH, &legality));
    kas_work first = {.name = "one"}, again = {.name = "one"}, other = {.name = "other"};
    OK(kas_legality_judge(legality, &r, &first));
    assert_int_equal(first.state, KAS_WORK_LOW_SCORE);
    OK(kas_legality_prepare(legality, "one", &r, 3, 5));
    OK(kas_legality_judge(legality, &plain, &again)); /* under the name of the other kernel */
    assert_string_equal(again.reason, first.reason);
    OK(kas_legality_judge(legality, &plain, &other));
    assert_string_not_equal(other.reason, first.reason);
    kas_legality_close(legality);
    kas_replacement_free(&r);
    kas_replacement_free(&plain);
    kas_problem_close(&p);
}

/* A kernel whose output overflows has no potential and is rejected, even where every potential is tolerated; a network of
 * which that is true cannot be compared with. */
TEST(not_finite_is_rejected)
{
    kas_problem p;
    kas_search_options options = kas_search_options_default();
    kas_legality *legality;
    kas_score_memory memory = {0};
    kas_replacement r;
    float gain[KAS_TARGETS_MAX];
    double found = 0;
    open_problem(&p);
    place(&p, "conv", &r);
    snprintf(options.legality, sizeof options.legality, "fisher:1");
    assert_int_equal(judged(&options, &p, &r).state, KAS_WORK_QUEUED);
    for (int t = 0; t < p.targets; t++)
        gain[t] = t == 3 ? 1e38F : 1;
    OK(kas_replacement_set_gains(&r, gain));
    const kas_work work = judged(&options, &p, &r);
    assert_int_equal(work.state, KAS_WORK_LOW_SCORE);
    assert_non_null(strstr(work.reason, "is not finite"));
    OK(kas_legality_open(&options, &p, KAS_LEGALITY_BATCH, &legality));
    OK(kas_legality_score(legality, &r, &memory, &found));
    assert_true(isnan(found));
    kas_legality_close(legality);
    kas_score_memory_free(&memory);
    p.dataset->std[0] = 0; /* every pixel divided by it is infinite */
    assert_int_equal(kas_legality_open(&options, &p, KAS_LEGALITY_BATCH, &legality), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "the unmodified network is not finite"));
    kas_replacement_free(&r);
    kas_problem_close(&p);
}

/* Two forms of a kernel, two of another one of as many weights, and two of one with a free size, which the
 * budget decides. */
static const char *const forms[] = {
    "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, {\"op\": "
    "\"fc\", \"in\": [0], \"out\": \"1/2*C\"},"
    "{\"op\": \"unfold\", \"in\": [1], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [2], \"out\": "
    "\"C\"}, {\"op\": \"sub\", \"in\": [0, 3]}], \"groups\": {}}",
    "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, {\"op\": "
    "\"fc\", \"in\": [0], \"out\": \"C/G0\"},"
    "{\"op\": \"unfold\", \"in\": [1], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [2], \"out\": "
    "\"C\"}, {\"op\": \"sub\", \"in\": [0, 3]}], \"groups\": {\"G0\": 2}}",
    "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, {\"op\": "
    "\"fc\", \"in\": [0], \"out\": \"1/2*C\"},"
    "{\"op\": \"unfold\", \"in\": [1], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [2], \"out\": "
    "\"C\"}, {\"op\": \"sub\", \"in\": [0, 3]},"
    "{\"op\": \"sub\", \"in\": [0, 4]}], \"groups\": {}}",
    "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, {\"op\": "
    "\"fc\", \"in\": [0], \"out\": \"1/2*C\"},"
    "{\"op\": \"unfold\", \"in\": [1], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [2], \"out\": "
    "\"C\"}], \"groups\": {}}",
    "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, {\"op\": "
    "\"fc\", \"in\": [0], \"out\": \"x0\"},"
    "{\"op\": \"unfold\", \"in\": [1], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [2], \"out\": "
    "\"C\"}], \"groups\": {}}",
    "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, {\"op\": "
    "\"fc\", \"in\": [0], \"out\": \"x0\"},"
    "{\"op\": \"unfold\", \"in\": [1], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [2], \"out\": "
    "\"C\"}, {\"op\": \"sub\", \"in\": [0, 3]},"
    "{\"op\": \"sub\", \"in\": [0, 4]}], \"groups\": {}}"};

/* What becomes of a form behind those that were judged or, where the store has them, remembered. */
static kas_work judge_form(kas_legality *l, const kas_search_options *options, const kas_problem *p,
                           int form, bool stored)
{
    kas_assignment kernels;
    kas_replacement r;
    kas_work work = {.state = KAS_WORK_QUEUED};
    OK(kas_assignment_read_json("form", forms[form], strlen(forms[form]), &kernels));
    OK(kas_assignment_name(&kernels, work.name));
    const kas_budget budget = kas_search_budget(options);
    OK(kas_assignment_fit(&kernels, p->target, p->targets, &budget, &r));
    kas_assignment_free(&kernels);
    work.params = r.solution.params;
    work.kernel = (char *)(uintptr_t)forms[form];
    OK(stored ? kas_legality_remember(l, &work) : kas_legality_judge(l, &r, &work));
    kas_replacement_free(&r);
    return work;
}

/* A copy is rejected, also one of a candidate that an earlier process judged. */
TEST(rejects_copies)
{
    kas_problem p;
    kas_search_options options = kas_search_options_default();
    kas_legality *legality;
    open_problem(&p);
    snprintf(options.legality, sizeof options.legality, "imitation:1");
    options.strategy = KAS_STRATEGY_EVOLUTION;
    options.flops = 0.7;
    options.params = 0.7;
    for (int stored = 0; stored < 2; stored++) {
        OK(kas_legality_open(&options, &p, KAS_LEGALITY_BATCH, &legality));
        for (int form = 0; form < 6; form += 2) {
            const kas_work first = judge_form(legality, &options, &p, form, stored);
            const kas_work copy = judge_form(legality, &options, &p, form + 1, false);
            assert_int_equal(first.state, KAS_WORK_QUEUED);
            assert_int_equal(copy.state, KAS_WORK_LOW_SCORE);
            assert_non_null(strstr(copy.reason, first.name));
            assert_string_not_equal(copy.name, first.name);
        }
        kas_legality_close(legality);
    }
    kas_problem_close(&p);
}

TEST(is_asked_for)
{
    kas_problem p;
    kas_search_options options = kas_search_options_default();
    kas_legality *legality;
    double tolerance;
    int score;
    open_problem(&p);
    OK(kas_legality_open(&options, &p, KAS_LEGALITY_BATCH, &legality));
    assert_null(legality);
    OK(kas_legality_parse("fisher", &score, &tolerance));
    assert_true(tolerance == 0);
    OK(kas_legality_parse("fisher:0.25", &score, &tolerance));
    assert_true(tolerance == 0.25 && score == KAS_SCORE_FISHER);
    OK(kas_legality_parse("imitation:0.9", &score, &tolerance));
    assert_true(tolerance == 0.9 && score == KAS_SCORE_IMITATION);
    static const char *const wrong[] = {"fish",        "fisher:",    "fisher:2", "fisher:-0.1",
                                        "fisher:0.1x", "fisher:nan", "snip"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(kas_legality_parse(wrong[i], &score, &tolerance), KAS_USAGE);
        assert_non_null(strstr(kas_error(), wrong[i]));
    }
    /* The images of all classes but one are left out. */
    memset(p.dataset->train.labels, 0, sizeof *p.dataset->train.labels * IMAGES);
    snprintf(options.legality, sizeof options.legality, "fisher");
    assert_int_equal(kas_legality_open(&options, &p, KAS_LEGALITY_BATCH, &legality), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "of class 0"));
    kas_problem_close(&p);
}

RUN_TESTS()
