/* Candidates that a program proposes: which lines of an answer are taken, how many, and that a
 * study that goes on gives the same list without asking again. A program is a list of answers. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/space/sample/sampler.h"
#include "host/strategy/strategy.h"
#include "host/study/problem.h"

enum { MOST = 64, GENERATIONS = 8 };

static kas_net *net;
static kas_target *target;
static int targets;

/* What the program says in each generation, and what was asked of it. */
typedef struct program {
    const char *text[GENERATIONS]; /* NULL: it has no answer */
    int asked[GENERATIONS];        /* answers that were not recorded before */
    int wanted[GENERATIONS];
    int64_t first[GENERATIONS];
    bool late; /* it is at work when it is asked for the first time */
    kas_buf notes;
} program;

typedef struct study {
    kas_work work[MOST];
    int count;
} study;

static int set_up(void **state)
{
    (void)state;
    const kas_search_options o = {.net = "resnet20", .network = ""};
    kas_log_set_level(KAS_LOG_QUIET);
    return kas_problem_targets(&o, 16, 16, 3, 10, &net, &target, &targets) != KAS_OK;
}

static int tear_down(void **state)
{
    (void)state;
    kas_net_free(net);
    free(target);
    return 0;
}

static kas_status answer(void *context, const kas_question *question, kas_answer *out, bool *ready)
{
    program *p = context;
    const int g = question->generation;
    assert_true(g < GENERATIONS);
    *ready = !p->late || p->asked[g];
    p->asked[g] += !question->recorded_only;
    p->wanted[g] = question->wanted;
    p->first[g] = question->first;
    if (*ready && p->text[g])
        *out = (kas_answer){strdup(p->text[g]), strdup(g == 1 ? "crashed" : "")};
    return KAS_OK;
}

static void note(void *context, const kas_question *question, const char *text, bool summary)
{
    program *p = context;
    (void)question;
    (void)summary;
    kas_buf_printf(&p->notes, "%s\n", text);
}

static kas_search_options in_generations(kas_strategy_kind strategy)
{
    kas_search_options o = kas_search_options_default();
    o.strategy = strategy;
    o.objective = KAS_OBJECTIVE_ACCURACY;
    o.seed = 3;
    o.generation = 6;
    if (strategy == KAS_STRATEGY_EVOLUTION)
        o.population = 6, o.tournament = 2;
    return o;
}

static void forget(study *s)
{
    for (int i = 0; i < s->count; i++)
        kas_work_clear(&s->work[i]);
    s->count = 0;
}

/* Walks from the first candidate to number `until`, and gives each new one a result. What the study
 * has must come again. */
static void walk(kas_strategy *strategy, study *s, int until)
{
    for (int k = 0; k < until; k++) {
        kas_work work;
        bool ready;
        OK(strategy->next(strategy->context, s->work, s->count, &work, &ready));
        if (!ready)
            OK(strategy->next(strategy->context, s->work, s->count, &work, &ready));
        assert_true(ready && k <= s->count && k < MOST);
        if (k < s->count) {
            assert_string_equal(work.name, s->work[k].name);
            assert_string_equal(work.origin, s->work[k].origin);
            assert_string_equal(work.kernel, s->work[k].kernel);
            assert_int_equal(work.generation, s->work[k].generation);
            kas_work_clear(&work);
            continue;
        }
        work.index = k;
        work.state = KAS_WORK_FINISHED;
        work.measured = kas_measured_unknown();
        work.measured.accuracy = (double)(strtoull(work.name, NULL, 16) % 10007) / 10007;
        s->work[s->count++] = work;
    }
}

/* `p` NULL: without a program. `said` gets what the strategy says at the end. */
static void open_and_walk(const kas_search_options *o, program *p, study *s, int until,
                          kas_buf *said)
{
    const kas_proposer proposer = {answer, note, p};
    kas_strategy strategy;
    OK(kas_strategy_open(o, target, targets, "", NULL, &strategy));
    if (p)
        OK(kas_strategy_take_proposals(&strategy, &proposer));
    walk(&strategy, s, until);
    if (said)
        kas_strategy_describe(&strategy, said);
    kas_strategy_close(&strategy);
}

