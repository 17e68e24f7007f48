#include "host/search/worker/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/search/worker/worker.h"

/* Runs between fork and exec, so it makes only calls that are safe there. */
static void become(const char *const *argv, int in, int out, int log, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        dup2(in, 0) < 0 || (log >= 0 && (dup2(log, 1) < 0 || dup2(log, 2) < 0)) ||
        dup2(out, KAS_WORKER_REPLY_FD) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) != 0)
        _exit(126);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

/* Returns a copy of `fd` that a dup2 to 0..3 cannot overwrite. */
static int out_of_the_way(int fd)
{
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    if (copy < 0 && errno == EINVAL)
        errno = EMFILE; /* the limit allows no descriptor that large */
    return copy;
}

static kas_status open_pipe(int end[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0)
        return kas_fail(KAS_FAILURE, "cannot create a pipe to a worker: %s", kas_strerror(errno));
    end[0] = out_of_the_way(low[0]);
    end[1] = out_of_the_way(low[1]);
    const int error = errno;
    close(low[0]);
    close(low[1]);
    if (end[0] >= 0 && end[1] >= 0)
        return KAS_OK;
    kas_status status =
        kas_fail(KAS_FAILURE, "cannot create a pipe to a worker: %s", kas_strerror(error));
    if (end[0] >= 0)
        close(end[0]);
    if (end[1] >= 0)
        close(end[1]);
    return status;
}

static kas_status open_log(const char *path, int *out)
{
    int low = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (low < 0)
        return kas_fail(KAS_FAILURE, "%s: cannot be opened: %s", path, kas_strerror(errno));
    *out = out_of_the_way(low);
    close(low);
    return *out >= 0 ? KAS_OK : kas_fail(KAS_FAILURE, "%s: %s", path, kas_strerror(errno));
}

kas_status kas_process_start(const char *const *argv, const char *log, kas_process *out)
{
    int command[2], reply[2], log_fd = -1;
    kas_status status = KAS_OK;
    *out = (kas_process){.to = -1, .from = -1};
    KAS_TRY(open_pipe(command));
    /* Only our end is non-blocking: the writer never waits for the reader. */
    if (fcntl(command[1], F_SETFL, O_NONBLOCK) != 0) {
        status = kas_fail(KAS_FAILURE, "cannot create a pipe to a worker: %s", kas_strerror(errno));
        goto close_command;
    }
    KAS_TRY_GOTO(open_pipe(reply), close_command);
    if (log)
        KAS_TRY_GOTO(open_log(log, &log_fd), close_reply);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(argv, command[0], reply[1], log_fd, parent);
    if (log_fd >= 0)
        close(log_fd);
    if (pid < 0) {
        status = kas_fail(KAS_FAILURE, "cannot fork a worker: %s", kas_strerror(errno));
        goto close_reply;
    }
    close(command[0]);
    close(reply[1]);
    *out = (kas_process){.pid = pid, .to = command[1], .from = reply[0]};
    return KAS_OK;
close_reply:
    close(reply[0]);
    close(reply[1]);
close_command:
    close(command[0]);
    close(command[1]);
    return status;
}

static void ignore_signal(int number)
{
    (void)number; /* not SIG_IGN, which the compilers that a process starts would inherit */
}

kas_status kas_process_ignore(int number)
{
    const struct sigaction action = {.sa_handler = ignore_signal, .sa_flags = SA_RESTART};
    KAS_CHECK_LIBC(sigaction(number, &action, NULL) == 0, KAS_FAILURE);
    return KAS_OK;
}

kas_status kas_process_begin(int oom_score)
{
    KAS_TRY(kas_process_ignore(SIGPIPE));
    /* Compilers started by this process must not hold the pipes open after its death. */
    KAS_CHECK_LIBC(fcntl(KAS_WORKER_REPLY_FD, F_SETFD, FD_CLOEXEC) == 0, KAS_FAILURE);
    KAS_CHECK_LIBC(fcntl(0, F_SETFD, FD_CLOEXEC) == 0, KAS_FAILURE);
    FILE *file = fopen("/proc/self/oom_score_adj", "we"); /* best effort */
    if (file) {
        fprintf(file, "%d", oom_score);
        fclose(file);
    }
    return KAS_OK;
}

static void end_group(int number)
{
    (void)number;
    kill(0, SIGKILL);
}

kas_status kas_process_lead(void)
{
    const struct sigaction action = {.sa_handler = end_group};
    static const int numbers[] = {SIGTERM, SIGHUP, SIGINT, SIGUSR1, SIGUSR2};
    /* end_group ends a whole group, so this process must have its own, whoever started it. */
    KAS_CHECK_LIBC(getpgrp() == getpid() || setpgid(0, 0) == 0, KAS_FAILURE);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        KAS_CHECK_LIBC(sigaction(numbers[i], &action, NULL) == 0, KAS_FAILURE);
    /* When the supervisor dies, this process gets a signal that it can handle. */
    KAS_CHECK_LIBC(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0, KAS_FAILURE);
    return KAS_OK;
}

void kas_process_close_input(kas_process *process)
{
    if (process->to >= 0)
        close(process->to);
    process->to = -1;
}

void kas_process_kill(kas_process *process)
{
    if (process->pid > 0 && kill(-process->pid, SIGKILL) != 0)
        kill(process->pid, SIGKILL); /* the group exists only once the process has begun to run */
}

bool kas_process_ended(const kas_process *process)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

int kas_process_reap(kas_process *process, double seconds)
{
    const double patience = 5; /* seconds after it was killed */
    int status = SIGKILL;
    kas_process_close_input(process);
    const struct timespec pause = {0, 5000000};
    for (double waited = 0; process->pid > 0 && waited < seconds + patience; waited += 0.005) {
        pid_t got = waitpid(process->pid, &status, WNOHANG);
        if (got == process->pid || (got < 0 && errno != EINTR))
            break;
        if (waited >= seconds)
            kas_process_kill(process);
        nanosleep(&pause, NULL);
    }
    /* This kills compilers that the worker left behind. The number of the group stays in use while
     * it has members. */
    if (process->pid > 0)
        kill(-process->pid, SIGKILL);
    if (process->from >= 0)
        close(process->from);
    *process = (kas_process){.to = -1, .from = -1};
    return status;
}
