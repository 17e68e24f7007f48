/* How long `train` waits for the ranks that it has started (cli/ranks/ranks.c), with processes that do
 * as they are told in place of ranks. Each case is a command of its own, and all run at once. */
#include "support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/cli/ranks/ranks.h"
#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"

enum { GRACE = 10, LATE = GRACE + 3, PATIENCE = 60, MOST = 300 };

/* A rank: "CODE" ends at once with that exit code, "CODE+SECONDS" so long after SIGTERM; "hangs" never
 * ends. With "stop" behind these two words rank 1 sends SIGTERM to the command when both are ready. */
static volatile sig_atomic_t told;

static void on_term(int number)
{
    told = number;
}

static int as_rank(char **argv)
{
    kas_cli_ranks own = {.timeout = PATIENCE};
    int code = 0, seconds = -1;
    signal(SIGTERM, on_term);
    if (kas_cli_ranks_find("cpu", 2, &own) != KAS_OK)
        return 99;
    const char *what = argv[2 + own.rank];
    char ready[PATH_MAX + 8];
    snprintf(ready, sizeof ready, "%s/ready", own.folder);
    if (own.rank == 0)
        fclose(fopen(ready, "w"));
    while (argv[4] && own.rank == 1 && !kas_file_exists(ready))
        usleep(1000);
    if (argv[4] && own.rank == 1)
        kill(getppid(), SIGTERM);
    if (sscanf(what, "%d+%d", &code, &seconds) < 1)
        seconds = MOST;
    const double give_up = kas_monotonic() + MOST;
    while (seconds >= 0 && (!told || seconds == MOST) && kas_monotonic() < give_up)
        usleep(10000);
    for (const double end = kas_monotonic() + seconds; kas_monotonic() < end;)
        usleep(10000);
    return code;
}

static const struct {
    const char *rank[2];
    double timeout;
    bool stopped; /* by SIGTERM, when both are ready */
    int code;     /* of the command */
    double after; /* seconds */
    const char *says;
} cases[] = {
    /* rank 0 still writes the checkpoint when the other one has stopped */
    {{"75+13", "75+0"}, PATIENCE, true, KAS_PREEMPTED, LATE, ""},
    {{"130+13", "130+0"}, PATIENCE, true, KAS_INTERRUPTED, LATE, ""},
    /* and fails over it: that counts, and not that the other one had stopped */
    {{"3+13", "75+0"}, PATIENCE, true, KAS_BAD_INPUT, LATE, "rank 0 of 2 failed first"},
    /* a rank that has failed gives the other one ten seconds */
    {{"hangs", "5"}, PATIENCE, false, KAS_DEVICE, GRACE, "rank 1 of 2 failed first"},
    {{"hangs", "5+0"}, PATIENCE, true, KAS_DEVICE, GRACE, "rank 1 of 2 failed first"},
    /* one that has ended well, or has stopped, the timeout */
    {{"0", "hangs"}, 4, false, KAS_FAILURE, 4, "rank 1 of 2 was ended by signal 9"},
    {{"75+0", "hangs"}, 4, true, KAS_FAILURE, 4, "rank 1 of 2 was ended by signal 9"},
    {{"0", "0"}, PATIENCE, false, KAS_OK, 0, ""},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct answer {
    int status;
    double seconds;
    char says[256];
} answer;

static answer run(int i)
{
    char *argv[] = {"train", (char *)(uintptr_t)cases[i].rank[0],
                    (char *)(uintptr_t)cases[i].rank[1], cases[i].stopped ? "stop" : NULL, NULL};
    const kas_cli_ranks ranks = {.ranks = 2, .timeout = cases[i].timeout};
    answer out = {0};
    const double start = kas_monotonic();
    out.status = kas_cli_ranks_run(&ranks, argv);
    out.seconds = kas_monotonic() - start;
    snprintf(out.says, sizeof out.says, "%s", out.status ? kas_error() : "");
    return out;
}

TEST(the_other_rank_has_as_long_as_is_said)
{
    int from[CASES], status;
    pid_t pid[CASES];
    fflush(NULL);
    for (int i = 0; i < CASES; i++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        if ((pid[i] = fork()) == 0) {
            const answer mine = run(i);
            _exit(write(pipes[1], &mine, sizeof mine) != (ssize_t)sizeof mine);
        }
        close(pipes[1]);
        from[i] = pipes[0];
    }
    for (int i = 0; i < CASES; i++) {
        answer a;
        assert_int_equal(read(from[i], &a, sizeof a), sizeof a);
        close(from[i]);
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        printf("%s and %s: %d after %.2f s, \"%s\"\n", cases[i].rank[0], cases[i].rank[1], a.status,
               a.seconds, a.says);
        assert_int_equal(a.status, cases[i].code);
        assert_non_null(strstr(a.says, cases[i].says));
        assert_true(a.seconds >= cases[i].after - 0.5);
        assert_true(a.seconds < cases[i].after + PATIENCE / 2);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "train") == 0)
        return as_rank(argv);
    kas_log_set_level(KAS_LOG_QUIET);
    return run_all_tests(NULL, NULL);
}
