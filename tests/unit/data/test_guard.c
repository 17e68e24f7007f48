/* The guarded child: results, messages, crashes, endless loops, too much memory, inherited signals.
 */
#include "support/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/data/hdf5/guard.h"

/* Seconds of the processor and of the clock: a busy machine must not reach the limit that a test is
 * not about. */
static const kas_guard_limits generous = {256u << 20, 60, 60}, little_work = {256u << 20, 1, 60},
                              little_time = {256u << 20, 60, 2};

static kas_status succeed(void *argument)
{
    kas_guard_stage("succeeding");
    return *(int *)argument == 42 ? KAS_OK : KAS_FAILURE;
}

static kas_status refuse(void *argument)
{
    (void)argument;
    return kas_fail(KAS_BAD_INPUT, "the file is green, expected blue");
}

static kas_status crash(void *argument)
{
    (void)argument;
    kas_guard_stage("reading train/images");
    raise(SIGSEGV);
    return KAS_OK;
}

static kas_status leave(void *argument)
{
    (void)argument;
    _exit(0);
}

static kas_status spin(void *argument)
{
    (void)argument;
    kas_guard_stage("spinning");
    for (volatile unsigned i = 0;; i++)
        ;
    return KAS_OK;
}

static kas_status sleep_long(void *argument)
{
    (void)argument;
    kas_guard_stage("waiting");
    for (;;)
        pause();
    return KAS_OK;
}

static kas_status eat_memory(void *argument)
{
    (void)argument;
    void *volatile block = malloc((size_t)4 << 30);
    return block ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory");
}

static void expect(kas_guard_work work, kas_guard_limits limits, kas_status status,
                   const char *words)
{
    int answer = 42;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(kas_guard_run("f.h5", limits, work, &answer), status);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - start.tv_sec <= 40); /* the limit that it is about has ended it */
    if (status == KAS_OK)
        return;
    print_message("    %s\n", kas_error());
    char copy[256];
    strcpy(copy, words);
    char *rest = copy;
    for (char *word; (word = strsep(&rest, "|"));)
        if (!strstr(kas_error(), word))
            fail_msg("expected \"%s\" in: %s", word, kas_error());
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

TEST(results_come_back)
{
    expect(succeed, generous, KAS_OK, "");
    expect(refuse, generous, KAS_BAD_INPUT, "the file is green, expected blue");
}

TEST(ends_are_told_apart)
{
    expect(crash, generous, KAS_BAD_INPUT,
           "f.h5: reading train/images crashed|Segmentation fault|damaged");
    expect(leave, generous, KAS_BAD_INPUT, "f.h5: opening the file crashed|ended by itself");
    expect(spin, little_work, KAS_BAD_INPUT, "f.h5: spinning|1 seconds of processor time");
    expect(sleep_long, little_time, KAS_BAD_INPUT, "f.h5: waiting|2 seconds");
}

TEST(memory_is_limited)
{
#ifdef __SANITIZE_ADDRESS__
    print_message("SKIPPED: the address sanitizer reserves memory of its own\n");
    skip();
#endif
    expect(eat_memory, generous, KAS_NO_MEMORY, "no memory");
}

/* A parent that blocks or handles the signals on which the limits rest. */
static void on_signal(int number)
{
    (void)number;
}

TEST(inherited_signals_do_no_harm)
{
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    void (*before)(int) = signal(SIGALRM, on_signal);
    expect(sleep_long, little_time, KAS_BAD_INPUT, "waiting");
    signal(SIGALRM, before);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

RUN_TESTS()
