/* Which faults of the machine count: those of one run, and none while the search stops. With real
 * workers (search_fixture.h). */
#include "search_done.h"

/* Adds candidate 0, whose worker was killed twice in earlier runs. */
static void add_unlucky(const kas_search_options *search, const char *what)
{
    kas_store *store = open_store(search);
    kas_work work = {.kind = KAS_WORK_CANDIDATE, .name = "kernel0", .kernel = (char *)what}, got;
    bool held;
    OK(kas_store_add(store, &work, &held));
    for (int i = 0; i < 2; i++) {
        OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "earlier|x|y|1|1", 60, &got, &held));
        assert_true(held);
        OK(kas_store_release(store, got.id, got.lease, true, &held));
        kas_work_clear(&got);
    }
    kas_store_close(store);
}

/* One kill in each of three batch jobs is no more than one in each. */
TEST_WITH(faults_of_several_runs, set_up, tear_down)
{
    static const plan p = {.what = {"killed-once"}};
    kas_search_options search = search_options(1);
    add_unlucky(&search, p.what[0]);
    OK(supervise(p, &search, 1, 30, "d"));
    int count;
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 0), KAS_WORK_FINISHED);
    assert_int_equal(list[1].deaths, 1);
    kas_work_list_free(list, count);
    assert_int_equal(times_noted("begin 1.0"), 2);
}

/* What ends a batch job may end its workers before they have saved anything. `most` items at once in
 * the worker. */
static void assert_no_fault_of_a_stop(plan p, int most)
{
    kas_search_options search = search_options(2);
    int count, status;
    pack = most;
    const pid_t pid = start(p, &search, 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == KAS_PREEMPTED);
    kas_work *list = items(&count);
    for (int i = 0; i < count; i++)
        assert_int_equal(list[i].deaths, 0);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 0), KAS_WORK_QUEUED);
    kas_work_list_free(list, count);
    OK(supervise(p, &search, 1, 30, "d"));
    pack = 1;
    list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 0), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
}

TEST_WITH(killed_while_stopping, set_up, tear_down)
{
    assert_no_fault_of_a_stop((plan){.what = {"stops the search, then dies"}}, 1);
}

TEST_WITH(killed_with_a_neighbour, set_up, tear_down)
{
    assert_no_fault_of_a_stop(
        (plan){.what = {"stops the search, then dies, await: begin 1.1", "await: stopping"}}, 2);
}

int main(int argc, char **argv)
{
    search_main(argc, argv, &fake);
    return run_all_tests(NULL, NULL);
}
