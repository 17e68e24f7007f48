/* The process between the supervisor and the program of --propose. It is started as a worker is
 * (process.h): standard input has the question, descriptor KAS_WORKER_REPLY_FD takes the answer,
 * and standard error is the log. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/search/supervisor/proposer.h"
#include "host/search/worker/worker.h"

/* Runs between fork and exec. The program gets three descriptors, and signals as usual. */
static void become_shell(const char *command, int errors)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    if (dup2(KAS_WORKER_REPLY_FD, 1) < 0 || dup2(errors, 2) < 0 || close_range(3, ~0U, 0) != 0 ||
        sigaction(SIGPIPE, &usual, NULL) != 0 || sigaction(SIGXFSZ, &usual, NULL) != 0)
        _exit(126);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void write_all(const char *text, size_t size)
{
    for (ssize_t written; size > 0; text += written, size -= (size_t)written) {
        written = write(2, text, size);
        if (written < 0)
            return; /* a full disk; nobody needs this log */
    }
}

/* Copies what the program writes to its standard error to the log, up to a limit. */
static void copy_errors(int from)
{
    char text[4096];
    size_t room = KAS_PROPOSE_BYTES, left_out = 0;
    for (ssize_t got; (got = read(from, text, sizeof text)) != 0;) {
        if (got < 0 && errno != EINTR)
            break;
        const size_t size = got < 0 ? 0 : (size_t)got, kept = size < room ? size : room;
        write_all(text, kept);
        room -= kept;
        left_out += size - kept;
    }
    if (left_out)
        dprintf(2, "\n%zu more bytes are left out\n", left_out);
}

kas_status kas_propose_run(const char *command)
{
    int errors[2], status = 0;
    KAS_TRY(kas_process_lead());
    KAS_CHECK_LIBC(pipe(errors) == 0, KAS_FAILURE);
    const pid_t pid = fork();
    KAS_CHECK_LIBC(pid >= 0, KAS_FAILURE);
    if (pid == 0)
        become_shell(command, errors[1]);
    close(0); /* only the program holds the pipes: their ends are its ends */
    close(KAS_WORKER_REPLY_FD);
    close(errors[1]);
    copy_errors(errors[0]);
    while (waitpid(pid, &status, 0) < 0)
        KAS_CHECK_LIBC(errno == EINTR, KAS_FAILURE);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return code ? kas_fail((kas_status)code, "%s", "") : KAS_OK;
}
