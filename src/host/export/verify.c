/* Runs the exported module in a Python that has torch. */
#include "host/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Debian's torch belongs to /usr/bin/python3, which need not be the first on the PATH. */
static const char *const pythons[] = {"python3", "/usr/bin/python3"};

static void child(const char *const *argv, int output)
{
    /* Python must leave no __pycache__ in the user's folder. */
    if (setenv("PYTHONDONTWRITEBYTECODE", "1", 1) != 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        _exit(126);
    close(output);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

static kas_status read_all(int from, kas_buf *output)
{
    char block[4096];
    ssize_t got;
    while ((got = read(from, block, sizeof block)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        KAS_CHECK_LIBC(got > 0, KAS_FAILURE);
        kas_buf_add(output, block, (size_t)got);
    }
    return kas_buf_status(output);
}

/* Runs a program to its end. *code gets its exit code, or 128 + signal when it was killed. */
static kas_status run(const char *const *argv, kas_buf *output, int *code)
{
    int ends[2], wait_status;
    KAS_CHECK_LIBC(pipe(ends) == 0, KAS_FAILURE);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(argv, ends[1]);
    }
    close(ends[1]);
    kas_status status = KAS_OK;
    if (pid < 0)
        status = kas_fail_errno(KAS_FAILURE, "fork()");
    else
        status = read_all(ends[0], output);
    close(ends[0]);
    while (pid > 0 && waitpid(pid, &wait_status, 0) < 0)
        if (errno != EINTR)
            return kas_fail_errno(KAS_FAILURE, "waitpid()");
    if (status == KAS_OK)
        *code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    return status;
}

static kas_status find_python(const char **found)
{
    *found = NULL;
    for (size_t i = 0; i < sizeof pythons / sizeof *pythons && !*found; i++) {
        kas_buf ignored = {0};
        int code = 1;
        kas_status status =
            run((const char *const[]){pythons[i], "-c", "import torch", NULL}, &ignored, &code);
        kas_buf_free(&ignored);
        KAS_TRY(status);
        if (code == 0)
            *found = pythons[i];
    }
    return KAS_OK;
}

kas_status kas_export_verify(const char *dir, kas_verified *verdict, kas_buf *report)
{
    const char *python;
    char script[4096];
    int code = 1;
    if (snprintf(script, sizeof script, "%s/network.py", dir) >= (int)sizeof script)
        return kas_fail(KAS_BAD_INPUT, "%s: the path is too long", dir);
    KAS_TRY(find_python(&python));
    if (!python) {
        *verdict = KAS_VERIFY_SKIPPED;
        kas_buf_puts(report, "no Python with torch was found (Debian: python3-torch); `python3 "
                             "network.py --check` can be run later, anywhere");
        return kas_buf_status(report);
    }
    KAS_TRY(run((const char *const[]){python, script, "--check", NULL}, report, &code));
    while (report->size > 0 && report->data[report->size - 1] == '\n')
        report->data[--report->size] = 0;
    *verdict = code == 0 ? KAS_VERIFY_OK : KAS_VERIFY_FAILED;
    return kas_buf_status(report);
}
