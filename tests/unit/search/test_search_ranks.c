/* Final trainings that two workers share (supervisor/ranks.c): what becomes of an item when one of its
 * ranks or both end early. With real workers (search_fixture.h). */
#include "search_done.h"

/* What rank 1 does in a final training; `first`: in the item's first attempt. */
static kas_status second_rank(kas_slot *slot, const kas_task *task, bool first, kas_outcome *out)
{
    const char *what = task->kernel ? task->kernel : "";
    char end[48], key[32];
    if (strstr(what, "small"))
        return kas_fail(KAS_NO_MEMORY, "12 GB wanted by rank 1");
    if (strstr(what, "stuck") && first)
        nap(3600);
    if (strstr(what, "gone") || (strstr(what, "both") && first))
        raise(SIGKILL);
    if (strstr(what, "after")) {
        fake_key((int)task->kind, task->index, task->seed, key);
        snprintf(end, sizeof end, "await: end %s", key);
        await(slot, end);
        raise(SIGKILL);
    }
    out->state = KAS_WORK_FINISHED;
    return KAS_OK;
}

/* Rank 0 sees that the other one has ended, as it does in a group. */
static kas_status evaluate(void *own, kas_slot *slot, const kas_task *task, kas_outcome *out)
{
    const char *what = task->kernel ? task->kernel : "";
    const bool first = task->ranks && strstr(task->attempt, "attempt-1");
    if (!task->ranks)
        return fake_evaluate(own, slot, task, out);
    note("%s rank %d of %d\n", task->attempt, task->rank, task->ranks);
    if (task->rank == 1)
        return second_rank(slot, task, first, out);
    if (strstr(what, "both") && first)
        raise(SIGKILL);
    if (strstr(what, "small") || strstr(what, "gone") || (strstr(what, "stuck") && first))
        return kas_fail(KAS_MACHINE, "rank 1 has ended");
    return fake_evaluate(own, slot, task, out);
}

static const kas_evaluator with_ranks = {fake_open,  fake_enter, evaluate,
                                         fake_leave, fake_close, fake_settle};

static const kas_work *final_of(const kas_work *list, int count, int index)
{
    for (int i = 0; i < count; i++)
        if (list[i].kind == KAS_WORK_FINAL && list[i].index == index)
            return &list[i];
    fail_msg("candidate %d is no finalist", index);
    return NULL;
}

static void assert_met(const char *attempt, int times)
{
    char line[64];
    for (int rank = 0; rank < 2; rank++) {
        snprintf(line, sizeof line, "%s rank %d of 2", attempt, rank);
        if (times_noted(line) != times)
            fail_msg("\"%s\" noted %d times", line, times_noted(line));
    }
}

/* Five workers: two pairs, and one that has no part in final trainings. */
TEST_WITH(ranks_that_end_early, set_up, tear_down)
{
    static const plan p = {.what = {"small", "stuck", "gone", "both", "after", "ok"}};
    static const struct {
        kas_work_state state;
        int deaths;
    } expected[] = {{KAS_WORK_OUT_OF_MEMORY, 0}, {KAS_WORK_FINISHED, 1},
                    {KAS_WORK_MACHINE_FAULT, 2}, {KAS_WORK_FINISHED, 1},
                    {KAS_WORK_FINISHED, 0},      {KAS_WORK_FINISHED, 0}};
    kas_search_options search = search_options(6);
    search.finalists = 6;
    search.ranks = 2;
    assert_int_equal(supervise(p, &search, 5, 6, "d"), KAS_FAILURE); /* "gone" is missing */
    int count;
    kas_work *list = items(&count);
    for (int i = 0; i < 6; i++) {
        const kas_work *final = final_of(list, count, i);
        if (final->state != expected[i].state || final->deaths != expected[i].deaths)
            fail_msg("%s: %s (%s) after %d faults", p.what[i], kas_work_state_name(final->state),
                     final->reason, final->deaths);
    }
    assert_string_equal(final_of(list, count, 0)->reason, "12 GB wanted by rank 1");
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL_BASELINE, 0), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
    assert_met("final-0000-attempt-1", 1);
    assert_met("final-0000-attempt-2", 0); /* it has its result */
    assert_met("final-0001-attempt-2", 1);
    assert_met("final-0002-attempt-3", 1);
    assert_met("final-0002-attempt-4", 0);
    assert_met("final-0003-attempt-2", 1);
    assert_met("final-0004-attempt-2", 0);
    assert_met("final-baseline-attempt-1", 1);
    char path[KAS_STUDY_PATH];
    OK(kas_study_path(study_dir, "ranks", path));
    assert_int_equal(rmdir(path), 0); /* no file was left in it */
}

/* A search that takes part with fewer workers than ranks leaves the final trainings to others. */
TEST_WITH(too_few_workers, set_up, tear_down)
{
    kas_search_options search = search_options(2);
    search.ranks = 2;
    const pid_t pid = start((plan){0}, &search, 1);
    wait_for_lines("turns 1", 1);
    nap(0.5);
    kill(pid, SIGTERM);
    int ended;
    waitpid(pid, &ended, 0);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == KAS_PREEMPTED);
    int count;
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 1), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 1), KAS_WORK_QUEUED);
    kas_work_list_free(list, count);
    OK(supervise((plan){0}, &search, 2, 30, "d"));
    assert_met("final-0001-attempt-1", 1);
    assert_done_once(2, true);
}

/* The supervisor is killed while two workers share a final training: both end, and the next attempt
 * has another name. */
TEST_WITH(killed_supervisor, set_up, tear_down)
{
    static const plan p = {.what = {"long"}};
    kas_search_options search = search_options(1);
    search.ranks = 2;
    const pid_t pid = start(p, &search, 2);
    wait_for_lines("epoch 2.0.", 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_no_worker_lives();
    OK(supervise(p, &search, 2, 30, "d"));
    assert_done_once(1, false);
    assert_met("final-0000-attempt-2", 1);
}

int main(int argc, char **argv)
{
    search_main(argc, argv, &with_ranks);
    return run_all_tests(NULL, NULL);
}
