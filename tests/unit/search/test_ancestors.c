/* Ancestors: the same ones on any number of threads; what is written of each agrees with the scores and the predictions; who
 * stays and in which order; what ends it early; and a study that begins with them. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/embedded.h"
#include "host/core/file/files.h"
#include "host/search/ancestors.h"
#include "host/search/kept_scores.h"
#include "host/space/file/assignment.h"
#include "small_problem.h"
#include "support/sanitized.h"

enum { MOST = 64 };

typedef struct world {
    kas_problem problem;
    kas_search_options options;
    kas_search_forecast forecast;
} world;

static void open_world(world *w, double latency)
{
    kas_machine machine;
    open_problem(&w->problem);
    w->options = kas_search_options_default();
    w->options.seed = 2;
    w->options.ancestors = 30;
    w->options.population = 10;
    w->options.latency = latency;
    w->options.known = true;
    OK(kas_machine_find("cpu", "auto", 0, &machine));
    OK(kas_search_forecast_open(&w->options, &machine, w->problem.net, &w->forecast));
    w->forecast.limit = latency; /* without the margin */
}

static void close_world(world *w)
{
    kas_search_forecast_close(&w->forecast);
    kas_problem_close(&w->problem);
}

typedef struct one {
    char origin[64], name[KAS_NAME_SIZE];
    double imitation, latency;
    kas_replacement replacement;
} one;

static int read_all(const world *w, const char *text, one *out)
{
    const kas_budget budget = kas_search_budget(&w->options);
    const cJSON *list, *at;
    cJSON *root = cJSON_Parse(text);
    int count = 0;
    assert_non_null(root);
    list = cJSON_GetObjectItem(root, "kernels");
    cJSON_ArrayForEach(at, list)
    {
        kas_assignment kernels;
        const char *kernel = cJSON_GetObjectItem(at, "kernel")->valuestring;
        assert_true(count < MOST);
        one *o = &out[count++];
        snprintf(o->origin, sizeof o->origin, "%s", cJSON_GetObjectItem(at, "name")->valuestring);
        o->imitation = cJSON_GetObjectItem(at, "imitation")->valuedouble;
        o->latency = cJSON_GetObjectItem(at, "latency")->valuedouble;
        OK(kas_assignment_read_json("kernel", kernel, strlen(kernel), &kernels));
        OK(kas_assignment_name(&kernels, o->name));
        OK(kas_assignment_fit(&kernels, w->problem.target, w->problem.targets, &budget,
                              &o->replacement));
        kas_assignment_free(&kernels);
    }
    cJSON_Delete(root);
    return count;
}

static void free_all(one *list, int count)
{
    for (int i = 0; i < count; i++)
        kas_replacement_free(&list[i].replacement);
}

static char *evolve(world *w, const char *from, int threads)
{
    kas_buf text = {0};
    const kas_ancestors_run run = {.threads = threads};
    OK(kas_ancestors_evolve(&w->options, &w->problem, &w->forecast, from, &run, &text));
    char *copy = strdup(kas_buf_text(&text));
    kas_buf_free(&text);
    return copy;
}

static bool is_new(const one *o)
{
    return strcmp(o->origin, KAS_ORIGIN_ANCESTOR) == 0;
}

static double best_of(const one *list, int count)
{
    double best = 0;
    for (int i = 0; i < count; i++)
        best = fmax(best, list[i].imitation);
    return best;
}

/* The list at which several tests look, made on one thread. */
static char *usual;

static int make_usual(void **state)
{
    (void)state;
    world w;
    open_world(&w, 0.9);
    usual = evolve(&w, "", 1);
    close_world(&w);
    return 0;
}

static int free_usual(void **state)
{
    (void)state;
    free(usual);
    return 0;
}

