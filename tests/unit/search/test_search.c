/* The supervisor with real processes and pipes, and an evaluation that misbehaves on demand
 * (search_fixture.h). */
#include "search_done.h"

TEST_WITH(plain_run, set_up, tear_down)
{
    kas_search_options search = search_options(5);
    OK(supervise((plan){0}, &search, 1, 30, "d"));
    assert_done_once(5, true);
    int count;
    kas_work *list = items(&count);
    assert_int_equal(list[0].kind, KAS_WORK_BASELINE);
    for (int i = 1; i < count; i++)
        assert_true(list[i].started >= list[0].ended); /* one worker: baseline first */
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 4), KAS_WORK_FINISHED);
    assert_true(kas_objective_leader(&search, list, count)->index == 4);
    kas_work_list_free(list, count);
    char path[KAS_STUDY_PATH];
    OK(kas_study_path(study_dir, "kernels/kernel3.json", path));
    assert_true(kas_file_exists(path));
    OK(kas_study_path(study_dir, "best/weights.safetensors", path));
    assert_true(kas_file_exists(path));
    OK(kas_study_path(study_dir, "checkpoints/0003.ckpt", path));
    assert_false(kas_file_exists(path));
    OK(supervise((plan){0}, &search, 1, 30, "d")); /* again: nothing is left to do */
    assert_done_once(5, true);
}

TEST_WITH(same_list_with_four_workers, set_up, tear_down)
{
    kas_search_options search = search_options(8);
    kas_work *list[2];
    int count[2];
    for (int run = 0; run < 2; run++) {
        OK(supervise((plan){0}, &search, run ? 4 : 1, 30, "d"));
        assert_done_once(8, true);
        list[run] = items(&count[run]);
        OK(kas_remove_tree(study_dir));
        unlink(notes);
    }
    assert_int_equal(count[0], count[1]);
    for (int i = 0; i < count[0]; i++) {
        assert_int_equal(list[0][i].index, list[1][i].index);
        assert_string_equal(list[0][i].name, list[1][i].name);
        assert_int_equal(list[0][i].attempt, list[1][i].attempt);
        assert_true(list[0][i].measured.accuracy == list[1][i].measured.accuracy);
    }
    kas_work_list_free(list[0], count[0]);
    kas_work_list_free(list[1], count[1]);
}

/* No candidate ends the search; each gets the state that names what happened. */
TEST_WITH(bad_candidates, set_up, tear_down)
{
    kas_search_options search = search_options(10);
    plan p = {.what = {"ok", "abort", "hang", "exit", "memory", "lost-always", "failed", "nonsense",
                       "diverged", "killed-always"}};
    OK(supervise(p, &search, 2, 4, "d"));
    static const kas_work_state expected[] = {
        KAS_WORK_FINISHED,      KAS_WORK_CRASHED,      KAS_WORK_HUNG,   KAS_WORK_FAILED,
        KAS_WORK_OUT_OF_MEMORY, KAS_WORK_DEVICE_LOST,  KAS_WORK_FAILED, KAS_WORK_FAILED,
        KAS_WORK_DIVERGED,      KAS_WORK_MACHINE_FAULT};
    int count;
    kas_work *list = items(&count);
    for (int k = 0; k < 10; k++)
        assert_string_equal(kas_work_state_name(state_of(list, count, KAS_WORK_CANDIDATE, k)),
                            kas_work_state_name(expected[k]));
    for (int i = 0; i < count; i++)
        if (list[i].kind == KAS_WORK_CANDIDATE && list[i].index > 0 &&
            list[i].state != KAS_WORK_DIVERGED)
            assert_true(list[i].reason[0]);
    assert_int_equal(times_noted("begin 1.5"), 3); /* three devices */
    assert_int_equal(times_noted("begin 1.9"), 3); /* three workers, then it is given up */
    assert_int_equal(times_noted("epoch 1.9.0"), 1);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 0), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
}

/* More epochs than a line of a channel has room for; and a worker that cannot say what it wants to
 * say ends, where the supervisor would wait for it until it is hung. */
