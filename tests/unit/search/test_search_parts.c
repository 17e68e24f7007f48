/* The parts of the search that need no process: options, messages, judging, folders. */
#include "support/test.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/leaderboard/judge.h"
#include "host/leaderboard/rungs.h"
#include "host/search/devices.h"
#include "host/search/worker/channel.h"
#include "host/study/study_dir.h"
#include "support/folder.h"

static kas_search_options sample_options(void)
{
    kas_search_options o = kas_search_options_default();
    o.recipe = kas_recipe_default();
    o.seed = UINT64_MAX;
    o.recipe.lr = 0.1;
    o.recipe.epochs = 30;
    o.flops = 1.0 / 3;
    o.sample.space = KAS_SPACE_NAS_PTE;
    strcpy(o.targets, "3x3,\"1x1\"\\");
    strcpy(o.device, "cuda");
    o.threads = 4;
    o.stream = true;
    o.read_threads = 7;
    o.strategy = KAS_STRATEGY_EVOLUTION;
    o.population = 50;
    o.known = true;
    o.rungs = (kas_int_list){2, {3, 10}};
    o.theta = 0.25;
    return o;
}

TEST(options_round_trip)
{
    kas_search_options o = sample_options(), back;
    kas_buf a = {0}, b = {0};
    kas_search_options_write(&o, &a);
    OK(kas_search_options_read("test", a.data, &back));
    kas_search_options_write(&back, &b);
    assert_string_equal(a.data, b.data);
    assert_true(back.seed == UINT64_MAX && back.flops == 1.0 / 3 && back.recipe.lr == 0.1);
    assert_string_equal(back.targets, o.targets);
    assert_true(back.stream && back.read_threads == 7);
    assert_true(back.strategy == KAS_STRATEGY_EVOLUTION && back.population == 50 && back.known);
    assert_true(back.rungs.count == 2 && back.rungs.value[1] == 10 && back.theta == 0.25);
    OK(kas_search_options_same("s", &o, &back));
    kas_buf_free(&a);
    kas_buf_free(&b);
}

/* Studies of before recipes had names: the fields that came later are absent and off. */
TEST(older_studies_are_read)
{
    static const char text[] =
        "{\"net\":\"resnet18\",\"targets\":\"\",\"seed\":\"0\",\"candidates\":16,\"time_limit\":0,"
        "\"epochs\":30,\"batch\":64,\"lr\":0.1,\"warmup_epochs\":0.5,\"momentum\":0.9,"
        "\"weight_decay\":0.0005,\"label_smoothing\":0.1,\"crop_pad\":4,\"flip\":true,\"flops\":0."
        "5,"
        "\"params\":1,\"latency\":0,\"validation\":0.1,\"prune\":\"curve\",\"prune_window\":8,"
        "\"device\":\"cpu\",\"threads\":2}";
    kas_search_options old, now = kas_search_options_default();
    now.recipe = kas_recipe_default();
    now.strategy = KAS_STRATEGY_RANDOM; /* the defaults of then */
    now.candidates = 16;
    OK(kas_search_options_read("old", text, &old));
    assert_true(old.objective == KAS_OBJECTIVE_ACCURACY && !old.halves);
    assert_true(old.max_loss == 1 && old.finalists == 1 && old.seeds == 1);
    assert_int_equal(kas_search_options_same("s", &old, &now), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--objective (the study has \"accuracy\""));
    assert_null(strstr(kas_error(), "halves"));
    now.objective = KAS_OBJECTIVE_ACCURACY;
    now.latency = 0;
    assert_true(!old.stream && old.read_threads == 0);
    assert_true(old.strategy == KAS_STRATEGY_RANDOM && !old.known && !*old.from);
    assert_true(old.rungs.count == 0 && old.theta == 0.5 && !kas_search_in_generations(&old));
    OK(kas_search_options_same("s", &old, &now));
    assert_int_equal(old.sample.per_layer, KAS_PER_LAYER_NO); /* there was no other */
    now.sample.per_layer = KAS_PER_LAYER_YES;
    assert_int_equal(kas_search_options_same("s", &old, &now), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--per-layer"));
}

TEST(options_that_differ_are_named)
{
    kas_search_options stored = sample_options(), given = stored;
    given.threads = 0; /* left to the study */
    given.device[0] = 0;
    given.stream = false; /* decides nothing */
    given.read_threads = 3;
    given.population = 0; /* left to the study */
    OK(kas_search_options_same("s", &stored, &given));
    given.recipe.epochs = 31;
    strcpy(given.net, "resnet20");
    given.threads = 5;
    given.sample.space = KAS_SPACE_CANVAS;
    assert_int_equal(kas_search_options_same("s", &stored, &given), KAS_USAGE);
    static const char *const words[] = {"--epochs (the study has 30, this command 31)",
                                        "--net (the study has \"resnet18\"", "--threads",
                                        "--space (the study has \"nas-pte\""};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(kas_error(), words[i]))
            fail_msg("\"%s\" is not in: %s", words[i], kas_error());
    assert_null(strstr(kas_error(), "--device"));
    assert_null(strstr(kas_error(), "--lr"));
}