/* Appends sampled kernels of another seed, one a line. */
static void add_samples(int from, int count, kas_buf *out)
{
    kas_search_options o = in_generations(KAS_STRATEGY_RANDOM);
    kas_sample_options options = o.sample;
    kas_sampler *sampler;
    options.seed = 99;
    options.budget = kas_search_budget(&o);
    OK(kas_sampler_create(&options, target, targets, &sampler));
    for (int i = 0; i < from + count; i++) {
        kas_sample one;
        kas_buf json = {0};
        OK(kas_sampler_next(sampler, 0, &one));
        OK(kas_sample_write_json(&one, &json));
        for (const char *at = kas_buf_text(&json); i >= from && *at; at++)
            kas_buf_add(out, *at == '\n' ? " " : at, 1);
        kas_buf_puts(out, i >= from ? "\n" : "");
        kas_buf_free(&json);
        kas_sample_free(&one);
    }
    kas_sampler_free(sampler);
}

static int proposed_in(const study *s, int generation)
{
    int proposed = 0;
    for (int i = 0; i < s->count; i++)
        proposed +=
            s->work[i].generation == generation && strcmp(s->work[i].origin, "proposed") == 0;
    return proposed;
}

TEST(half_of_a_generation)
{
    const kas_search_options o = in_generations(KAS_STRATEGY_RANDOM);
    kas_buf good = {0}, said = {0};
    study s = {.count = 0}, plain = {.count = 0};
    add_samples(0, 5, &good);
    program p = {.text = {kas_buf_text(&good), NULL, ""}, .late = true};
    open_and_walk(&o, NULL, &plain, 12, NULL);
    open_and_walk(&o, &p, &s, 18, &said);
    assert_int_equal(p.wanted[0], 3);
    assert_int_equal(p.first[0], 0);
    assert_int_equal(p.first[1], 6);
    for (int k = 0; k < 18; k++) {
        assert_string_equal(s.work[k].origin, k < 3 ? "proposed" : "sampled");
        assert_int_equal(s.work[k].attempt < 0, k < 3);
        assert_int_equal(s.work[k].generation, k / 6);
    }
    for (int k = 0; k < 12; k++) /* the strategy goes on where it is */
        assert_string_equal(s.work[k + 3].name, plain.work[k].name);
    assert_string_equal(kas_buf_text(&said),
                        "3 of 5 proposals taken; no kernel file: 0; not legal: 0; over budget: 0; "
                        "in the study already: 0; more than asked for: 2; answers: 2, of these "
                        "with a fault: 0");
    kas_buf_free(&good);
    kas_buf_free(&said);
    kas_buf_free(&p.notes);
    forget(&plain);
    forget(&s);
}

#define FILE_OF "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, "
#define CONV                                                                                       \
    FILE_OF                                                                                        \
    "{\"op\": \"unfold\", \"in\": [0], \"axes\": \"hw\"}, {\"op\": \"relu\", \"in\": [1]}, "       \
    "{\"op\": \"fc\", \"in\": [2], \"out\": \"C\"}"
#define GROUPED                                                                                    \
    FILE_OF "{\"op\": \"group\", \"in\": [0], \"dim\": 0, \"by\": \"G0\"}, {\"op\": \"unfold\", "  \
            "\"in\": [1], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [2], \"grouped\": true, "    \
            "\"out\": \"C\"}"

