#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/cli/cli.h"

/* Of the first thread; others are given as much when the program starts. A shell's usual limit is
 * 8 MiB; commands take up to 128 KiB, libraries and their threads were not measured. */
enum { STACK_USUAL = 8 << 20, STACK_LEAST = 1 << 20 };

/* The program from its beginning. Returns only when that fails: then it goes on as it is. */
static void start_again(char **argv)
{
    char path[4096]; /* the real path, so that the process keeps its name in `ps` */
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return;
    path[length] = '\0';
    execv(path, argv);
}

/* A stack that is too small ends the program by a signal somewhere in the middle.  The limit is
 * raised where that is allowed. */
static bool has_stack(char **argv)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_LEAST)
        return true;
    limit.rlim_cur = limit.rlim_max < STACK_USUAL ? limit.rlim_max : STACK_USUAL;
    if (limit.rlim_cur < STACK_LEAST || setrlimit(RLIMIT_STACK, &limit) != 0) {
        fprintf(stderr,
                "kas-gpu: error: the limit on the stack is %llu KiB; at least %d are needed: "
                "ulimit -s %d\n",
                (unsigned long long)limit.rlim_cur >> 10, STACK_LEAST >> 10, STACK_USUAL >> 10);
        return false;
    }
    start_again(argv); /* threads get the new limit from the start only */
    return true;
}

/* libgomp's threads spin for milliseconds at the end of every parallel loop.  Where other processes
 * want the cores too (several workers, a shared machine) that time is lost many hundred times a
 * step: with a load of 10 on 2 cores a training step of ResNet-20 took 3,640 ms, and 490 ms with a
 * short spin.  The variable is read before main begins, so the program starts itself once more. */
static void spin_briefly(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
        return;
    if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0)
        start_again(argv);
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit on files then fails and says so */
    if (argc > 0) {
        if (!has_stack(argv))
            return KAS_FAILURE;
        spin_briefly(argv);
    }
    return kas_cli_main(argc, argv);
}