TEST(bad_options_are_refused)
{
    kas_search_options o = sample_options(), back;
    kas_buf text = {0};
    kas_search_options_write(&o, &text);
    static const char *const change[][2] = {{"\"epochs\":30", "\"epochs\":0"},
                                            {"\"epochs\":30", "\"epochz\":30"},
                                            {"\"epochs\":30,", ""},
                                            {"\"lr\":0.1", "\"lr\":\"x\""},
                                            {"\"flip\":true", "\"flip\":1"},
                                            {"\"seed\":\"", "\"seed\":\"x"}};
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        char *at = strstr(text.data, change[i][0]);
        assert_non_null(at);
        char changed[4096];
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text.data), text.data,
                 change[i][1], at + strlen(change[i][0]));
        assert_int_not_equal(kas_search_options_read("test", changed, &back), KAS_OK);
        assert_non_null(strstr(kas_error(), "test"));
    }
    kas_buf_free(&text);
}

static kas_channel loop_back(int end[2])
{
    assert_int_equal(pipe(end), 0);
    return (kas_channel){.in = end[0], .out = end[1]};
}

TEST(messages)
{
    int end[2];
    kas_channel channel = loop_back(end);
    cJSON *message = kas_message("epoch");
    kas_message_number(message, "loss", 0.1);
    kas_message_number(message, "nothing", NAN);
    kas_message_text(message, "reason", "two\nlines \"quoted\"");
    OK(kas_channel_send(&channel, message));
    OK(kas_channel_send(&channel, kas_message("stop")));
    OK(kas_channel_wait(&channel, 1000, &message));
    assert_true(kas_message_is(message, "epoch"));
    assert_true(kas_message_get_number(message, "loss") == 0.1);
    assert_true(isnan(kas_message_get_number(message, "nothing")));
    assert_string_equal(kas_message_get_text(message, "reason"), "two\nlines \"quoted\"");
    cJSON_Delete(message);
    OK(kas_channel_wait(&channel, 1000, &message));
    assert_true(kas_message_is(message, "stop"));
    cJSON_Delete(message);
    OK(kas_channel_wait(&channel, 0, &message));
    assert_null(message);
    close(end[1]);
    OK(kas_channel_wait(&channel, -1, &message));
    assert_true(!message && channel.closed);
    close(end[0]);
    kas_channel_free(&channel);
}

/* Nobody reads, and much more is sent than a pipe holds; then all of it comes, in order. */
TEST(sending_does_not_wait)
{
    enum { MESSAGES = 3, LENGTH = 400000 };
    int end[2], got = 0;
    kas_channel channel = loop_back(end);
    char *text = calloc(1, LENGTH + 1);
    assert_true(text && fcntl(end[1], F_SETFL, O_NONBLOCK) == 0);
    for (int i = 0; i < MESSAGES; i++) {
        cJSON *message = kas_message("kernel");
        memset(text, 'a' + i, LENGTH);
        kas_message_text(message, "kernel", text);
        OK(kas_channel_send(&channel, message));
    }
    assert_true(channel.unsent.size > (MESSAGES - 1) * LENGTH);
    for (int turn = 0; turn < 1000 && got < MESSAGES; turn++) {
        cJSON *message;
        OK(kas_channel_wait(&channel, 0, &message));
        OK(kas_channel_flush(&channel));
        if (!message)
            continue;
        memset(text, 'a' + got++, LENGTH);
        assert_string_equal(kas_message_get_text(message, "kernel"), text);
        cJSON_Delete(message);
    }
    assert_int_equal(got, MESSAGES);
    assert_int_equal(channel.unsent.size, 0);
    close(end[0]);
    close(end[1]);
    kas_channel_free(&channel);
    free(text);
}

