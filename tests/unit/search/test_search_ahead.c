/* The helper that compiles ahead: what it is given and when, and that no result depends on it,
 * whatever becomes of it.  What it compiles is tested by tests/e2e/search_ahead.sh. */
#include "host/search/supervisor/ahead.h"
#include "search_done.h"

static kas_status helper_open(const kas_ahead_order *order, void **state)
{
    static int opened;
    note("worker %ld\n", (long)getpid()); /* for assert_no_worker_lives */
    note("helper %s\n", order->arch);
    if (strcmp(getenv("KAS_TEST_BASELINE"), "no helper") == 0)
        return kas_fail(KAS_UNSUPPORTED, "no compiler");
    *state = &opened;
    return KAS_OK;
}

static kas_status helper_make(void *state, const char *name, const char *kernel,
                              kas_compile_stats *stats)
{
    (void)state;
    note("ahead %s\n", name);
    if (strstr(kernel, "h-dies"))
        abort();
    while (strstr(kernel, "h-stuck"))
        nap(3600); /* a signal may end one */
    if (strstr(kernel, "h-mad") && write(KAS_WORKER_REPLY_FD, "{]\n", 3) != 3)
        abort();
    if (strstr(kernel, "h-slow"))
        nap(1);
    if (strstr(kernel, "h-deaf")) { /* answers, and never reads again */
        static const char made[] = "{\"type\":\"made\",\"made\":0,\"cpu_seconds\":0}\n";
        if (write(KAS_WORKER_REPLY_FD, made, strlen(made)) != (ssize_t)strlen(made))
            abort();
        while (true)
            nap(3600);
    }
    if (strstr(kernel, "h-refuses"))
        return kas_fail(KAS_FAILURE, "does not compile");
    *stats = (kas_compile_stats){.cpu_seconds = 1};
    return KAS_OK;
}

static void helper_close(void *state)
{
    (void)state;
}

static const kas_ahead_maker fake_maker = {helper_open, helper_make, helper_close};

static void wait_for(const char *line)
{
    for (int i = 0; i < 3000 && !times_noted(line); i++)
        nap(0.01);
    assert_int_equal(times_noted(line), 1);
}

/* The list, the attempts and the results are those without a helper. */
TEST_WITH(same_list, set_up, tear_down)
{
    static const int workers[] = {1, 1, 4}, looks[] = {0, 3, 3};
    kas_search_options search = search_options(8);
    kas_work *list[3];
    int count[3];
    setenv("KAS_TEST_BASELINE", "ok", 1);
    for (int run = 0; run < 3; run++) {
        if (run == 1)
            setenv("KAS_TEST_BASELINE", "await: ahead kernel0", 1);
        ahead = looks[run];
        OK(supervise((plan){0}, &search, workers[run], 30, "d"));
        assert_done_once(8, true);
        if (workers[run] == 1) /* of four one may begin it before the helper is there */
            assert_int_equal(times_noted("ahead kernel0"), run);
        for (int k = 0; k < 8; k++) {
            char line[32];
            snprintf(line, sizeof line, "ahead kernel%d", k);
            assert_true(times_noted(line) <= (run > 0));
        }
        list[run] = items(&count[run]);
        assert_int_equal(count[run], count[0]);
        OK(kas_remove_tree(study_dir));
        unlink(notes);
        setenv("KAS_TEST_BASELINE", "ok", 1);
    }
    for (int run = 1; run < 3; run++)
        for (int i = 0; i < count[0]; i++) {
            assert_int_equal(list[run][i].index, list[0][i].index);
            assert_int_equal(list[run][i].attempt, list[0][i].attempt);
            assert_string_equal(list[run][i].name, list[0][i].name);
            assert_true(list[run][i].measured.accuracy == list[0][i].measured.accuracy);
        }
    for (int run = 0; run < 3; run++)
        kas_work_list_free(list[run], count[run]);
}

/* Not more than that before one of them is begun; then the next. */
TEST_WITH(at_most_so_many, set_up, tear_down)
{
    kas_search_options search = search_options(6);
    kas_buf text = {0};
    ahead = 3;
    setenv("KAS_TEST_BASELINE", "await: ahead kernel2", 1);
    OK(supervise((plan){.what = {"await: ahead kernel3"}}, &search, 1, 30, "d"));
    assert_done_once(6, true);
    assert_int_equal(times_noted("helper fake"), 1);
    OK(kas_file_read(notes, 1 << 20, &text));
    const char *end = strstr(kas_buf_text(&text), "end 0.0\n");
    const char *fourth = strstr(kas_buf_text(&text), "ahead kernel3\n");
    assert_true(end && fourth && fourth > end);
    kas_buf_free(&text);
}

/* One that dies, hangs, talks nonsense or fails costs nobody anything. */
TEST_WITH(bad_helper, set_up, tear_down)
{
    kas_search_options search = search_options(6);
    ahead = 6;
    setenv("KAS_TEST_BASELINE", "await: ahead kernel5", 1);
    /* As long as a busy machine may take to start a helper. */
    OK(supervise((plan){.what = {"h-refuses", "h-dies", "ok", "h-mad", "h-stuck", "ok"}}, &search,
                 1, 10, "d"));
    assert_done_once(6, true);
    assert_no_worker_lives();
    assert_int_equal(times_noted("ahead kernel4"), 1);
    assert_int_equal(times_noted("helper fake"), 4);
}

