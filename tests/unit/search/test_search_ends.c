/* How a study ends: objectives, finalists, seeds, an answer that changes, and none. With real
 * workers (search_fixture.h). */
#include "search_done.h"

#include "host/leaderboard/finals.h"
#include "host/store/sql.h"

static kas_search_options search_for(int objective, int candidates, int finalists, int seeds)
{
    kas_search_options o = search_options(candidates);
    o.objective = objective;
    o.latency = objective == KAS_OBJECTIVE_ACCURACY ? 0 : 1;
    o.finalists = finalists;
    o.seeds = seeds;
    o.max_loss = 4;
    return o;
}

static void assert_answer(const kas_work *list, int count, int expected)
{
    const kas_work *answer = kas_finals_answer(list, count);
    assert_non_null(answer);
    assert_int_equal(answer->index, expected);
    assert_int_equal(answer->state, KAS_WORK_FINISHED);
}

/* The unmodified network has 50% and a latency of 1. */
TEST_WITH(finalists_and_seeds, set_up, tear_down)
{
    static const plan p = {.what = {"fast", "fast weak", "slow", "fast level 52 51", "level 60 60",
                                    "fast level 55 40"}};
    kas_search_options search = search_for(KAS_OBJECTIVE_FRONTIER, 6, 2, 2);
    OK(supervise(p, &search, 2, 30, "d"));
    int count;
    kas_work *list = items(&count);
    assert_int_equal(count, 1 + 6 + 3 * 2);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 2), KAS_WORK_OVER_LATENCY);
    assert_int_equal(times_noted("epoch 1.2.0"), 0); /* slower than unmodified: not trained */
    assert_answer(list, count, 3); /* as fast as 0, more accurate; 5 is not confirmed */
    static const char *const begun[] = {"begin 2.3",   "begin 2.3s1", "begin 2.4",
                                        "begin 2.4s1", "begin 3.0",   "begin 3.0s1"};
    for (int i = 0; i < 6; i++)
        if (times_noted(begun[i]) != 1)
            fail_msg("\"%s\": %d times", begun[i], times_noted(begun[i]));
    kas_finalist figures[KAS_FINALISTS_MOST + 1];
    assert_int_equal(kas_finals_of(list, count, figures), 3);
    assert_true(figures[1].answers && figures[1].seeds == 2 && figures[1].pairs == 2);
    assert_true(fabs(figures[0].accuracy.mean - 0.505) < 1e-12); /* 50 and 51 */
    assert_true(fabs(figures[1].difference.mean - 0.02) < 1e-12);
    assert_true(!figures[2].answers && figures[2].work->index == 4);
    kas_work_list_free(list, count);
    OK(supervise(p, &search, 1, 30, "d")); /* again: nothing is left to do */
    assert_int_equal(times_noted("begin 3.0s1"), 1);
}

static kas_status set_options(void *text, const kas_study *present, kas_study_change *out)
{
    (void)present;
    out->options = strdup(text);
    return KAS_OK;
}

static void revise(kas_study_revision *how, kas_search_options *search, int candidates)
{
    search->candidates = candidates;
    kas_store *store = open_store(search);
    kas_buf text = {0};
    kas_search_options_write(search, &text);
    OK(kas_store_revise(store, how, text.data));
    kas_buf_free(&text);
    kas_store_close(store);
}

/* What kas_session_begin does to a study of fewer candidates; then the search goes on. */
static kas_status grow(plan p, kas_search_options *search, int candidates)
{
    revise(more_candidates, search, candidates);
    return supervise(p, search, 2, 30, "d");
}

/* A checkpoint as a process leaves it that was killed before it could delete it. */
static void leave_checkpoint(char path[KAS_STUDY_PATH])
{
    OK(kas_study_dir_make(study_dir));
    OK(kas_study_path(study_dir, "checkpoints/0001.ckpt.start", path));
    OK(kas_file_write_atomic(path, "w", 1));
}

/* No kernel within the loss: that is said, with the nearest; nothing is lost, and more candidates
 * may have one. */