TEST(lines_that_are_no_messages)
{
    static const char *const bad[] = {
        "\n", "{\n", "[1]\n", "\"x\"\n", "{\"type\":1}\n", "{\"type\":\"a\",\"type\":\"b\"}\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int end[2];
        cJSON *message;
        kas_channel channel = loop_back(end);
        assert_int_equal(write(end[1], bad[i], strlen(bad[i])), strlen(bad[i]));
        assert_int_equal(kas_channel_wait(&channel, 1000, &message), KAS_BAD_INPUT);
        assert_null(message);
        close(end[0]);
        close(end[1]);
        kas_channel_free(&channel);
    }
}

TEST(endless_line)
{
    int end[2];
    cJSON *message;
    kas_channel channel = loop_back(end);
    char chunk[32768];
    memset(chunk, 'x', sizeof chunk);
    kas_status status = KAS_OK;
    int chunks = 0;
    for (; chunks < 1000 && status == KAS_OK; chunks++) {
        assert_int_equal(write(end[1], chunk, sizeof chunk), sizeof chunk);
        status = kas_channel_wait(&channel, 0, &message);
    }
    assert_int_equal(status, KAS_BAD_INPUT);
    assert_true(chunks <= 33); /* 1 MiB and the chunk that shows it */
    close(end[0]);
    close(end[1]);
    kas_channel_free(&channel);
}

/* ---- judging --------------------------------------------------------------------------------- */

static const double strong[] = {0.2, 0.4, 0.5, 0.6}, weak[] = {0.1, 0.15, 0.2, 0.2};

static kas_search_options judging(const char *prune)
{
    kas_search_options o = kas_search_options_default();
    o.strategy = KAS_STRATEGY_RANDOM;
    o.recipe.epochs = 4;
    strcpy(o.prune, prune);
    o.prune_window = 2;
    return o;
}

/* Is candidate `index` pruned, with that accuracy after `epoch`? */
static bool pruned(const kas_search_options *o, const kas_curve *finished, int count, int index,
                   int epoch, double accuracy, double latency, double flops)
{
    const kas_work work = {.index = index,
                           .generation = index / 3,
                           .flops = flops,
                           .predicted = NAN,
                           .measured = {.latency = latency}};
    return kas_judge_prune(o, finished, count, &work, epoch, accuracy);
}

static kas_curve curve(int index, double latency, double flops, const double accuracy[4])
{
    return (kas_curve){.index = index,
                       .generation = index / 3,
                       .latency = latency,
                       .cost = flops,
                       .epochs = 4,
                       .accuracy = accuracy};
}

TEST(prune_by_curve)
{
    kas_search_options o = judging("curve");
    kas_curve finished[] = {curve(0, 1.0, 10, strong), curve(1, 0.5, 5, weak)};
    /* lambda after epoch 0 of 4 is 0.5, after epoch 1 it is 2/3 */
    assert_true(pruned(&o, finished, 2, 9, 0, 0.099, 2.0, 1));
    assert_false(pruned(&o, finished, 2, 9, 0, 0.101, 2.0, 1));
    assert_true(pruned(&o, finished, 2, 9, 1, 0.26, 2.0, 1));
    assert_false(pruned(&o, finished, 2, 9, 1, 0.27, 2.0, 1));
    /* faster than whatever is as accurate: may be on the frontier */
    assert_false(pruned(&o, finished, 2, 9, 1, 0.26, 0.9, 1));
    assert_true(pruned(&o, finished, 2, 9, 1, 0.14, 0.9, 1));
    assert_false(pruned(&o, finished, 2, 9, 1, 0.14, 0.4, 1));
    assert_true(pruned(&o, finished, 2, 9, 1, NAN, 0.1, 1));
    assert_false(pruned(&o, finished, 0, 9, 1, 0.0, 2.0, 1)); /* nobody yet */
    o.theta = 0.25;                                           /* lambda after epoch 0 */
    assert_false(pruned(&o, finished, 2, 9, 0, 0.051, 2.0, 1));
    assert_true(pruned(&o, finished, 2, 9, 0, 0.049, 2.0, 1));
    o = judging("none");
    assert_false(pruned(&o, finished, 2, 9, 0, 0.0, 2.0, 1));
}

