/* Candidates in generations, rungs, and candidates that prediction discards: whoever is killed, and
 * whatever the number of workers, the list and the results are the same. */
#include "host/core/random.h"
#include "search_done.h"

/* Two generations of five. Of each, two reach the second rung and one the end. */
static const plan two_generations = {
    .what = {"ok", "weak", "long", "ok", "long", "ok", "weak", "long", "long diverged", "ok"},
    .generation = 5};

static kas_search_options with_rungs(int candidates)
{
    kas_search_options search = search_options(candidates);
    search.rungs = (kas_int_list){2, {1, 2}};
    return search;
}

/* What must not depend on kills, on workers or on time. */
static void print_results(kas_buf *out)
{
    int count;
    kas_work *list = items(&count);
    for (int i = 0; i < count; i++)
        kas_buf_printf(out, "%s %d %s %s rung %d, %d epochs, %.17g, %.17g FLOPs: %s\n",
                       kas_work_kind_name(list[i].kind), (int)list[i].index, list[i].name,
                       kas_work_state_name(list[i].state), list[i].rung, list[i].epochs,
                       list[i].measured.accuracy, list[i].flops, list[i].reason);
    kas_work_list_free(list, count);
}

/* Runs the plan undisturbed, with one worker, and removes the study. */
static void print_undisturbed(plan p, const kas_search_options *search, kas_buf *out)
{
    OK(supervise(p, search, 1, 30, "d"));
    print_results(out);
    OK(kas_remove_tree(study_dir));
    unlink(notes);
}

static void assert_results(const kas_buf *expected)
{
    kas_buf now = {0};
    print_results(&now);
    const bool same = strcmp(kas_buf_text(&now), kas_buf_text(expected)) == 0;
    if (!same) /* cmocka cuts long texts off */
        printf("now:\n%sundisturbed:\n%s", kas_buf_text(&now), kas_buf_text(expected));
    kas_buf_free(&now);
    assert_true(same);
}

TEST_WITH(best_third_goes_on, set_up, tear_down)
{
    const kas_search_options search = with_rungs(10);
    static const struct {
        const char *state;
        int rung, epochs;
    } expected[] = {{"not-promoted", 0, 1}, {"not-promoted", 0, 1}, {"not-promoted", 0, 1},
                    {"not-promoted", 1, 2}, {"finished", 2, 4},     {"not-promoted", 0, 1},
                    {"not-promoted", 0, 1}, {"not-promoted", 0, 1}, {"diverged", 1, 2},
                    {"finished", 2, 4}};
    int count;
    OK(supervise(two_generations, &search, 2, 30, "d"));
    kas_work *list = items(&count);
    assert_int_equal(count, 13);
    for (int i = 0; i < count; i++) {
        const kas_work *w = &list[i];
        if (w->kind != KAS_WORK_CANDIDATE)
            continue;
        assert_string_equal(kas_work_state_name(w->state), expected[w->index].state);
        assert_int_equal(w->rung, expected[w->index].rung);
        assert_int_equal(w->epochs, expected[w->index].epochs);
        for (int e = 0; e < EPOCHS; e++) { /* each goes on from its checkpoint */
            char line[32];
            snprintf(line, sizeof line, "epoch 1.%d.%d", (int)w->index, e);
            assert_int_equal(times_noted(line), e < w->epochs);
        }
    }
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 9), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
}

/* A checkpoint that had to be deleted costs time and changes nothing. */
TEST_WITH(checkpoints_of_the_waiting_may_go, set_up, tear_down)
{
    const kas_search_options search = with_rungs(10);
    kas_buf expected = {0};
    print_undisturbed(two_generations, &search, &expected);
    checkpoint_limit = 0;
    OK(supervise(two_generations, &search, 1, 30, "d"));
    checkpoint_limit = 1 << 20;
    assert_results(&expected);
    assert_int_equal(times_noted("epoch 1.4.0"), 2);
    kas_buf_free(&expected);
}

/* Makes the weights of imitation that a candidate begins with, which lie beside its checkpoint. */
static void write_start(int candidate)
{
    char relative[64], path[KAS_STUDY_PATH];
    snprintf(relative, sizeof relative, "checkpoints/%04d.ckpt.start", candidate);
    OK(kas_study_dir_make(study_dir));
    OK(kas_study_path(study_dir, relative, path));
    OK(kas_file_write_atomic(path, "w", 1));
}

static void assert_no_files(int candidate)
{
    char checkpoint[KAS_STUDY_PATH], begun[KAS_STUDY_PATH];
    const kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = candidate};
    OK(kas_study_checkpoint_path(study_dir, &work, checkpoint));
    kas_study_start_path(checkpoint, begun);
    if (kas_file_exists(checkpoint) || kas_file_exists(begun))
        fail_msg("candidate %d has ended, and its checkpoint is there", candidate);
}

/* When a generation begins, nobody of the one before has a checkpoint any more: those of candidates
 * that did not go on would fill --checkpoint-limit. */