TEST_WITH(no_kernel_within_the_loss, set_up, tear_down)
{
    static const plan p = {.what = {"fast weak", "fast level 45 45", "fast level 48 50"}};
    kas_search_options search = search_for(KAS_OBJECTIVE_LATENCY, 2, 2, 1);
    char left[KAS_STUDY_PATH];
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            leave_checkpoint(left);
        assert_int_equal(supervise(p, &search, 1, 30, "d"), KAS_NOTHING_VALID);
        if (!strstr(kas_error(), "--max-loss 4") || !strstr(kas_error(), "kernel1") ||
            !strstr(kas_error(), "loses 5.00 points"))
            fail_msg("%s", kas_error());
    }
    assert_false(kas_file_exists(left));
    assert_int_equal(lines_noted("begin 2"), 0);
    assert_int_equal(lines_noted("begin 3"), 0);
    OK(grow(p, &search, 3));
    int count;
    kas_work *list = items(&count);
    assert_answer(list, count, 2);
    assert_int_equal(count, 1 + 3 + 3);
    kas_work_list_free(list, count);
    assert_int_equal(times_noted("begin 1.1"), 1);
}

/* A signal while the last item ends is no reason to run the search again, where nothing follows. */
static void assert_stopped_last(const kas_search_options *search, const char *level, int expected)
{
    char what[64];
    int status;
    snprintf(what, sizeof what, "fast level %s, stops it last", level);
    const pid_t pid = start((plan){.what = {"fast weak", what}}, search, 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
    assert_int_equal(times_noted("end 1.1"), 1);
    OK(kas_remove_tree(study_dir));
    assert_int_equal(unlink(notes), 0);
}

TEST_WITH(stopped_at_the_last_item, set_up, tear_down)
{
    kas_search_options search = search_for(KAS_OBJECTIVE_LATENCY, 2, 1, 1);
    assert_stopped_last(&search, "40 40", KAS_NOTHING_VALID);
    assert_stopped_last(&search, "50 50", KAS_PREEMPTED); /* its final training is left */
    search.finalists = 0;
    assert_stopped_last(&search, "50 50", KAS_OK);
    search.candidates = 3;
    assert_stopped_last(&search, "50 50", KAS_PREEMPTED);
}

/* Workers that send lines all the time keep no signal away. */
TEST_WITH(stopped_while_workers_talk, set_up, tear_down)
{
    const kas_search_options search = search_for(KAS_OBJECTIVE_ACCURACY, 6, 1, 1);
    int status;
    const pid_t pid = start(
        (plan){.what = {"chatty", "chatty", "chatty", "chatty", "chatty", "chatty"}}, &search, 6);
    wait_for_lines("begin 1", 6);
    nap(0.2);
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), KAS_PREEMPTED);
    assert_int_equal(times_noted("heard"), 6);
}

/* A signal counts between two candidates that never run. */
TEST_WITH(stopped_while_candidates_are_drawn, set_up, tear_down)
{
    const kas_search_options search = search_for(KAS_OBJECTIVE_ACCURACY, 2, 1, 1);
    plan p = {.next = 0};
    int status, count;
    for (int i = 0; i < MAX_CANDIDATES; i++)
        p.what[i] = "predicted at length";
    const pid_t pid = start(p, &search, 1);
    wait_for_lines("end 0.0", 1);
    nap(0.3);
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), KAS_PREEMPTED);
    kas_work *list = items(&count);
    kas_work_list_free(list, count);
    assert_in_range(count, 2, 1 + 12);
}

/* The answer changes to another finalist and back: what is trained stays, but the weights in best/
 * are the answer's. */
TEST_WITH(an_answer_that_comes_back, set_up, tear_down)
{
    static const plan p = {.what = {"level 60 50", "level 58 40", "level 59 55", "level 61 30"}};
    kas_search_options search = search_for(KAS_OBJECTIVE_ACCURACY, 2, 2, 1);
    int count;
    OK(supervise(p, &search, 1, 30, "d"));
    kas_work *list = items(&count);
    assert_answer(list, count, 0);
    kas_work_list_free(list, count);
    OK(grow(p, &search, 3));
    list = items(&count);
    assert_answer(list, count, 2);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 0), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_EARLIER_FINAL, 1), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
    assert_int_equal(times_noted("begin 2.0"), 1); /* it only explores now */
    OK(grow(p, &search, 4));
    list = items(&count);
    assert_answer(list, count, 0);
    assert_int_equal(state_of(list, count, KAS_WORK_EARLIER_FINAL, 2), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
    assert_int_equal(times_noted("begin 2.0"), 2); /* best/ had the weights of 2 */
    assert_int_equal(times_noted("begin 2.3"), 1);
    assert_int_equal(times_noted("begin 3.0"), 1);
}