/* Does not read: what it is sent, more than a pipe holds, keeps nobody waiting. */
TEST_WITH(deaf_helper, set_up, tear_down)
{
    kas_search_options search = search_options(3);
    static char large[300000];
    memset(large, ' ', sizeof large - 1);
    memcpy(large, "ok", 2);
    ahead = 3;
    setenv("KAS_TEST_BASELINE", "await: ahead kernel2", 1);
    OK(supervise((plan){.what = {"h-deaf", large, "ok"}}, &search, 1, 4, "d"));
    assert_done_once(3, true);
    assert_int_equal(times_noted("ahead kernel1"), 0); /* it never came to it */
    assert_int_equal(times_noted("helper fake"), 2);
}

/* To the worker and the helper; how many that are. */
static int signal_processes(int number)
{
    kas_buf text = {0};
    int others = 0;
    OK(kas_file_read(notes, 1 << 20, &text));
    for (const char *at = kas_buf_text(&text); (at = strstr(at, "worker ")); at++, others++)
        kill((pid_t)atol(at + strlen("worker ")), number);
    kas_buf_free(&text);
    return others;
}

/* All of them for longer than the limit; the supervisor is the first that goes on. */
TEST_WITH(everybody_was_stopped, set_up, tear_down)
{
    kas_search_options search = search_options(2);
    int status;
    ahead = 2;
    setenv("KAS_TEST_BASELINE", "await: ahead kernel1", 1);
    pid_t pid = fork();
    if (pid == 0)
        _exit(supervise((plan){.what = {"h-slow", "ok"}}, &search, 1, 4, "d"));
    wait_for("ahead kernel0");
    kill(pid, SIGSTOP);
    assert_int_equal(signal_processes(SIGSTOP), 2);
    nap(4.5);
    kill(pid, SIGCONT);
    nap(0.7); /* more than a turn of its loop */
    signal_processes(SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, KAS_OK);
    assert_done_once(2, true);
    assert_int_equal(times_noted("helper fake"), 1);
    assert_int_equal(times_noted("begin 0.0"), 1);
}

TEST_WITH(given_up, set_up, tear_down)
{
    kas_search_options search = search_options(5);
    ahead = 5;
    setenv("KAS_TEST_BASELINE", "await: ahead kernel2", 1);
    OK(supervise((plan){.what = {"h-dies", "h-dies", "h-dies", "ok", "ok"}}, &search, 1, 30, "d"));
    assert_done_once(5, true);
    assert_int_equal(times_noted("helper fake"), 3);
    assert_int_equal(times_noted("ahead kernel3"), 0);
}

TEST_WITH(cannot_start, set_up, tear_down)
{
    kas_search_options search = search_options(2);
    ahead = 2;
    setenv("KAS_TEST_BASELINE", "no helper", 1);
    OK(supervise((plan){0}, &search, 1, 30, "d"));
    assert_done_once(2, true);
    assert_true(times_noted("helper fake") <= 1);
    assert_int_equal(times_noted("ahead kernel0"), 0);
}

/* At work, not waiting: it does not see the end of its pipe. */
TEST_WITH(ends_with_its_supervisor, set_up, tear_down)
{
    kas_search_options search = search_options(2);
    static const int numbers[] = {SIGKILL, SIGINT};
    ahead = 2;
    setenv("KAS_TEST_BASELINE", "await: never", 1);
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t pid = start((plan){.what = {"h-stuck"}}, &search, 1);
        wait_for("ahead kernel0");
        kill(pid, numbers[i]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_no_worker_lives();
        unlink(notes);
    }
}

/* What was drawn ahead is begun only when it is due: not after the time is over. */
TEST_WITH(time_is_over, set_up, tear_down)
{
    kas_search_options search = search_options(0);
    int count;
    search.time_limit = 3;
    ahead = 3;
    setenv("KAS_TEST_BASELINE", "late, await: ahead kernel2", 1);
    assert_int_equal(supervise((plan){0}, &search, 1, 30, "d"), KAS_NOTHING_VALID);
    kas_work *list = items(&count);
    assert_int_equal(count, 1);
    assert_int_equal(times_noted("ahead kernel2"), 1);
    kas_work_list_free(list, count);
}

TEST_WITH(exhausted, set_up, tear_down)
{
    kas_search_options search = search_options(5);
    int count;
    ahead = 4;
    setenv("KAS_TEST_BASELINE", "await: ahead kernel1", 1);
    OK(supervise((plan){.limit = 2}, &search, 1, 30, "d"));
    kas_work *list = items(&count);
    assert_int_equal(count, 5);
    for (int k = 0; k < 2; k++)
        assert_int_equal(state_of(list, count, KAS_WORK_CANDIDATE, k), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "compile-ahead") == 0)
        return kas_ahead_run(&fake_maker);
    search_main(argc, argv, &fake);
    return run_all_tests(NULL, NULL);
}