TEST_WITH(long_messages, set_up, tear_down)
{
    kas_search_options search = search_options(2);
    search.finalists = 0;
    OK(supervise((plan){.what = {"endless", "wordy"}}, &search, 1, 30, "d"));
    int count;
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 0), KAS_WORK_FINISHED);
    assert_int_equal(list[1].epochs, MANY_EPOCHS);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 1), KAS_WORK_FAILED);
    assert_non_null(strstr(list[2].reason, "the worker ended with exit code 1"));
    kas_work_list_free(list, count);
}

TEST_WITH(killed_worker_goes_on, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    OK(supervise((plan){.what = {"ok", "killed-once", "ok"}}, &search, 2, 30, "d"));
    assert_done_once(3, true);
    assert_int_equal(times_noted("begin 1.1"), 2);
}

/* What a machine does once it does not do again: the item goes on from its checkpoint. */
TEST_WITH(faults_of_the_machine_are_tried_again, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    OK(supervise((plan){.what = {"unlucky", "lost", "ok"}}, &search, 1, 30, "d"));
    assert_done_once(3, true);
    assert_int_equal(times_noted("begin 1.0"), 2);
    assert_int_equal(times_noted("begin 1.1"), 2);
}

/* Leaderboards, but for what was measured. */
static void assert_same_results(const kas_work *a, int count_a, const kas_work *b, int count_b)
{
    assert_int_equal(count_a, count_b);
    for (int i = 0; i < count_a; i++) {
        assert_int_equal(a[i].kind, b[i].kind);
        assert_int_equal(a[i].index, b[i].index);
        assert_string_equal(a[i].name, b[i].name);
        assert_string_equal(kas_work_state_name(a[i].state), kas_work_state_name(b[i].state));
        assert_true(a[i].measured.accuracy == b[i].measured.accuracy);
    }
}

/* A disk that is full for every candidate ends the search, not the candidates; when it is empty the
 * same command gives what an undisturbed one gives. */
static void an_unfit_machine(const char *prune, int expected_tries)
{
    kas_search_options search = search_options(5);
    kas_work *list[2];
    int count[2];
    strcpy(search.prune, prune);
    OK(supervise((plan){0}, &search, 1, 30, "d"));
    list[0] = items(&count[0]);
    OK(kas_remove_tree(study_dir));
    unlink(notes);
    setenv("KAS_TEST_DISK_FULL", "1", 1);
    assert_int_equal(supervise((plan){0}, &search, 1, 30, "d"), KAS_MACHINE);
    assert_non_null(strstr(kas_error(), "no space left"));
    assert_non_null(strstr(kas_error(), "run the same command"));
    assert_int_equal(times_noted("begin 1.0"), 3);
    assert_int_equal(times_noted("begin 1.2"), expected_tries);
    assert_int_equal(times_noted("begin 1.3"), 0);
    list[1] = items(&count[1]);
    for (int i = 0; i < count[1]; i++) /* nothing is held against them */
        if (list[1][i].kind == KAS_WORK_CANDIDATE)
            assert_true(list[1][i].state == KAS_WORK_QUEUED && list[1][i].deaths == 0);
    kas_work_list_free(list[1], count[1]);
    unsetenv("KAS_TEST_DISK_FULL");
    OK(supervise((plan){0}, &search, 1, 30, "d"));
    list[1] = items(&count[1]);
    assert_same_results(list[0], count[0], list[1], count[1]);
    kas_work_list_free(list[0], count[0]);
    kas_work_list_free(list[1], count[1]);
}

TEST_WITH(full_disk, set_up, tear_down)
{
    an_unfit_machine("none", 3);
}

/* Later candidates are compared with earlier ones: none may be left out. */
TEST_WITH(full_disk_deterministic, set_up, tear_down)
{
    an_unfit_machine("deterministic", 0);
}

/* One candidate that the machine cannot evaluate holds up nothing, and has its turn in every run:
 * also when it wins, after the final training of another. */