TEST(prune_deterministically)
{
    kas_search_options o = judging("deterministic");
    kas_curve finished[] = {curve(3, 0.1, 10, strong)};
    assert_false(pruned(&o, finished, 1, 5, 0, 0.01, 2.0, 20)); /* within the window */
    assert_true(pruned(&o, finished, 1, 6, 0, 0.01, 2.0, 20));
    assert_true(pruned(&o, finished, 1, 6, 0, 0.01, 0.01, 20)); /* latency plays no part */
    assert_false(pruned(&o, finished, 1, 6, 0, 0.01, 2.0, 9));  /* FLOPs do */
}

/* In generations, whatever has ended meanwhile in the own one plays no part, nor does a latency. */
TEST(prune_by_generation)
{
    static const char *const rules[] = {"curve", "deterministic"};
    for (int i = 0; i < 2; i++) {
        kas_search_options o = judging(rules[i]);
        kas_curve finished[] = {curve(3, 0.1, 10, strong)};
        o.strategy = KAS_STRATEGY_EVOLUTION;
        assert_false(pruned(&o, finished, 1, 5, 0, 0.01, 2.0, 20)); /* the same generation */
        assert_true(pruned(&o, finished, 1, 6, 0, 0.01, 2.0, 20));
        assert_true(pruned(&o, finished, 1, 6, 0, 0.01, 0.01, 20));
        assert_false(pruned(&o, finished, 1, 6, 0, 0.01, 2.0, 9));
    }
}

/* ---- rungs ----------------------------------------------------------------------------------- */

enum { RUNG_ITEMS = 8 };

/* Candidates 0 to 6 of generation 0, which wait at the first rung, and the baseline. */
static void at_the_first_rung(kas_work list[RUNG_ITEMS])
{
    static const double accuracy[] = {0.3, 0.5, 0.2, 0.5, 0.1, 0.4, 0.35};
    list[0] = (kas_work){.kind = KAS_WORK_BASELINE, .state = KAS_WORK_FINISHED};
    for (int k = 0; k < RUNG_ITEMS - 1; k++)
        list[k + 1] = (kas_work){.id = 10 + k,
                                 .kind = KAS_WORK_CANDIDATE,
                                 .index = k,
                                 .state = KAS_WORK_WAITING,
                                 .flops = k == 3 ? 1 : 2,
                                 .predicted = NAN,
                                 .measured = {.accuracy = accuracy[k]}};
}

static kas_search_options with_rungs(void)
{
    kas_search_options o = judging("none");
    o.recipe.epochs = 30;
    o.rungs = (kas_int_list){3, {1, 3, 10}};
    o.objective = KAS_OBJECTIVE_ACCURACY;
    return o;
}

TEST(best_third_goes_on)
{
    const kas_search_options o = with_rungs();
    kas_work list[RUNG_ITEMS];
    kas_settled *end;
    char reason[128];
    int count;
    at_the_first_rung(list);
    OK(kas_rungs_settle(&o, list, RUNG_ITEMS, reason, &end, &count));
    assert_int_equal(count, 7);
    static const int64_t best[] = {13, 11, 15}; /* equal accuracy: fewer FLOPs first */
    for (int i = 0; i < count; i++) {
        assert_int_equal(end[i].promoted, i < 3);
        assert_int_equal(end[i].rung, 0);
        if (i < 3)
            assert_int_equal(end[i].id, best[i]);
    }
    assert_string_equal(reason,
                        "after epoch 1 of 30, 3 of the 7 candidates of generation 0 went on");
    free(end);
}

