/* The strategy tree: 5,000 of its candidates before the sampler's rules and before the checker that
 * was written a second time; that a walk from the start gives the same candidates again; what it
 * learns from results, from known kernels and from what prediction discards. */
#include "walk.h"

#include <math.h>
#include <stdio.h>

#include "host/check/recheck.h"
#include "host/core/embedded.h"
#include "host/score/correct.h"
#include "host/space/commute.h"
#include "host/space/file/assignment.h"
#include "host/space/sample/beginning.h"
#include "host/space/sample/sampler.h"
#include "host/strategy/kernel_tree.h"
#include "host/strategy/select.h"
#include "support/accept.h"
#include "support/sanitized.h"

/* ---- beginnings ------------------------------------------------------------------------------ */

static kas_sample_options sample_options(void)
{
    const kas_search_options o = options_of(KAS_STRATEGY_TREE);
    kas_sample_options sample = o.sample;
    sample.seed = o.seed;
    sample.budget = kas_search_budget(&o);
    return sample;
}

/* Follows a kernel through new beginnings, at most for so many choices, and returns the number of
 * choices, which is also that of the beginning: two make a primitive. */
static int follow(kas_beginnings *b, const kas_kernel *kernel, int most)
{
    int at = 0, choice;
    while (most-- > 0 && (choice = kas_beginnings_choice_of(b, at, kernel)) >= 0)
        OK(kas_beginnings_extend(b, at, choice, &at));
    return at;
}

static kas_beginnings *new_beginnings(void)
{
    const kas_sample_options o = sample_options();
    kas_beginnings *b;
    OK(kas_beginnings_create(&o, target, targets, &b));
    return b;
}

static kas_kernel read_known(const char *name)
{
    const char *text = kas_embedded_find(kas_embedded_kernels, name);
    kas_assignment kernels;
    assert_non_null(text);
    OK(kas_assignment_read_json(name, text, strlen(text), &kernels));
    kas_kernel kernel = kernels.kernel[0];
    kas_assignment_free(&kernels);
    OK(kas_kernel_canonicalize_unordered(&kernel, &kernel));
    return kernel;
}

/* Kernels that a sample could be are found to the end; of the others the part that a sample could
 * begin with. */
TEST_WITH(known_kernels_have_a_way, set_up, tear_down)
{
    static const struct {
        const char *name;
        bool whole;
    } known[] = {{"group_conv", true}, {"depthwise_separable", true},
                 {"bottleneck", true}, {"squeeze_excite", true},
                 {"residual", true},   {"shift_conv", false},
                 {"nas_pte_3", false}, {"canvas_kernel_a", false}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const kas_kernel kernel = read_known(known[i].name);
        kas_beginnings *b = new_beginnings();
        const int end = follow(b, &kernel, 1000) / 2;
        print_message("%s: %d of %d primitives\n", known[i].name, end, kernel.nodes - 1);
        if (known[i].whole)
            assert_int_equal(end, kernel.nodes - 1);
        else
            assert_in_range(end, 1, kernel.nodes - 1);
        kas_beginnings_free(b);
    }
}

/* Nearly every sample has a way of its own, in the order of its nodes; and what is attempted from a
 * beginning has it, whoever attempts it. */
TEST_WITH(samples_have_a_way, set_up, tear_down)
{
    enum { SAMPLES = FEWER_IF_SANITIZED(200), ATTEMPTS = 6 };
    const kas_sample_options o = sample_options();
    kas_sampler *sampler;
    int whole = 0, made = 0;
    OK(kas_sampler_create(&o, target, targets, &sampler));
    for (int i = 0; i < SAMPLES; i++) {
        kas_beginnings *b = new_beginnings(), *again = new_beginnings();
        kas_sample s;
        OK(kas_sampler_next(sampler, 0, &s));
        const kas_kernel *kernel = s.replacement.kernel;
        whole += follow(b, kernel, 1000) / 2 == kernel->nodes - 1;
        const int choices = 1 + i % 6;
        const int at = follow(again, kernel, choices);
        uint64_t begun[2 * KAS_MAX_NODES], keys[2 * KAS_MAX_NODES];
        kas_beginnings_keys(kernel, begun);
        for (int k = 0; k < ATTEMPTS; k++) {
            kas_replacement r;
            kas_attempt how;
            OK(kas_beginnings_attempt(again, at, (uint64_t)k, &r, &how));
            if (how.why != KAS_REJECT_NONE)
                continue;
            made++;
            int count = kas_beginnings_keys(r.kernel, keys);
            for (int c = 0; c < at; c++) {
                int place = 0;
                while (place < count && keys[place] != begun[c])
                    place++;
                if (place == count)
                    fail_msg("sample %d: key %d of %d is not in kernel %d", i, c, at, k);
                keys[place] = keys[--count];
            }
            kas_replacement_free(&r);
        }
        kas_beginnings_free(again);
        kas_beginnings_free(b);
        kas_sample_free(&s);
    }
    kas_sampler_free(sampler);
    print_message("%d of %d samples have a way to the end; %d of %d attempts gave a kernel\n",
                  whole, SAMPLES, made, SAMPLES * ATTEMPTS);
    assert_true(whole >= SAMPLES / 2);
    assert_true(made >= SAMPLES * ATTEMPTS / 2);
}