TEST_WITH(one_left_out, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    int count;
    setenv("KAS_TEST_NO_MEMORY", "1", 1);
    for (int run = 0; run < 2; run++) {
        OK(supervise((plan){.what = {"ok", "ok", "hungry"}}, &search, 1, 30, "d"));
        kas_work *list = items(&count);
        assert_int_equal(count, 6);
        assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 2), KAS_WORK_MACHINE_FAULT);
        assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 1), KAS_WORK_FINISHED);
        assert_int_equal(times_noted("begin 1.2"), 3 * (run + 1));
        assert_int_equal(times_noted("end 2.1"), 1); /* the same winner: brought back */
        kas_work_list_free(list, count);
    }
    unsetenv("KAS_TEST_NO_MEMORY");
    OK(supervise((plan){.what = {"ok", "ok", "hungry"}}, &search, 1, 30, "d"));
    kas_work *list = items(&count);
    assert_int_equal(count, 7);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 2), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 2), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_EARLIER_FINAL, 1), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
}

TEST_WITH(killed_supervisor, set_up, tear_down)
{
    kas_search_options search = search_options(4);
    plan p = {.what = {"long", "long", "long", "long"}};
    static const int epochs[] = {0, 2, 3, 4, 1}; /* that pass before the supervisor is killed */
    int killed = 0;
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        int status;
        const int workers = lines_noted("worker"), before = lines_noted("epoch");
        pid_t pid = start(p, &search, 2);
        wait_for_lines("worker", workers + 1);
        wait_for_lines("epoch", before + epochs[i]);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        killed += WIFSIGNALED(status);
        assert_no_worker_lives();
    }
    assert_true(killed >= 3);
    OK(supervise(p, &search, 2, 30, "d"));
    assert_done_once(4, false);
}

static void stop_and_go_on(int number, int expected)
{
    kas_search_options search = search_options(3);
    plan p = {.what = {"long torn", "long torn", "long torn"}};
    for (int i = 0; i < 4; i++) { /* one more than the faults after which an item ends */
        int status;
        const int before = lines_noted("epoch");
        pid_t pid = start(p, &search, 2);
        wait_for_lines("epoch", before + 1); /* by then the supervisor listens to signals */
        kill(pid, number);
        if (number != SIGINT) /* one that says the same changes nothing */
            kill(pid, SIGUSR2);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), expected);
        int count;
        kas_work *list = items(&count);
        for (int k = 0; k < count; k++)
            assert_true(list[k].state != KAS_WORK_RUNNING && list[k].deaths == 0);
        kas_work_list_free(list, count);
    }
    OK(supervise(p, &search, 2, 30, "d"));
    assert_done_once(3, true);
}

TEST_WITH(interrupted, set_up, tear_down)
{
    stop_and_go_on(SIGINT, KAS_INTERRUPTED);
}

TEST_WITH(preempted, set_up, tear_down)
{
    stop_and_go_on(SIGTERM, KAS_PREEMPTED);
}

static void assert_nothing_begins(const kas_search_options *search, double seconds)
{
    const int begun = lines_noted("begin");
    until = (double)time(NULL) + seconds;
    assert_int_equal(supervise((plan){0}, search, 1, 30, "d"), KAS_PREEMPTED);
    assert_int_equal(lines_noted("begin"), begun);
}

/* While nothing is known of an item, none begins in the last half minute. Then the baseline needs
 * more than three seconds to its first checkpoint, and less than two are left: no candidate begins
 * in that run, nor in the next one with less than three. */
TEST_WITH(too_little_time, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    setenv("KAS_TEST_BASELINE", "late await: begin", 1);
    assert_nothing_begins(&search, 25);
    least = 0.5;
    until = (double)time(NULL) + 5;
    assert_int_equal(supervise((plan){0}, &search, 1, 30, "d"), KAS_PREEMPTED);
    assert_int_equal(lines_noted("begin"), 1);
    assert_nothing_begins(&search, 2.5);
    assert_nothing_begins(&search, -1);
    until = 0;
    setenv("KAS_TEST_BASELINE", "ok", 1);
    OK(supervise((plan){0}, &search, 1, 30, "d"));
    assert_done_once(3, true);
}

/* Until a process has taken a signal that was sent to it: a second one of the kind would be lost.
 */
static void wait_until_taken(pid_t pid, int number)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    for (int i = 0; i < 3000; i++, nap(0.01)) {
        char line[256];
        unsigned long long pending = 0;
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        while (fgets(line, sizeof line, file) && sscanf(line, "ShdPnd: %llx", &pending) != 1)
            ;
        fclose(file);
        if (!(pending & 1ull << (number - 1)))
            return;
    }
    fail_msg("signal %d was not taken in 30 s", number);
}