TEST(the_same_on_any_number_of_threads)
{
    world w;
    open_world(&w, 0.9);
    char *three = evolve(&w, "", 3);
    assert_string_equal(usual, three);
    free(three);
    w.options.known = false;
    w.options.ancestors = 4;
    char *one_seed = evolve(&w, "", 1);
    w.options.seed++;
    char *other_seed = evolve(&w, "", 1);
    assert_string_not_equal(one_seed, other_seed);
    free(one_seed);
    free(other_seed);
    close_world(&w);
}

/* Scores and predictions are computed anew; the file has six digits of them. */
TEST(says_what_is_so)
{
    world w;
    one list[MOST];
    kas_legality *legality;
    kas_score_memory memory = {0};
    double off[2] = {0};
    int found = 0;
    open_world(&w, 0.9);
    const int count = read_all(&w, usual, list);
    snprintf(w.options.legality, sizeof w.options.legality, "imitation:0.9");
    OK(kas_legality_open(&w.options, &w.problem, KAS_LEGALITY_BATCH, &legality));
    for (int i = 0; i < count; i++) {
        double score, seconds;
        OK(kas_legality_score(legality, &list[i].replacement, &memory, &score));
        OK(kas_predict_candidate(w.forecast.predictor, &list[i].replacement, &seconds));
        const double ratio = seconds / kas_predictor_unmodified(w.forecast.predictor);
        assert_true(score > 0 && ratio > 0 && ratio <= 0.9);
        off[0] = fmax(off[0], fabs(score - list[i].imitation) / score);
        off[1] = fmax(off[1], fabs(ratio - list[i].latency) / ratio);
        found += is_new(&list[i]);
        assert_true(i == 0 || list[i - 1].imitation >= list[i].imitation);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(list[k].name, list[i].name);
    }
    printf("%d kernels; largest relative difference of a score %.1e, of a latency %.1e\n", count,
           off[0], off[1]);
    assert_true(off[0] <= 1e-5 && off[1] <= 1e-5);
    /* More known kernels than half a population are worth a training here. */
    assert_int_equal(found, w.options.population / 2);
    assert_true(count > w.options.population);
    kas_legality_close(legality);
    kas_score_memory_free(&memory);
    free_all(list, count);
    close_world(&w);
}

static int step_of(double x)
{
    return (int)floor(log(x) / log(1.05));
}

/* The best imitation comes first, and children are better than all that was drawn. No two of the new ones compute the same, or
 * differ by less than chance. */
TEST(the_best_first)
{
    if (SANITIZED) /* other tests evolve some */
        skip();
    world w;
    one list[MOST];
    open_world(&w, 0.9);
    w.options.known = false;
    w.options.objective = KAS_OBJECTIVE_ACCURACY;
    w.options.population = 20;
    w.options.ancestors = 40;
    char *text = evolve(&w, "", 1);
    int count = read_all(&w, text, list);
    assert_int_equal(count, 20);
    for (int i = 1; i < count; i++) {
        assert_true(list[i].imitation < list[i - 1].imitation);
        for (int k = 0; k < i; k++)
            assert_true(step_of(list[i].imitation) != step_of(list[k].imitation) ||
                        step_of(list[i].latency) != step_of(list[k].latency));
    }
    const double best = best_of(list, count);
    free_all(list, count);
    free(text);
    w.options.ancestors = 20; /* the same first brood, all of it drawn */
    text = evolve(&w, "", 1);
    count = read_all(&w, text, list);
    assert_true(best > best_of(list, count));
    free_all(list, count);
    free(text);
    close_world(&w);
}