TEST_WITH(attempts_are_pure, set_up, tear_down)
{
    const kas_kernel kernel = read_known("group_conv");
    kas_beginnings *one = new_beginnings(), *other = new_beginnings();
    kas_replacement r[2];
    kas_attempt how[2];
    const int a = follow(one, &kernel, 3), b = follow(other, &kernel, 3);
    for (uint64_t k = 0; k < 20; k++) { /* others before it */
        OK(kas_beginnings_attempt(other, 0, k, &r[1], &how[1]));
        if (how[1].why == KAS_REJECT_NONE)
            kas_replacement_free(&r[1]);
    }
    int made = 0;
    for (uint64_t k = 0; k < 20; k++) {
        OK(kas_beginnings_attempt(one, a, k, &r[0], &how[0]));
        OK(kas_beginnings_attempt(other, b, k, &r[1], &how[1]));
        assert_int_equal(how[0].why, how[1].why);
        if (how[0].why != KAS_REJECT_NONE)
            continue;
        char name[2][KAS_NAME_SIZE];
        for (int i = 0; i < 2; i++) {
            OK(kas_canonical_name(r[i].kernel, name[i]));
            kas_replacement_free(&r[i]);
        }
        assert_string_equal(name[0], name[1]);
        made++;
    }
    assert_true(made >= 10);
    kas_beginnings_free(one);
    kas_beginnings_free(other);
}

/* ---- candidates ------------------------------------------------------------------------------ */

static kas_kernel kernel_of(const kas_work *w)
{
    kas_assignment kernels;
    OK(kas_assignment_read_json(w->name, w->kernel, strlen(w->kernel), &kernels));
    kas_kernel kernel = kernels.kernel[0];
    kas_assignment_free(&kernels);
    OK(kas_kernel_infer(&kernel));
    return kernel;
}

/* The more group numbers and windows, the better: something to be learned. */
static double merit(const kas_work *w)
{
    const kas_kernel kernel = kernel_of(w);
    double good = 0;
    for (int i = 1; i < kernel.nodes; i++)
        good += kernel.node[i].op == KAS_OP_GROUP || kernel.node[i].op == KAS_OP_UNFOLD;
    return good / kernel.nodes;
}

/* Operands that commute are in their one order. */
static void assert_has_its_name(const kas_kernel *kernel, const char *expected)
{
    kas_kernel form;
    char name[KAS_NAME_SIZE];
    OK(kas_kernel_canonicalize_unordered(kernel, &form));
    OK(kas_canonical_name(&form, name));
    assert_string_equal(name, expected);
}