/* The second signal does not wait for a worker that does not listen. */
TEST_WITH(second_signal, set_up, tear_down)
{
    kas_search_options search = search_options(1);
    int status;
    pid_t pid = start((plan){.what = {"hang"}}, &search, 1);
    wait_for_lines("hanging", 1);
    kill(pid, SIGINT);
    wait_until_taken(pid, SIGINT);
    nap(0.2);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* waits for its checkpoint */
    kill(pid, SIGINT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), KAS_INTERRUPTED);
    assert_no_worker_lives();
}

TEST_WITH(two_supervisors, set_up, tear_down)
{
    kas_search_options search = search_options(10);
    pid_t pid[2];
    for (int i = 0; i < 2; i++)
        pid[i] = start((plan){0}, &search, 2);
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    assert_done_once(10, true);
}

TEST_WITH(pruning, set_up, tear_down)
{
    kas_search_options search = search_options(4);
    strcpy(search.prune, "curve");
    OK(supervise((plan){.what = {"ok", "weak", "weak", "ok"}}, &search, 1, 30, "d"));
    int count;
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 0), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 1), KAS_WORK_PRUNED);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 2), KAS_WORK_PRUNED);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 3), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
    assert_int_equal(times_noted("epoch 1.1.0"), 1);
    assert_int_equal(times_noted("epoch 1.1.1"), 0);
}

/* A search that is stopped while candidate 1 asks gives its verdict all the same: the list would
 * else depend on when it was stopped. */
static void assert_judged_while_stopping(const kas_search_options *search, const char *what,
                                         kas_work_state expected)
{
    const plan p = {.what = {"ok", what}};
    int count, status;
    const pid_t pid = start(p, search, 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == KAS_PREEMPTED);
    for (int run = 0; run < 2; run++) {
        kas_work *list = items(&count);
        assert_string_equal(kas_work_state_name(state_of(list, count, KAS_WORK_CANDIDATE, 1)),
                            kas_work_state_name(expected));
        kas_work_list_free(list, count);
        OK(supervise(p, search, 1, 30, "d"));
    }
    assert_int_equal(times_noted("stopping"), 1);
    assert_int_equal(times_noted("epoch 1.1.1"), 0);
}

TEST_WITH(pruned_while_stopping, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    strcpy(search.prune, "curve");
    assert_judged_while_stopping(&search, "weak, stops the search", KAS_WORK_PRUNED);
}

TEST_WITH(too_slow_while_stopping, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    search.latency = 2;
    assert_judged_while_stopping(&search, "slow, stops it at once", KAS_WORK_OVER_LATENCY);
}

/* Whatever the number of workers: the same candidates are pruned. */
TEST_WITH(deterministic_pruning, set_up, tear_down)
{
    kas_search_options search = search_options(9);
    strcpy(search.prune, "deterministic");
    search.prune_window = 2;
    plan p = {.what = {"ok", "weak", "long", "weak", "ok", "weak", "long", "weak", "weak"}};
    for (int run = 0; run < 2; run++) {
        OK(supervise(p, &search, run ? 4 : 1, 30, "d"));
        int count;
        kas_work *list = items(&count);
        for (int k = 0; k < 9; k++) /* candidate 1 has nobody to be compared with */
            assert_string_equal(kas_work_state_name(state_of(list, count, KAS_WORK_CANDIDATE, k)),
                                strcmp(p.what[k], "weak") == 0 && k > 2 ? "pruned" : "finished");
        kas_work_list_free(list, count);
        OK(kas_remove_tree(study_dir));
    }
}

TEST_WITH(latency_budget, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    search.latency = 2;
    OK(supervise((plan){.what = {"ok", "slow", "ok"}}, &search, 4, 30, "d"));
    int count;
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 1), KAS_WORK_OVER_LATENCY);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 2), KAS_WORK_FINISHED);
    assert_int_equal(times_noted("epoch 1.1.0"), 0);
    kas_work_list_free(list, count);
}

/* A candidate's latency is told in that of the unmodified network, which is measured again when it
 * resumes and keeps the first one: otherwise the candidate's ratio would change. */
