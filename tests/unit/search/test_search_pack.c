/* Several candidates at once in a worker: the same results, a fault costs the others a restart at
 * most and marks the guilty one only, what must be measured alone is, memory is not given twice. */
#include "search_done.h"

enum { MANY = 8 };

static void undisturbed(int items)
{
    assert_int_equal(times_noted("disturbed"), 0);
    assert_true(times_noted("quiet") >= items);
    assert_int_equal(times_noted("overcommitted"), 0);
}

TEST_WITH(same_results_in_any_pack, set_up, tear_down)
{
    kas_search_options search = search_options(MANY);
    static const int packs[] = {1, 2, 4};
    kas_work *list[3];
    int count[3], overlaps = 0;
    for (int run = 0; run < 3; run++) {
        pack = packs[run];
        OK(supervise((plan){.what = {"long", "long", "ok", "long"}}, &search, 1, 30, "d"));
        assert_done_once(MANY, true);
        undisturbed(MANY);
        list[run] = items(&count[run]);
        assert_int_equal(count[run], count[0]);
        OK(kas_remove_tree(study_dir));
        unlink(notes);
    }
    for (int i = 0; i < count[0]; i++) {
        overlaps += i > 0 && list[2][i].started < list[2][i - 1].ended;
        assert_true(i == 0 || list[0][i].started >= list[0][i - 1].ended);
        for (int run = 1; run < 3; run++) {
            assert_string_equal(list[run][i].name, list[0][i].name);
            assert_true(list[run][i].measured.accuracy == list[0][i].measured.accuracy);
        }
    }
    assert_true(overlaps >= 4);
    for (int run = 0; run < 3; run++)
        kas_work_list_free(list[run], count[run]);
}

TEST_WITH(only_the_guilty_are_marked, set_up, tear_down)
{
    kas_search_options search = search_options(12);
    plan p = {.what = {"long", "abort-always", "long", "exit-always", "memory-always", "long",
                       "lost-always", "nonsense-always", "killed-always", "long", "failed-always",
                       "diverged-always"}};
    static const kas_work_state expected[] = {
        KAS_WORK_FINISHED,      KAS_WORK_CRASHED,  KAS_WORK_FINISHED,    KAS_WORK_FAILED,
        KAS_WORK_OUT_OF_MEMORY, KAS_WORK_FINISHED, KAS_WORK_DEVICE_LOST, KAS_WORK_FAILED,
        KAS_WORK_MACHINE_FAULT, KAS_WORK_FINISHED, KAS_WORK_FAILED,      KAS_WORK_DIVERGED};
    int count;
    char line[64];
    pack = 4;
    OK(supervise(p, &search, 1, 30, "d"));
    kas_work *list = items(&count);
    for (int k = 0; k < 12; k++)
        assert_string_equal(kas_work_state_name(state_of(list, count, KAS_WORK_CANDIDATE, k)),
                            kas_work_state_name(expected[k]));
    assert_int_equal(state_of(list, count, KAS_WORK_BASELINE, 0), KAS_WORK_FINISHED);
    for (int k = 0; k < 12; k++)
        for (int e = 0; e < EPOCHS; e++) { /* what a checkpoint holds is not done again */
            snprintf(line, sizeof line, "epoch 1.%d.%d", k, e);
            assert_true(times_noted(line) <= 1);
        }
    assert_true(times_noted("begin 1.1") >= 2); /* with others, then alone */
    undisturbed(12);
    kas_work_list_free(list, count);
}

TEST_WITH(a_silent_one, set_up, tear_down)
{
    kas_search_options search = search_options(4);
    int count;
    pack = 3;
    OK(supervise((plan){.what = {"ok", "hang-always", "long", "ok"}}, &search, 1, 1.5, "d"));
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 1), KAS_WORK_HUNG);
    for (int k = 0; k < 4; k++)
        if (k != 1)
            assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, k), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
}

/* What its neighbours took may be why it failed: alone it goes on from its checkpoint. */
TEST_WITH(a_failure_beside_others, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    pack = 3;
    OK(supervise((plan){.what = {"failed", "long", "long"}}, &search, 1, 30, "d"));
    assert_done_once(3, true);
    assert_int_equal(times_noted("begin 1.0"), 2);
}

TEST_WITH(memory_is_given_once, set_up, tear_down)
{
    kas_search_options search = search_options(6);
    pack = 4;
    OK(supervise((plan){.what = {"big", "big long", "ok", "big", "long", "big"}}, &search, 1, 30,
                 "d"));
    assert_done_once(6, true);
    undisturbed(6);
}

/* Plans that are timed when a training begins: alone until it reports its first steps. */
TEST_WITH(alone_until_progress, set_up, tear_down)
{
    kas_search_options search = search_options(6);
    pack = 4;
    OK(supervise(
        (plan){.what = {"long tuned", "tuned", "long", "tuned big", "tuned", "long tuned"}},
        &search, 1, 30, "d"));
    assert_done_once(6, true);
    undisturbed(6 + 5);
    assert_true(times_noted("settled") > 0); /* by those who waited, while nobody was alone */
}

TEST_WITH(killed_packed_worker, set_up, tear_down)
{
    kas_search_options search = search_options(5);
    pack = 4;
    OK(supervise((plan){.what = {"long", "killed-once", "long", "ok", "long"}}, &search, 1, 30,
                 "d"));
    assert_done_once(5, false);
}

TEST_WITH(killed_packed_supervisor, set_up, tear_down)
{
    kas_search_options search = search_options(6);
    plan p = {.what = {"long", "long", "long", "long", "long", "long"}};
    static const int epochs[] = {0, 4, 2, 6}; /* that pass before the supervisor is killed */
    int killed = 0;
    pack = 3;
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        int status;
        const int workers = lines_noted("worker"), before = lines_noted("epoch");
        pid_t pid = start(p, &search, 1);
        wait_for_lines("worker", workers + 1);
        wait_for_lines("epoch", before + epochs[i]);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        killed += WIFSIGNALED(status);
        assert_no_worker_lives();
    }
    assert_true(killed >= 3);
    OK(supervise(p, &search, 1, 30, "d"));
    assert_done_once(6, false);
}

TEST_WITH(interrupted_packed, set_up, tear_down)
{
    kas_search_options search = search_options(6);
    plan p = {.what = {"long", "long", "long", "long", "long", "long"}};
    int status;
    pack = 3;
    pid_t pid = start(p, &search, 1);
    wait_for_lines("epoch 1", 1); /* of a candidate */
    kill(pid, SIGINT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), KAS_INTERRUPTED);
    OK(supervise(p, &search, 1, 30, "d"));
    assert_done_once(6, true);
}

int main(int argc, char **argv)
{
    search_main(argc, argv, &fake);
    return run_all_tests(NULL, NULL);
}