/* All kernels of --from stay, and leave half a population to the others. */
TEST(given_kernels_stay)
{
    static const char *const names[] = {"depthwise",          "group_conv", "canvas_figure8",
                                        "canvas_figure6",     "shift_conv", "bottleneck",
                                        "depthwise_separable"};
    enum { NAMES = sizeof names / sizeof *names };
    world w;
    one list[MOST];
    kas_buf from = {0};
    kas_first *first;
    int given = 0, fit; /* of the names, one does not fit the budget */
    open_world(&w, 0);
    kas_buf_puts(&from, "{\"kernels\": [");
    for (int i = 0; i < NAMES; i++) {
        kas_buf_printf(&from, "%s{\"name\": \"%s\", \"kernel\": ", i ? "," : "", names[i]);
        kas_buf_json_string(&from, kas_embedded_find(kas_embedded_kernels, names[i]));
        kas_buf_puts(&from, "}");
    }
    kas_buf_puts(&from, "]}");
    w.options.known = false;
    w.options.ancestors = 12;
    char *text = evolve(&w, kas_buf_text(&from), 2);
    const int count = read_all(&w, text, list);
    for (int i = 0; i < count; i++)
        given += strncmp(list[i].origin, "from:", 5) == 0;
    OK(kas_first_list(&w.options, w.problem.target, w.problem.targets, kas_buf_text(&from), &first,
                      &fit));
    kas_first_free(first, fit);
    assert_int_equal(fit, NAMES - 1);
    assert_int_equal(given, fit);
    assert_int_equal(count, fit + w.options.population / 2);
    free_all(list, count);
    free(text);
    kas_buf_free(&from);
    close_world(&w);
}

TEST(nothing_is_fast_enough)
{
    world w;
    kas_buf text = {0};
    open_world(&w, 1e-6);
    const kas_ancestors_run run = {.threads = 1};
    assert_int_equal(kas_ancestors_evolve(&w.options, &w.problem, &w.forecast, "", &run, &text),
                     KAS_NOTHING_VALID);
    assert_non_null(strstr(kas_error(), "allow a larger --latency"));
    kas_buf_free(&text);
    close_world(&w);
}

static int calls, told;

static bool after_two_broods(void)
{
    return ++calls > 50;
}

static void count_broods(void *context, int scored, int wanted, double best)
{
    (void)context;
    told++;
    assert_true(scored <= wanted && best > 0 && best < 1);
}

/* Gives the first kernel of a file of scores another one. */
static void plant_score(const char *path, double score)
{
    kas_buf file = {0}, changed = {0};
    OK(kas_file_read(path, 1 << 20, &file));
    const char *text = kas_buf_text(&file), *name = strchr(text, '\n') + 1,
               *rest = strchr(name, '\n');
    const char *at = rest;
    while (at[-1] != ' ')
        at--;
    kas_buf_printf(&changed, "%.*s%g%s", (int)(at - text), text, score, rest);
    OK(kas_file_write_atomic(path, changed.data, changed.size));
    kas_buf_free(&file);
    kas_buf_free(&changed);
}

static int count_kept(const char *path, const char *digest)
{
    kas_kept_scores scores;
    OK(kas_kept_scores_open(path, digest, &scores));
    const int count = scores.count;
    kas_kept_scores_free(&scores);
    return count;
}

/* Stopped and begun again, with a file whose last line was cut off, the list is that of an undisturbed run, and what was scored is
 * not scored again. Scores of another digest count for nothing. */
TEST(interrupted)
{
    world w;
    kas_buf text = {0}, file = {0};
    char path[] = "/tmp/kas-test-ancestors-XXXXXX";
    kas_ancestors_run run = {.threads = 1,
                             .kept = path,
                             .digest = "one",
                             .interrupted = after_two_broods,
                             .progress = count_broods};
    close(mkstemp(path));
    open_world(&w, 0.9);
    assert_int_equal(kas_ancestors_evolve(&w.options, &w.problem, &w.forecast, "", &run, &text),
                     KAS_INTERRUPTED);
    assert_int_equal(text.size, 0);
    assert_int_equal(told, 2);
    OK(kas_file_read(path, 1 << 20, &file));
    const size_t size = file.size;
    OK(kas_file_write_atomic(path, file.data, size - 8));
    kas_buf_free(&file);
    calls = 25; /* stopped in the second brood: what lies behind it stays */
    assert_int_equal(kas_ancestors_evolve(&w.options, &w.problem, &w.forecast, "", &run, &text),
                     KAS_INTERRUPTED);
    OK(kas_file_read(path, 1 << 20, &file));
    assert_true(file.size > size / 2 && file.size < size);
    kas_buf_free(&file);
    run.interrupted = NULL;
    OK(kas_ancestors_evolve(&w.options, &w.problem, &w.forecast, "", &run, &text));
    assert_string_equal(kas_buf_text(&text), usual);
    plant_score(path, 0.999); /* which shows that scores come from the file */
    kas_buf_clear(&text);
    OK(kas_ancestors_evolve(&w.options, &w.problem, &w.forecast, "", &run, &text));
    assert_non_null(strstr(kas_buf_text(&text), "\"imitation\": 0.999,"));
    assert_int_equal(count_kept(path, "other"), 0);
    static const char damaged[] = "one\n12e45f 0.5 0.25\n12e45f 0.5\n0.5 0.25 0.125\n";
    OK(kas_file_write_atomic(path, damaged, sizeof damaged - 1));
    assert_int_equal(count_kept(path, "one"), 1);
    assert_int_equal(unlink(path), 0);
    kas_buf_free(&text);
    close_world(&w);
}