TEST_WITH(the_first_latency_of_the_baseline_stays, set_up, tear_down)
{
    kas_search_options search = search_options(1);
    const plan p = {.what = {"fast"}};
    int status, count;
    search.latency = 1; /* the candidate begins when the unmodified network was measured */
    setenv("KAS_TEST_BASELINE", "await: the signal", 1);
    pid_t pid = start(p, &search, 2);
    wait_for_lines("end 1.0", 1);
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), KAS_PREEMPTED);
    setenv("KAS_TEST_BASELINE", "slow", 1);
    OK(supervise(p, &search, 1, 30, "d"));
    assert_int_equal(times_noted("begin 0.0"), 2);
    kas_work *list = items(&count);
    assert_true(list[0].measured.latency == 1);
    assert_true(kas_objective_ratio(&search, list, count, &list[1]) == 0.5);
    kas_work_list_free(list, count);
}

TEST_WITH(nothing_valid, set_up, tear_down)
{
    kas_search_options search = search_options(2);
    assert_int_equal(supervise((plan){.what = {"failed", "abort"}}, &search, 1, 30, "d"),
                     KAS_NOTHING_VALID);
    assert_int_equal(times_noted("begin 3.0"), 0); /* no final training without a winner */
}

TEST_WITH(exhausted_space, set_up, tear_down)
{
    kas_search_options search = search_options(5);
    OK(supervise((plan){.limit = 2}, &search, 2, 30, "d"));
    assert_done_once(2, true);
}

TEST_WITH(by_time, set_up, tear_down)
{
    kas_search_options search = search_options(0);
    int count = 0;
    kas_work *list;
    /* A busy machine may have no time for a candidate: then it gets more. */
    for (search.time_limit = 0.6; count < 4 && search.time_limit < 60; search.time_limit *= 4) {
        OK(kas_remove_tree(study_dir));
        const kas_status status = supervise((plan){0}, &search, 1, 30, "d");
        assert_true(status == KAS_OK || status == KAS_NOTHING_VALID);
        list = items(&count);
        kas_work_list_free(list, count);
    }
    search.time_limit /= 4;
    assert_true(count >= 4 && count < 200 * search.time_limit);
    OK(supervise((plan){0}, &search, 1, 30, "d"));
    int again;
    list = items(&again);
    assert_int_equal(again, count);
    kas_work_list_free(list, again);
}

TEST_WITH(failed_baseline, set_up, tear_down)
{
    kas_search_options search = search_options(1);
    setenv("KAS_TEST_BASELINE", "diverged", 1);
    assert_int_equal(supervise((plan){0}, &search, 1, 30, "d"), KAS_FAILURE);
    assert_non_null(strstr(kas_error(), "baseline"));
    setenv("KAS_TEST_BASELINE", "ok", 1);
    OK(supervise((plan){0}, &search, 1, 30, "d"));
}

TEST_WITH(workers_that_cannot_start, set_up, tear_down)
{
    kas_search_options search = search_options(1);
    assert_int_equal(supervise((plan){0}, &search, 2, 30, "none"), KAS_BAD_INPUT);
    assert_string_equal(kas_error(), "no data set");
}

TEST_WITH(other_candidates_are_refused, set_up, tear_down)
{
    kas_search_options search = search_options(2);
    OK(supervise((plan){0}, &search, 1, 30, "d"));
    kas_store *store = open_store(&search);
    kas_work other = {.kind = KAS_WORK_CANDIDATE, .index = 2, .name = "other"};
    bool added;
    OK(kas_store_add(store, &other, &added));
    kas_store_close(store);
    OK(kas_remove_tree(study_dir));
    store = open_store(&search);
    other.index = 0;
    OK(kas_store_add(store, &other, &added));
    kas_store_close(store);
    setenv("KAS_TEST_BASELINE", "ok", 1);
    assert_int_equal(supervise((plan){0}, &search, 1, 30, "d"), KAS_STORE);
    assert_non_null(strstr(kas_error(), "candidate 0 is other"));
}

int main(int argc, char **argv)
{
    search_main(argc, argv, &fake);
    return run_all_tests(NULL, NULL);
}