TEST_WITH(checkpoints_of_the_ended_go, set_up, tear_down)
{
    const kas_search_options search = with_rungs(10);
    plan p = two_generations;
    int status;
    p.what[5] = "await: files"; /* nothing of its generation ends before these are looked at */
    for (int k = 0; k < 5; k++)
        write_start(k);
    pid_t pid = start(p, &search, 1);
    wait_for_lines("begin 1.5", 1);
    for (int k = 0; k < 5; k++)
        assert_no_files(k);
    note("files\n");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Kills supervisors, or one worker of each, after a number of lines that follows from `seed`. */
static void kill_at_random(plan p, const kas_search_options *search, int workers, unsigned seed)
{
    kas_buf expected = {0};
    int killed = 0, status = -1;
    print_undisturbed(p, search, &expected);
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 0);
    for (int run = 0; run < 5 && status != 0; run++) {
        const int before = lines_noted("");
        const pid_t pid = start(p, search, workers);
        wait_for_lines("", before + 1 + (int)kas_rng_below(&rng, 8));
        nap(0.02 * kas_rng_unit(&rng));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        killed += WIFSIGNALED(status);
        assert_no_worker_lives();
    }
    assert_true(killed >= 3);
    OK(supervise(p, search, workers, 30, "d"));
    assert_results(&expected);
    kas_buf_free(&expected);
}

TEST_WITH(killed_at_rungs, set_up, tear_down)
{
    const kas_search_options search = with_rungs(10);
    kill_at_random(two_generations, &search, 1, 1);
    OK(kas_remove_tree(study_dir));
    unlink(notes);
    kill_at_random(two_generations, &search, 2, 2);
}

/* A strategy that depends on results, without rungs. Pruning compares with earlier generations. */
TEST_WITH(killed_in_evolution, set_up, tear_down)
{
    kas_search_options search = search_options(8);
    search.strategy = KAS_STRATEGY_EVOLUTION;
    strcpy(search.prune, "curve");
    const plan p = {.what = {"ok", "weak", "ok", "weak", "ok", "ok", "weak", "ok"},
                    .generation = 3};
    kill_at_random(p, &search, 2, 3);
    int count;
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 1), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 3), KAS_WORK_PRUNED);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 6), KAS_WORK_PRUNED);
    kas_work_list_free(list, count);
}

TEST_WITH(two_supervisors_at_rungs, set_up, tear_down)
{
    const kas_search_options search = with_rungs(10);
    kas_buf expected = {0};
    print_undisturbed(two_generations, &search, &expected);
    pid_t pid[2];
    for (int i = 0; i < 2; i++)
        pid[i] = start(two_generations, &search, 2);
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    assert_results(&expected);
    kas_buf_free(&expected);
}

/* Later candidates depend on the one that the machine cannot evaluate, so the search stops. */
TEST_WITH(no_generation_without_a_member, set_up, tear_down)
{
    const kas_search_options search = with_rungs(6);
    const plan p = {.generation = 3};
    kas_buf expected = {0};
    print_undisturbed(p, &search, &expected);
    setenv("KAS_TEST_DISK_FULL", "1", 1);
    assert_int_equal(supervise(p, &search, 1, 30, "d"), KAS_MACHINE);
    unsetenv("KAS_TEST_DISK_FULL");
    assert_int_equal(times_noted("begin 1.0"), 3);
    assert_int_equal(times_noted("begin 1.1"), 0);
    OK(supervise(p, &search, 1, 30, "d"));
    assert_results(&expected);
    kas_buf_free(&expected);
}

/* A measured latency ends nothing on which later generations depend; but the answer is within the
 * limit. */
TEST_WITH(no_measurement_decides, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    const plan p = {.what = {"ok", "ok", "slow"}, .generation = 2};
    search.strategy = KAS_STRATEGY_EVOLUTION;
    search.latency = 2;
    OK(supervise(p, &search, 2, 30, "d"));
    int count;
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 2), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 1), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 2), KAS_WORK_STATES);
    kas_work_list_free(list, count);
}

/* They keep their numbers, reach no worker, and --candidates does not count them. */
TEST_WITH(discarded_by_prediction, set_up, tear_down)
{
    const kas_search_options search = search_options(3);
    const plan p = {.what = {"predicted", "ok", "predicted", "predicted", "ok", "ok", "ok"}};
    kas_buf expected = {0};
    ahead = 2; /* none is compiled ahead either */
    print_undisturbed(p, &search, &expected);
    ahead = 0;
    OK(supervise(p, &search, 2, 30, "d"));
    assert_results(&expected);
    int count;
    kas_work *list = items(&count);
    assert_int_equal(count, 6 + 3);
    static const int slow[] = {0, 2, 3}, trained[] = {1, 4, 5};
    for (int i = 0; i < 3; i++) {
        char line[32];
        snprintf(line, sizeof line, "begin 1.%d", slow[i]);
        assert_int_equal(times_noted(line), 0);
        assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, slow[i]),
                         KAS_WORK_PREDICTED_SLOW);
        assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, trained[i]), KAS_WORK_FINISHED);
    }
    kas_work_list_free(list, count);
    kas_buf_free(&expected);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "compile-ahead") == 0)
        return 1; /* it is given up */
    search_main(argc, argv, &fake);
    return run_all_tests(NULL, NULL);
}