/* Of a single map there is one kernel, and then the sampler has nothing more: the known kernels stay. Where nothing fits the
 * budget there is none at all. */
TEST(a_small_space)
{
    world w;
    one list[MOST];
    kas_buf none = {0};
    open_world(&w, 0.9);
    w.options.sample.min_primitives = w.options.sample.max_primitives = 1;
    w.options.sample.allowed = 1ull << KAS_OP_FC;
    w.options.sample.min_receptive = 1;
    char *text = evolve(&w, "", 1);
    const int count = read_all(&w, text, list);
    int found = 0;
    for (int i = 0; i < count; i++)
        found += is_new(&list[i]);
    assert_true(found <= 1 && count > 5);
    free_all(list, count);
    free(text);
    w.options.known = false;
    w.options.flops = 1e-6;
    const kas_ancestors_run run = {.threads = 1};
    assert_int_equal(kas_ancestors_evolve(&w.options, &w.problem, &w.forecast, "", &run, &none),
                     KAS_NOTHING_VALID);
    assert_int_equal(none.size, 0);
    kas_buf_free(&none);
    close_world(&w);
}

TEST(a_study_begins_with_them)
{
    world w;
    one list[MOST];
    kas_strategy strategy;
    open_world(&w, 0.9);
    OK(kas_search_generations(&w.options));
    const int count = read_all(&w, usual, list);
    OK(kas_strategy_open(&w.options, w.problem.target, w.problem.targets, "", NULL, &strategy));
    OK(kas_strategy_take_ancestors(&strategy, usual));
    for (int i = 0; i < count; i++) {
        kas_work work = {.kind = KAS_WORK_CANDIDATE};
        bool ready;
        OK(strategy.next(strategy.context, NULL, 0, &work, &ready));
        assert_true(ready);
        assert_string_equal(work.name, list[i].name);
        assert_string_equal(work.origin, list[i].origin);
        kas_work_clear(&work);
    }
    /* A kernel that does not fit can only be a damaged file. */
    assert_int_equal(kas_strategy_take_ancestors(
                         &strategy,
                         "{\"kernels\": [{\"name\": \"ancestor\", \"kernel\": "
                         "\"{\\\"format\\\": \\\"kas-gpu kernel\\\", \\\"version\\\": 1, "
                         "\\\"nodes\\\": [{\\\"op\\\": \\\"input\\\"}, {\\\"op\\\": "
                         "\\\"fc\\\", \\\"in\\\": [0], \\\"out\\\": \\\"C*64\\\"}, "
                         "{\\\"op\\\": \\\"fc\\\", \\\"in\\\": [1], \\\"out\\\": "
                         "\\\"C\\\"}], \\\"groups\\\": {}}\"}]}"),
                     KAS_STORE);
    kas_strategy_close(&strategy);
    free_all(list, count);
    close_world(&w);
}

RUN_TESTS(make_usual, free_usual)