/* Puts the final training of the unmodified network back to what a kill left of it. */
static void cut_final_baseline(const kas_search_options *search, const char *state)
{
    kas_store *store = open_store(search);
    OK(kas_sql_run(store, NULL,
                   "UPDATE work SET state = ?, owner = '', lease_until = 0, ended = NULL"
                   " WHERE kind = ?",
                   "ti", state, (int64_t)KAS_WORK_FINAL_BASELINE));
    kas_store_close(store);
}

/* More candidates are evaluated also where only the unmodified network's final training is left. */
TEST_WITH(grown_before_the_end, set_up, tear_down)
{
    static const plan p = {.what = {"level 60 60", "level 58 40", "level 57 41", "level 62 62"}};
    static const char *const cut[] = {"queued", "running"};
    kas_search_options search = search_for(KAS_OBJECTIVE_ACCURACY, 2, 1, 1);
    OK(supervise(p, &search, 1, 30, "d"));
    for (int i = 0; i < 2; i++) {
        cut_final_baseline(&search, cut[i]);
        OK(grow(p, &search, 3 + i));
        assert_int_equal(times_noted("begin 3.0"), 2 + i);
    }
    int count;
    kas_work *list = items(&count);
    assert_answer(list, count, 3);
    kas_work_list_free(list, count);
}

/* A search that another command gives more candidates draws them before it ends; and the next run
 * goes on with a study that ended with too few. */
TEST_WITH(grown_while_it_runs, set_up, tear_down)
{
    static const plan p = {.what = {"level 60 60", "level 58 40 await: grown"}};
    kas_search_options search = search_for(KAS_OBJECTIVE_ACCURACY, 2, 1, 1);
    int status, count;
    const pid_t pid = start(p, &search, 1);
    wait_for_lines("begin 1.1", 1);
    revise(more_candidates, &search, 4);
    note("grown\n");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(times_noted("begin 1.3"), 1);
    assert_all_done_once(4, 2, true);
    revise(set_options, &search, 5);
    OK(supervise(p, &search, 1, 30, "d"));
    kas_work *list = items(&count);
    assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, 4), KAS_WORK_FINISHED);
    assert_answer(list, count, 0);
    kas_work_list_free(list, count);
}

/* Publishes a kernel as the session does when a search has ended well. */
static void publish(const char *model)
{
    static const char *const files[] = {"best/model.json", "best/kernel.json"};
    char path[KAS_STUDY_PATH];
    for (int i = 0; i < 2; i++) {
        OK(kas_study_path(study_dir, files[i], path));
        OK(kas_file_write_atomic(path, model, strlen(model)));
    }
}

static void assert_published(bool expected)
{
    char model[KAS_STUDY_PATH], kernel[KAS_STUDY_PATH];
    OK(kas_study_path(study_dir, "best/model.json", model));
    OK(kas_study_path(study_dir, "best/kernel.json", kernel));
    assert_int_equal(kas_file_exists(model), expected);
    assert_int_equal(kas_file_exists(kernel), expected);
}

/* best/ never has the kernel of one answer beside the weights of another. What it has of an answer
 * that stays is not touched; what cannot be read is of no answer. */
TEST_WITH(a_published_answer_that_changes, set_up, tear_down)
{
    static const plan p = {
        .what = {"level 60 60", "level 58 40", "level 57 41", "level 62 62", "level 63 63"}};
    kas_search_options search = search_for(KAS_OBJECTIVE_ACCURACY, 2, 1, 1);
    OK(supervise(p, &search, 1, 30, "d"));
    publish("{\"kernel\": \"kernel0\"}");
    OK(grow(p, &search, 3));
    assert_published(true);
    OK(grow(p, &search, 4));
    assert_int_equal(times_noted("begin 2.3"), 1);
    assert_published(false);
    publish("{\"kernel\": ");
    OK(grow(p, &search, 5));
    assert_int_equal(times_noted("begin 2.4"), 1);
    assert_published(false);
}

/* A finalist that only explores may fail; the answer and the unmodified network may not. */
TEST_WITH(finalists_that_fail, set_up, tear_down)
{
    static const plan p = {.what = {"level 60 60", "level 59 50", "level 58 40"}};
    kas_search_options search = search_for(KAS_OBJECTIVE_ACCURACY, 3, 2, 1);
    setenv("KAS_TEST_FINAL_FAILS", "1", 1);
    OK(supervise(p, &search, 1, 30, "d"));
    int count;
    kas_work *list = items(&count);
    assert_answer(list, count, 0);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 1), KAS_WORK_DIVERGED);
    kas_work_list_free(list, count);
    OK(kas_remove_tree(study_dir));
    setenv("KAS_TEST_FINAL_FAILS", "0", 1);
    assert_int_equal(supervise(p, &search, 1, 30, "d"), KAS_FAILURE);
    assert_non_null(strstr(kas_error(), "final-0000"));
    unsetenv("KAS_TEST_FINAL_FAILS");
    OK(supervise(p, &search, 1, 30, "d")); /* tried again */
}