static int settled(const kas_work list[RUNG_ITEMS])
{
    const kas_search_options o = with_rungs();
    kas_settled *end;
    char reason[128];
    int count;
    OK(kas_rungs_settle(&o, list, RUNG_ITEMS, reason, &end, &count));
    free(end);
    return count;
}

/* Nothing is decided before everybody is there; those that ended before do not count. */
TEST(rungs_wait_for_all)
{
    kas_work list[RUNG_ITEMS];
    at_the_first_rung(list);
    list[4].state = KAS_WORK_RUNNING;
    assert_int_equal(settled(list), 0);
    list[4].state = KAS_WORK_QUEUED;
    assert_int_equal(settled(list), 0);
    list[4].state = KAS_WORK_DIVERGED;
    assert_int_equal(settled(list), 6);
    list[5].generation = 1; /* another generation has begun, which does not matter to this one */
    list[5].state = KAS_WORK_RUNNING;
    assert_int_equal(settled(list), 5);
    for (int i = 1; i < RUNG_ITEMS; i++)
        list[i].state = KAS_WORK_FINISHED;
    assert_int_equal(settled(list), 0);
    list[2].state = KAS_WORK_WAITING; /* one alone goes on */
    assert_int_equal(settled(list), 1);
}

/* With --imitate candidates have fewer epochs than all else. */
TEST(the_recipe_of_candidates)
{
    kas_search_options o = kas_search_options_default();
    o.recipe = kas_recipe_default();
    o.recipe.epochs = 20;
    o.recipe.warmup_epochs = 5;
    o.recipe.schedule = KAS_STEPS;
    o.recipe.steps = (kas_int_list){2, {10, 15}};
    assert_int_equal(kas_search_recipe(&o, true).epochs, 20);
    assert_int_equal(kas_search_recipe(&o, true).schedule, KAS_STEPS);
    assert_false(kas_search_warm(&o, 0));
    o.imitate = 4;
    const kas_recipe recipe = kas_search_recipe(&o, true);
    assert_int_equal(recipe.epochs, 4);
    assert_true(recipe.warmup_epochs >= 1 && recipe.warmup_epochs <= 1);
    assert_int_equal(recipe.schedule, KAS_COSINE);
    OK(kas_recipe_check(&recipe));
    assert_int_equal(kas_search_recipe(&o, false).epochs, 20);
    assert_true(kas_search_warm(&o, 0));
}