TEST(what_is_refused)
{
    kas_search_options o = in_generations(KAS_STRATEGY_RANDOM);
    kas_buf text = {0}, said = {0};
    study s = {.count = 0}, again = {.count = 0};
    kas_buf_puts(&text, "\n  \nI propose:\n{}\n{\"format\": \"kas-gpu kernel\"\n[1]\n\1\n");
    kas_buf_puts(&text, CONV "], \"groups\": {}}\n"); /* over the budget */
    kas_buf_puts(&text, GROUPED ", {\"op\": \"relu\", \"in\": [3]}, {\"op\": \"relu\", \"in\": "
                                "[4]}], \"groups\": {\"G0\": 4}}\n"); /* redundant */
    kas_buf_puts(&text, CONV "], \"groups\": {\"G0\": 4}}\n");        /* no node uses G0 */
    add_samples(7, 1, &text);
    add_samples(7, 1, &text); /* twice */
    program p = {.text = {"", kas_buf_text(&text)}};
    open_and_walk(&o, &p, &s, 12, &said);
    assert_string_equal(kas_buf_text(&said),
                        "1 of 10 proposals taken; no kernel file: 6; not legal: 1; over budget: 1; "
                        "in the study already: 1; more than asked for: 0; answers: 2, of these "
                        "with a fault: 1");
    assert_int_equal(proposed_in(&s, 1), 1);
    assert_non_null(strstr(kas_buf_text(&p.notes), "generation 1, line 10: "));
    assert_non_null(strstr(kas_buf_text(&p.notes), "line 3: no kernel file: "));
    assert_non_null(strstr(kas_buf_text(&p.notes), "line 8: over the budget: "));
    assert_non_null(
        strstr(kas_buf_text(&p.notes), "line 9: not a kernel of the sampler: redundant"));
    o.strategy = KAS_STRATEGY_EVOLUTION; /* which fills its generations otherwise */
    o.population = 6, o.tournament = 2;
    open_and_walk(&o, &p, &again, 12, NULL);
    assert_int_equal(proposed_in(&again, 1), 1);
    assert_string_equal(again.work[6].name, s.work[6].name);
    assert_string_not_equal(again.work[7].origin, "sampled");
    kas_buf_free(&text);
    kas_buf_free(&said);
    kas_buf_free(&p.notes);
    forget(&s);
    forget(&again);
}

/* Wherever a study is interrupted, it goes on with the same list; what it has is never asked for
 * again. Then it goes on without the program, which may come back. */
TEST(the_list_is_replayed)
{
    const kas_search_options o = in_generations(KAS_STRATEGY_EVOLUTION);
    kas_buf text[3] = {{0}};
    study s = {.count = 0}, again = {.count = 0};
    for (int i = 0; i < 3; i++)
        add_samples(10 * i, 2, &text[i]);
    program p = {.text = {kas_buf_text(&text[0]), kas_buf_text(&text[1])}};
    open_and_walk(&o, &p, &s, 12, NULL);
    assert_int_equal(proposed_in(&s, 0), 2);
    assert_int_equal(proposed_in(&s, 1), 2);
    for (int until = 1; until <= 12; until++)
        open_and_walk(&o, &p, &again, until, NULL);
    for (int k = 0; k < 12; k++)
        assert_string_equal(again.work[k].name, s.work[k].name);
    assert_int_equal(p.asked[0], 2); /* for each of the two studies once */
    assert_int_equal(p.asked[1], 2);
    p.text[2] = NULL; /* the program is left out in generation 2, and back in 3 */
    open_and_walk(&o, &p, &s, 15, NULL);
    p.text[2] = p.text[3] = kas_buf_text(&text[2]);
    open_and_walk(&o, &p, &s, 24, NULL);
    assert_int_equal(proposed_in(&s, 2), 0);
    assert_int_equal(proposed_in(&s, 3), 2);
    assert_int_equal(p.asked[2], 1);
    open_and_walk(&o, &p, &s, 24, NULL);
    for (int i = 0; i < 3; i++)
        kas_buf_free(&text[i]);
    kas_buf_free(&p.notes);
    forget(&s);
    forget(&again);
}

/* Known kernels come first; half of what they leave is asked for. */
TEST(known_kernels_leave_room)
{
    kas_search_options o = in_generations(KAS_STRATEGY_EVOLUTION);
    kas_buf good = {0};
    study s = {.count = 0};
    int known = 0;
    add_samples(0, 5, &good);
    program p = {.text = {kas_buf_text(&good), kas_buf_text(&good)}};
    o.known = true;
    open_and_walk(&o, &p, &s, 30, NULL);
    while (strncmp(s.work[known].origin, "known:", 6) == 0)
        known++;
    assert_true(known > o.population); /* generation 0 has all of them and nobody else */
    assert_int_equal(p.asked[0], 0);
    assert_int_equal(p.first[1], known);
    assert_int_equal(proposed_in(&s, 1), 3);
    forget(&s);
    o.population = known + 5;
    p.asked[1] = 0;
    open_and_walk(&o, &p, &s, 30, NULL);
    assert_int_equal(p.wanted[0], 3);
    assert_int_equal(p.first[0], known);
    assert_int_equal(proposed_in(&s, 0), 3);
    kas_buf_free(&good);
    kas_buf_free(&p.notes);
    forget(&s);
}

RUN_TESTS(set_up, tear_down)
