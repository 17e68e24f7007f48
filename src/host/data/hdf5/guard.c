#include "host/data/hdf5/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* One page that parent and child share. */
typedef struct report {
    int finished; /* the work returned; otherwise it crashed or was killed */
    kas_status status;
    char stage[256];
    char error[2048];
} report;

static report *current; /* set in the child only */

void kas_guard_stage(const char *format, ...)
{
    if (!current)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(current->stage, sizeof current->stage, format, args);
    va_end(args);
}

static uint64_t address_space_in_use(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%llu", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Sets a limit. At the hard limit of processor time the kernel sends SIGKILL, which does not tell
 * its cause, so that limit is `slack` above the soft one, at which it sends SIGXCPU. */
static bool lower_limit(int resource, uint64_t value, uint64_t slack)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0)
        return false;
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > value + slack)
        limit.rlim_max = value + slack;
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    return setrlimit(resource, &limit) == 0;
}

/* Prepares the child. Signals that end a runaway child get their default handlers; those that the
 * user sends (Ctrl-C) are left to the parent. stdout and stderr go to /dev/null, because glibc and
 * HDF5 write there when they crash. */
static bool enter_child(pid_t parent, kas_guard_limits limits)
{
    static const int fatal[] = {SIGALRM, SIGXCPU, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], SIG_DFL);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        return false;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
        return false;
    alarm(limits.wall_seconds);
    return lower_limit(RLIMIT_CORE, 0, 0) && lower_limit(RLIMIT_CPU, limits.cpu_seconds, 5) &&
           lower_limit(RLIMIT_AS, address_space_in_use() + limits.memory_bytes, 0);
}

static _Noreturn void run_child(report *shared, pid_t parent, kas_guard_limits limits,
                                kas_guard_work work, void *argument)
{
    current = shared;
    if (enter_child(parent, limits))
        shared->status = work(argument);
    else
        shared->status =
            kas_fail(KAS_FAILURE, "cannot limit a child process: %s", kas_strerror(errno));
    if (shared->status != KAS_OK)
        snprintf(shared->error, sizeof shared->error, "%s", kas_error());
    shared->finished = 1;
    _exit(0);
}

static kas_status explain(const char *path, kas_guard_limits limits, const report *shared, int wait)
{
    if (shared->finished)
        return shared->status == KAS_OK ? KAS_OK : kas_fail(shared->status, "%s", shared->error);
    int number = WIFSIGNALED(wait) ? WTERMSIG(wait) : 0;
    if (number == SIGALRM || number == SIGXCPU)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s did not end within %u seconds of processor time or %u seconds in "
                        "all: the file is damaged, or lies on a disk that does not answer",
                        path, shared->stage, limits.cpu_seconds, limits.wall_seconds);
    if (number == SIGKILL)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s was killed: its time limit was reached or the machine is out of "
                        "memory",
                        path, shared->stage);
    return kas_fail(KAS_BAD_INPUT, "%s: %s crashed the HDF5 library (%s): the file is damaged",
                    path, shared->stage, number ? strsignal(number) : "it ended by itself");
}

kas_status kas_guard_run(const char *path, kas_guard_limits limits, kas_guard_work work,
                         void *argument)
{
    report *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return kas_fail(KAS_NO_MEMORY, "cannot share memory with a child process: %s",
                        kas_strerror(errno));
    snprintf(shared->stage, sizeof shared->stage, "opening the file");
    kas_status status;
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        run_child(shared, parent, limits, work, argument);
    if (child < 0) {
        status = kas_fail(KAS_FAILURE, "cannot start a child process to read %s: %s", path,
                          kas_strerror(errno));
    } else {
        int wait = 0;
        while (waitpid(child, &wait, 0) < 0 && errno == EINTR)
            ;
        status = explain(path, limits, shared, wait);
    }
    munmap(shared, sizeof *shared);
    return status;
}