TEST_WITH(thousands_are_legal, set_up, tear_down)
{
    enum { CANDIDATES = FEWER_IF_SANITIZED(5000) };
    kas_search_options o = options_of(KAS_STRATEGY_TREE);
    kas_sample_options sample = sample_options();
    kas_work *work = calloc(CANDIDATES, sizeof *work);
    kas_recheck *recheck;
    kas_recheck_report report;
    kas_strategy strategy;
    kas_buf told = {0};
    double early = 0, late = 0;
    int grown = 0;
    assert_non_null(work);
    o.generation = 100;
    o.known = true;
    OK(kas_recheck_create(target, targets, &sample, &recheck));
    OK(kas_strategy_open(&o, target, targets, "", NULL, &strategy));
    for (int k = 0; k < CANDIDATES; k++) {
        kas_replacement r;
        bool ready;
        OK(strategy.next(strategy.context, work, k, &work[k], &ready));
        assert_true(ready);
        work[k].measured = kas_measured_unknown();
        work[k].measured.accuracy = merit(&work[k]);
        work[k].state = k % 11 ? KAS_WORK_FINISHED : KAS_WORK_SCREENED;
        grown += strcmp(work[k].origin, "tree") == 0;
        early += k >= 100 && k < 600 ? work[k].measured.accuracy : 0;
        late += k >= CANDIDATES - 500 ? work[k].measured.accuracy : 0;
        OK(kas_problem_place(&o, work[k].name, work[k].kernel, NULL, target, targets, &r));
        assert_true(work[k].flops <= o.flops * work[k].conv_flops);
        assert_true(work[k].params <= o.params * work[k].conv_params);
        assert_has_its_name(r.kernel, work[k].name);
        if (strncmp(work[k].origin, "known:", 6) != 0)
            OK(kas_recheck_add(recheck, work[k].name, r.kernel, &r.solution));
        if (strcmp(work[k].origin, "tree") == 0 && k % 25 == 0 &&
            kas_sampler_accepts(r.kernel, target, targets, &sample, &told) != KAS_OK)
            fail_msg("candidate %d: %s", k, kas_buf_text(&told));
        kas_replacement_free(&r);
    }
    kas_strategy_describe(&strategy, &told);
    OK(kas_recheck_run(recheck, &report));
    print_message(
        "%s\n%d checked again, %d findings; mean merit %.3f of the first, %.3f of the last "
        "500\n",
        kas_buf_text(&told), (int)report.kernels, (int)kas_recheck_findings(&report), early / 500,
        late / 500);
    if (kas_recheck_findings(&report))
        fail_msg("%s", report.first);
    assert_true(grown >= CANDIDATES - 30 && (int)report.kernels >= grown);
    assert_true(late > early);
    for (int k = 0; k < CANDIDATES; k++)
        kas_work_clear(&work[k]);
    free(work);
    kas_buf_free(&told);
    kas_strategy_close(&strategy);
    kas_recheck_free(recheck);
}

TEST_WITH(repeats_itself, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_TREE);
    study s = {.count = 0}, again = {.count = 0};
    o.known = true;
    for (int until = 10; until <= 120; until += 10)
        open_and_walk(&o, NULL, &s, until);
    open_and_walk(&o, NULL, &again, 120);
    const int known = known_in(&s);
    assert_true(known >= 10);
    for (int k = 0; k < 120; k++) {
        const kas_work *w = &s.work[k];
        assert_string_equal(w->name, again.work[k].name);
        assert_int_equal(w->generation, k < known ? 0 : 1 + (k - known) / 4);
        assert_string_equal(k < known ? "known" : w->origin, k < known ? "known" : "tree");
        assert_true(is_legal(w));
        for (int i = 0; i < k; i++)
            assert_string_not_equal(s.work[i].name, w->name);
    }
    forget(&s);
    forget(&again);
}

/* The candidates of a generation depend on results of earlier ones, and on no other result. */
TEST_WITH(follows_the_results, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_TREE);
    study a = {.count = 0}, b = {.count = 0};
    open_and_walk(&o, NULL, &a, 40);
    open_and_walk(&o, NULL, &b, 40);
    for (int k = 0; k < 40; k++) {
        b.work[k].state = KAS_WORK_FINISHED;
        b.work[k].measured.accuracy = 1 - 0.5 * a.work[k].measured.accuracy;
    }
    kas_strategy strategy;
    OK(kas_strategy_open(&o, target, targets, "", NULL, &strategy));
    int differ = 0;
    for (int k = 0; k < 40; k++) {
        kas_work work;
        bool ready;
        OK(strategy.next(strategy.context, b.work, b.count, &work, &ready));
        assert_true(ready);
        if (k < 4)
            assert_string_equal(work.name, a.work[k].name);
        differ += strcmp(work.name, a.work[k].name) != 0;
        kas_work_clear(&work);
    }
    assert_true(differ > 10);
    kas_strategy_close(&strategy);
    OK(kas_strategy_open(&o, target, targets, "", NULL, &strategy));
    for (int k = 0; k < 4; k++) {
        kas_work work;
        bool ready;
        OK(strategy.next(strategy.context, a.work, a.count, &work, &ready));
        kas_work_clear(&work);
    }
    a.work[2].state = KAS_WORK_RUNNING; /* the next generation waits for it */
    kas_work work;
    bool ready = true;
    OK(strategy.next(strategy.context, a.work, a.count, &work, &ready));
    assert_false(ready);
    kas_strategy_close(&strategy);
    forget(&a);
    forget(&b);
}