TEST(rungs_of_options)
{
    kas_search_options o = with_rungs();
    assert_int_equal(kas_rungs_last(&o), 3); /* the end is a rung */
    assert_int_equal(kas_rungs_epochs(&o, 2), 10);
    assert_int_equal(kas_rungs_epochs(&o, 3), 30);
    o.rungs = kas_search_rungs(&o);
    assert_int_equal(o.rungs.count, 4);
    assert_int_equal(kas_rungs_last(&o), 3);
    for (int r = 0; r < 4; r++)
        assert_int_equal(kas_rungs_epochs(&o, r), ((int[]){1, 3, 10, 30})[r]);
    OK(kas_search_generations(&o));
    assert_int_equal(o.generation, 27);
    o.recipe.epochs = 20;
    assert_int_equal(kas_search_generations(&o), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--rungs: the last rung is after 30 epochs"));
    o = judging("none");
    assert_int_equal(kas_rungs_last(&o), 0);
    assert_int_equal(kas_rungs_epochs(&o, 0), 4);
    assert_false(kas_search_in_generations(&o));
    o.generation = 5;
    OK(kas_search_generations(&o));
    assert_true(kas_search_in_generations(&o));
    o.strategy = KAS_STRATEGY_EVOLUTION;
    o.generation = 0;
    o.candidates = 200;
    OK(kas_search_generations(&o));
    assert_true(o.population == 50 && o.tournament == 5 && o.generation == 10);
    o.population = o.tournament = o.generation = 0;
    o.candidates = 48;
    OK(kas_search_generations(&o));
    assert_true(o.population == 12 && o.tournament == 2 && o.generation == 2);
    o.population = o.tournament = o.generation = 0;
    o.rungs = (kas_int_list){2, {1, 4}};
    OK(kas_search_generations(&o));
    assert_true(o.population == 12 && o.generation == 9); /* 3 and 1 of them go on */
    o.tournament = 51;
    assert_int_equal(kas_search_generations(&o), KAS_USAGE);
    kas_search_options tree = judging("none"), again = tree;
    again.strategy = tree.strategy = KAS_STRATEGY_TREE;
    tree.candidates = again.candidates = 200;
    OK(kas_search_generations(&tree));
    assert_true(tree.generation == 10 && fabs(tree.exploration - 5.65685424949238) <= 1e-12);
    OK(kas_search_options_same("s", &tree, &again)); /* what is not asked for is as in the study */
    again.exploration = 1;
    assert_int_equal(kas_search_options_same("s", &tree, &again), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--exploration (the study has 5.65"));
    tree.strategy = KAS_STRATEGY_RANDOM;
    assert_int_equal(kas_search_generations(&tree), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--exploration is an option of --strategy tree"));
    again.tournament = 2;
    assert_int_equal(kas_search_generations(&again), KAS_USAGE);
}

TEST(asynchronous_options)
{
    kas_search_options o = with_rungs();
    o.asynchronous = true;
    OK(kas_search_generations(&o));
    assert_int_equal(o.generation, 0);
    assert_false(kas_search_in_generations(&o));
    kas_search_options wrong[] = {o, o, o, o};
    wrong[0].rungs.count = 0;
    wrong[1].strategy = KAS_STRATEGY_EVOLUTION;
    wrong[2].generation = 5;
    strcpy(wrong[3].prune, "deterministic");
    static const char *const words[] = {"--asynchronous needs --rungs", "--strategy evolution",
                                        "--generation: ", "--prune deterministic"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(kas_search_generations(&wrong[i]), KAS_USAGE);
        assert_non_null(strstr(kas_error(), words[i]));
    }
}

TEST_WITH(checkpoints_within_a_limit, make_folder, remove_folder)
{
    char path[3][KAS_STUDY_PATH], start[KAS_STUDY_PATH], block[1000] = {0};
    OK(kas_study_dir_make(folder));
    for (int i = 0; i < 3; i++) {
        kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = i};
        OK(kas_study_checkpoint_path(folder, &work, path[i]));
        OK(kas_file_write_atomic(path[i], block, sizeof block));
        usleep(20000); /* the oldest is known by its time */
    }
    int dropped;
    const char *keep[] = {path[0], NULL};
    kas_study_start_path(path[0], start); /* lies beside what is kept, and is kept with it */
    OK(kas_file_write_atomic(start, "", 0));
    OK(kas_study_trim_checkpoints(folder, 3000, keep, &dropped));
    assert_int_equal(dropped, 0);
    OK(kas_study_trim_checkpoints(folder, 2500, keep, &dropped));
    assert_int_equal(dropped, 1);
    assert_true(kas_file_exists(path[0]) && !kas_file_exists(path[1]) && kas_file_exists(path[2]));
    OK(kas_study_trim_checkpoints(folder, 0, keep, &dropped));
    assert_true(dropped == 1 && kas_file_exists(path[0]) && kas_file_exists(start));
    /* of a process that was killed as it began to write */
    OK(kas_file_write_atomic(path[0], "", 0));
    OK(kas_study_trim_checkpoints(folder, 0, NULL, &dropped));
    assert_int_equal(dropped, 2);
}

TEST(device_lists)
{
    kas_devices d;
    OK(kas_devices_find("cpu", &d));
    assert_true(d.count == 1 && strcmp(d.spec[0], "cpu") == 0 && strcmp(d.kind, "cpu") == 0);
    OK(kas_devices_find("cuda:0,12", &d));
    assert_int_equal(d.count, 2);
    assert_string_equal(d.spec[1], "cuda:12");
    assert_string_equal(d.kind, "cuda");
    OK(kas_devices_find("auto", &d));
    assert_true(d.count >= 1);
    static const char *const bad[] = {"",        "gpu",     "cuda:",   "cuda:x",
                                      "cuda:0,", "cuda:-1", "cuda:64", "cuda0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kas_devices_find(bad[i], &d), KAS_USAGE);
}

RUN_TESTS()