/* Who is the fastest by the latencies of the search is timed in turns, until the fastest of all is
 * one that was: also after a kill. */
TEST_WITH(the_fastest_in_turns, set_up, tear_down)
{
    static const plan p = {.what = {"fast level 54 54 turns 1.2", "fast level 53 53 turns 0.80",
                                    "fast level 52 52 turns 0.70, in turns killed",
                                    "fast level 51 51 turns 0.75"}};
    kas_search_options search = search_for(KAS_OBJECTIVE_FRONTIER, 4, 1, 1);
    OK(supervise(p, &search, 2, 30, "d"));
    int count, timed = 0;
    kas_work *list = all_items(&count);
    kas_finalist figures[KAS_FINALISTS_MOST + 1];
    assert_answer(list, count, 2);
    assert_int_equal(kas_finals_of(list, count, figures), 2);
    assert_true(figures[1].ratio == 0.70 && figures[1].ratio_high == 0.70 + 0.01);
    assert_true(isnan(figures[0].ratio));
    for (int i = 0; i < count; i++)
        timed += list[i].kind == KAS_WORK_TURNS && list[i].state == KAS_WORK_FINISHED;
    assert_int_equal(timed, 4);
    kas_work_list_free(list, count);
    for (int i = 0; i < 4; i++) {
        char line[32];
        snprintf(line, sizeof line, "turns %d", i);
        assert_int_equal(times_noted(line), i == 2 ? 2 : 1);
    }
    assert_int_equal(lines_noted("begin 2"), 1);
}

/* A kernel that kills its worker in turns keeps the latency of the search; where another machine's
 * latency is the limit nothing is timed. */
TEST_WITH(not_in_turns, set_up, tear_down)
{
    static const plan p = {
        .what = {"fast level 54 54, in turns dies", "fast level 53 53 turns 0.60"}};
    kas_search_options search = search_for(KAS_OBJECTIVE_FRONTIER, 2, 1, 1);
    OK(supervise(p, &search, 1, 30, "d"));
    int count;
    kas_work *list = all_items(&count);
    kas_finalist figures[KAS_FINALISTS_MOST + 1];
    assert_answer(list, count, 0);
    assert_int_equal(state_of(list, count, KAS_WORK_TURNS, 0), KAS_WORK_CRASHED);
    assert_int_equal(kas_finals_of(list, count, figures), 2);
    assert_true(isnan(figures[1].ratio) && figures[1].latency == 0.5);
    kas_work_list_free(list, count);
    assert_int_equal(times_noted("turns 0"), 1);
    assert_int_equal(times_noted("turns 1"), 0);
    OK(kas_remove_tree(study_dir));
    assert_int_equal(unlink(notes), 0);
    search = search_for(KAS_OBJECTIVE_ACCURACY, 2, 2, 1);
    strcpy(search.latency_on, "h100");
    OK(supervise(p, &search, 1, 30, "d"));
    assert_int_equal(lines_noted("turns"), 0);
    assert_int_equal(lines_noted("begin 2"), 2);
}

/* Killed and begun again at random moments: everything is done, and nothing twice. */
TEST_WITH(killed_during_the_end, set_up, tear_down)
{
    static const plan p = {.what = {"fast long", "fast long level 52 52", "long level 60 60"}};
    const kas_search_options search = search_for(KAS_OBJECTIVE_FRONTIER, 3, 2, 3);
    for (int round = 0; round < 6; round++) {
        const pid_t pid = start(p, &search, 1 + round % 2);
        nap(0.3 + 0.17 * round);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_no_worker_lives();
    }
    OK(supervise(p, &search, 2, 30, "d"));
    assert_all_done_once(3, 9, false);
    int count;
    kas_work *list = items(&count);
    assert_answer(list, count, 1);
    kas_work_list_free(list, count);
}

int main(int argc, char **argv)
{
    search_main(argc, argv, &fake);
    return run_all_tests(NULL, NULL);
}