/* ---- rewards --------------------------------------------------------------------------------- */

TEST_WITH(rewards_follow_the_objective, set_up, tear_down)
{
    enum { N = 6 };
    kas_search_options o = options_of(KAS_STRATEGY_TREE);
    kas_work work[N + 1] = {{0}};
    double reward[N];
    kas_buf same = {0}; /* nobody loses anything against the unmodified network */
    kas_correct_add((const float[]){1, 0}, 2, &same);
    for (int k = 0; k < N; k++) {
        work[k] = (kas_work){.kind = KAS_WORK_CANDIDATE,
                             .index = k,
                             .state = KAS_WORK_FINISHED,
                             .measured = kas_measured_unknown(),
                             .predicted = 4 - k};
        work[k].measured.accuracy = 0.9 - 0.1 * k; /* less accurate, but faster */
        work[k].correct = same.data;
    }
    work[N] = (kas_work){.kind = KAS_WORK_BASELINE,
                         .measured = kas_measured_unknown(),
                         .predicted = NAN,
                         .correct = same.data};
    work[3].state = KAS_WORK_PRUNED;
    work[4].state = KAS_WORK_PREDICTED_SLOW;
    work[5].generation = 1; /* not learned yet */
    OK(kas_rewards(&o, work, N + 1, 1, N, reward));
    static const double accuracy[N] = {1, 16.0 / 81, 1.0 / 81, 0, 0, 0};
    static const double frontier[N] = {1, 1.0 / 81, 16.0 / 81, 0, 0, 0};
    for (int k = 0; k < N; k++)
        assert_true(fabs(reward[k] - accuracy[k]) <= 1e-12);
    o.objective = KAS_OBJECTIVE_FRONTIER; /* the ends of the frontier come first */
    OK(kas_rewards(&o, work, N + 1, 1, N, reward));
    for (int k = 0; k < N; k++)
        assert_true(fabs(reward[k] - frontier[k]) <= 1e-12);
    work[0].state = KAS_WORK_NOT_PROMOTED; /* behind all that went further */
    work[1].rung = work[2].rung = 1;
    o.rungs = (kas_int_list){1, {3}};
    o.objective = KAS_OBJECTIVE_ACCURACY;
    OK(kas_rewards(&o, work, N + 1, 1, N, reward));
    assert_true(reward[1] >= 1 && reward[1] > reward[2] && reward[2] > reward[0] && reward[0] > 0);
    const double last = reward[0];
    OK(kas_rewards(&o, work, N + 1, 1, 1, reward)); /* of the first candidate alone */
    assert_true(reward[0] == last);
    kas_buf_free(&same);
}

/* A tree of which some visits gave no candidate learns as one whose candidates had no result. */
TEST_WITH(dropped_visits_have_no_result, set_up, tear_down)
{
    enum { VISITS = 8, DROPPED = 3, AFTERWARDS = 20 };
    const kas_search_options o = options_of(KAS_STRATEGY_TREE);
    const kas_sample_options sample = sample_options();
    kas_kernel_tree *tree[2];
    kas_name_set names[2] = {{0}};
    kas_work work[VISITS] = {{0}};
    for (int t = 0; t < 2; t++)
        OK(kas_kernel_tree_create(&o, &sample, target, targets, &tree[t]));
    for (int k = 0; k < VISITS + AFTERWARDS; k++) {
        char name[2][KAS_NAME_SIZE];
        for (int t = 0; t < 2; t++) {
            kas_replacement kernel;
            int64_t attempt;
            bool found;
            OK(kas_kernel_tree_propose(tree[t], &names[t], &kernel, name[t], &attempt, &found));
            assert_true(found);
            kas_replacement_free(&kernel);
            if (t == 0 && k < DROPPED)
                OK(kas_kernel_tree_drop(tree[t]));
        }
        assert_string_equal(name[0], name[1]);
        if (k < VISITS) {
            work[k] = (kas_work){.kind = KAS_WORK_CANDIDATE,
                                 .index = k,
                                 .state = k < DROPPED ? KAS_WORK_SCREENED : KAS_WORK_FINISHED,
                                 .measured = kas_measured_unknown(),
                                 .predicted = 1};
            work[k].measured.accuracy = k < DROPPED ? NAN : 0.9 - 0.1 * k;
        }
        if (k != VISITS - 1)
            continue;
        OK(kas_kernel_tree_learn(tree[1], work, VISITS, 1));
        for (int c = DROPPED; c < VISITS; c++)
            work[c].index -= DROPPED;
        OK(kas_kernel_tree_learn(tree[0], work + DROPPED, VISITS - DROPPED, 1));
    }
    for (int t = 0; t < 2; t++) {
        kas_kernel_tree_free(tree[t]);
        kas_name_set_free(&names[t]);
    }
}

/* ---- forecasts, and options that have no tree ------------------------------------------------ */

/* Kernels with a window larger than one pixel along both axes are slow. */
static kas_status predict(void *context, const kas_replacement *replacement, kas_work *work)
{
    const kas_kernel *kernel = replacement->kernel;
    bool slow = false;
    (void)context;
    for (int i = 1; i < kernel->nodes; i++)
        slow |= kernel->node[i].op == KAS_OP_UNFOLD || kernel->node[i].op == KAS_OP_CONV;
    work->predicted = slow ? 2 : 1;
    if (slow) {
        work->state = KAS_WORK_PREDICTED_SLOW;
        snprintf(work->reason, sizeof work->reason, "2 s, where 1 s is allowed");
    }
    return KAS_OK;
}

/* What is discarded keeps its number, counts in no generation, and teaches the tree. */
TEST_WITH(slow_ones_are_learned, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_TREE);
    const kas_forecast forecast = {.judge = predict};
    study s = {.count = 0};
    int trained = 0, slow[2] = {0};
    for (int until = 40; until <= 120; until += 40)
        open_and_walk(&o, &forecast, &s, until);
    for (int k = 0; k < 120; k++) {
        const bool discarded = s.work[k].state == KAS_WORK_PREDICTED_SLOW;
        if (!discarded)
            assert_int_equal(s.work[k].generation, trained / 4);
        trained += !discarded;
        slow[k >= 60] += discarded;
    }
    print_message("predicted to be slow: %d of the first 60, %d of the next\n", slow[0], slow[1]);
    assert_true(slow[0] > 10 && slow[1] < slow[0]);
    forget(&s);
}

/* Kernels of a folder come first, and the tree goes on. A space without beginnings is refused. */
TEST_WITH(where_there_is_no_tree, set_up, tear_down)
{
    kas_search_options o = options_of(KAS_STRATEGY_TREE);
    kas_strategy strategy;
    o.sample.space = KAS_SPACE_NAS_PTE;
    assert_int_equal(kas_strategy_open(&o, target, targets, "", NULL, &strategy), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--space nas-pte"));
}

/* Every kernel of a small space that the sampler gives comes from the tree, and comes once; then
 * the tree is exhausted. */
TEST_WITH(a_small_space_ends, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_TREE);
    kas_sample_options sample = sample_options();
    kas_name_set names = {0};
    kas_sampler *sampler;
    kas_sample s;
    kas_kernel_tree *tree;
    bool found = true, is_new;
    int drawn = 0, count = -1;
    sample.min_primitives = sample.max_primitives = 2;
    sample.allowed = (uint64_t)1 << KAS_OP_UNFOLD | (uint64_t)1 << KAS_OP_FC;
    sample.budget = (kas_budget){0};
    OK(kas_kernel_tree_create(&o, &sample, target, targets, &tree));
    while (found) {
        kas_replacement r;
        char name[KAS_NAME_SIZE];
        int64_t attempt;
        OK(kas_kernel_tree_propose(tree, &names, &r, name, &attempt, &found));
        if (found)
            kas_replacement_free(&r);
        count++;
    }
    OK(kas_sampler_create(&sample, target, targets, &sampler));
    for (; kas_sampler_next(sampler, 2000, &s) == KAS_OK; drawn++) {
        OK(kas_name_set_add(&names, s.name, &is_new));
        assert_false(is_new);
        kas_sample_free(&s);
    }
    print_message("%d kernels, of which the sampler gives %d\n", count, drawn);
    assert_true(drawn >= 4 && count >= drawn);
    kas_sampler_free(sampler);
    kas_kernel_tree_free(tree);
    kas_name_set_free(&names);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return run_all_tests(NULL, NULL);
}
