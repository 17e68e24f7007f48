/* The C compiler of this machine as a backend: the text goes in through a file in memory, and a
 * shared object comes out. */
#include "jit/compile/compile_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/file/private.h"
#include "jit/compile/cache.h"
#include "cuda/kernels/device_code.h"

extern char **environ;

enum { MAX_ARGUMENTS = 48, MAX_LOG = 1 << 20 };

/* ---- running a program ----------------------------------------------------------------------- */

static kas_status memory_file(const char *name, const void *data, size_t size, int *out)
{
    *out = -1;
    int fd = memfd_create(name, MFD_CLOEXEC);
    KAS_CHECK_LIBC(fd >= 0, KAS_FAILURE);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)data + done, size - done);
        if (n < 0 && errno != EINTR) {
            kas_status status = kas_fail_errno(KAS_FAILURE, "write(memory file)");
            close(fd);
            return status;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (lseek(fd, 0, SEEK_SET) != 0) {
        kas_status status = kas_fail_errno(KAS_FAILURE, "lseek(memory file)");
        close(fd);
        return status;
    }
    *out = fd;
    return KAS_OK;
}

static kas_status spawn(char **argv, int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return kas_fail(KAS_FAILURE, "posix_spawn_file_actions_init: %s", strerror(error));
    error = posix_spawn_file_actions_adddup2(&actions, in, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, out, 2);
    if (!error)
        error = posix_spawn(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error ? kas_fail(KAS_MACHINE, "cannot start %s: %s", argv[0], strerror(error)) : KAS_OK;
}

static kas_status read_log(int fd, kas_buf *log)
{
    char chunk[4096];
    KAS_CHECK_LIBC(lseek(fd, 0, SEEK_SET) == 0, KAS_FAILURE);
    for (ssize_t n; log->size < MAX_LOG && (n = read(fd, chunk, sizeof chunk)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        KAS_CHECK_LIBC(n >= 0, KAS_FAILURE);
        kas_buf_add(log, chunk, (size_t)n);
    }
    return kas_buf_status(log);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

/* Runs argv with `input` as its stdin; stdout and stderr together go to `log`. No shell is
 * involved. Files in memory take the place of pipes, so a compiler that prints much before it has
 * read everything cannot block. */
static kas_status run(char **argv, const char *input, size_t size, kas_buf *log, int *wait_status,
                      double *cpu_seconds)
{
    int in = -1, out = -1;
    pid_t pid;
    struct rusage usage;
    kas_status status;
    KAS_TRY_GOTO(memory_file("kas-text", input, size, &in), done);
    KAS_TRY_GOTO(memory_file("kas-log", NULL, 0, &out), done);
    KAS_TRY_GOTO(spawn(argv, in, out, &pid), done);
    pid_t waited;
    do
        waited = wait4(pid, wait_status, 0, &usage);
    while (waited < 0 && errno == EINTR);
    if (waited < 0) {
        status = kas_fail_errno(KAS_FAILURE, "wait4(compiler)");
        goto done;
    }
    *cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    status = read_log(out, log);
done:
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return status;
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* Generated kernels are compiled once for each candidate, so compiling counts as much as running.
 * clang -O3 unrolls loops of lanes whole until kernels are 300 instructions long: with these flags
 * it takes half the time, and the kernels are as fast (bench/results). */
static const char *const clang_flags[] = {"-O2", "-mllvm", "-unroll-threshold=60",
#ifdef __x86_64__
                                          /* For Intel's processors clang makes vectors of half of
                                           * AVX-512's width otherwise; a row of 16 channels is one
                                           * whole vector. */
                                          "-mprefer-vector-width=512",
#endif
                                          NULL};

/* The other orders of lanes are for tests. Nothing tells the compiler that their lanes are independent (prelude.h), so each
 * level gives the same results. */
static const char *const descending[] = {"-DKAS_ORDER=1", "-O0", NULL};
static const char *const shuffled[] = {"-DKAS_ORDER=2", "-O0", NULL};

static void add_all(const char *const *flag, char **argv, int *n)
{
    for (; *flag && *n < MAX_ARGUMENTS - 16; flag++)
        argv[(*n)++] = (char *)*flag;
}

/* gcc gets the common list too: it ignores a -Wno-... that it does not know. */
static void add_flags(const kas_compiler *compiler, char **argv, int *n)
{
    add_all(kas_device_code_flags, argv, n);
    if (strncmp(compiler->name, "clang ", 6) == 0)
        add_all(clang_flags, argv, n);
    if (strcmp(compiler->arch, "cpu+order1") == 0)
        add_all(descending, argv, n);
    else if (strcmp(compiler->arch, "cpu+order2") == 0)
        add_all(shuffled, argv, n);
    if (strcmp(compiler->arch, "cpu+apart") == 0)
        argv[(*n)++] = (char *)"-ffp-contract=off";
    argv[(*n)++] = (char *)"-fPIC";
    argv[(*n)++] = (char *)"-w"; /* generated text: only errors are useful in the log */
}

/* Messages of a compiler that has no room or no memory, or whose parts were killed or cannot be
 * started. Its exit code is the same as for a text that it refuses, so its log must tell. */
static bool blames_the_machine(const char *log)
{
    static const char *const troubles[] = {"No space left",
                                           "Disk quota exceeded",
                                           "File too large",
                                           "File size limit",
                                           "Read-only file system",
                                           "Permission denied",
                                           "Input/output error",
                                           "Too many open files",
                                           "Resource temporarily unavailable",
                                           "out of memory",
                                           "Cannot allocate memory",
                                           "bad_alloc",
                                           "Killed",
                                           "Terminated",
                                           "cannot execute",
                                           "error trying to exec",
                                           "error while loading shared libraries"};
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
        if (strstr(log, troubles[i]))
            return true;
    return false;
}

/* Returns whether the signal is the compiler's own crash, which the same text will cause again; any
 * other signal came from outside. */
static bool is_crash(int number)
{
    return number == SIGSEGV || number == SIGABRT || number == SIGILL || number == SIGFPE;
}

static kas_compile_outcome judge(int wait_status, kas_buf *log)
{
    const int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    if (wait_status == 0)
        return KAS_COMPILED;
    if (number)
        kas_buf_printf(log, "%s: the compiler was ended by signal %d (%s)\n",
                       is_crash(number) ? "error" : "note", number, strsignal(number));
    const char *text = kas_buf_text(log);
    if ((!number || is_crash(number)) && strstr(text, "error") && !blames_the_machine(text))
        return KAS_COMPILE_REFUSED;
    int length = log->size < 800 ? (int)log->size : 800;
    while (length > 0 && text[length - 1] == '\n')
        length--;
    kas_fail(KAS_MACHINE, "the compiler failed (exit code %d)%s%.*s",
             number ? 128 + number : WEXITSTATUS(wait_status), length ? ": " : "", length, text);
    return KAS_COMPILE_BROKEN;
}

static kas_compile_outcome build(kas_compiler *compiler, const char *text, size_t size,
                                 kas_compile_result *result)
{
    char march[64], output[4200], *argv[MAX_ARGUMENTS];
    int n = 0, wait_status = 0;
    snprintf(output, sizeof output, "%s/tmp/XXXXXX", compiler->folder);
    int fd = mkostemp(output, O_CLOEXEC);
    if (fd < 0) {
        kas_fail_errno(KAS_FAILURE, output);
        return KAS_COMPILE_BROKEN;
    }
    close(fd);
    snprintf(march, sizeof march, "-march=%s", kas_device_code_march);
    argv[n++] = compiler->program;
    add_flags(compiler, argv, &n);
    char *rest[] = {march,        (char *)"-shared", (char *)"-x",  (char *)"c",  (char *)"-",
                    (char *)"-x", (char *)"none",    (char *)"-lm", (char *)"-o", output,
                    NULL};
    memcpy(argv + n, rest, sizeof rest);

    kas_compile_outcome outcome = KAS_COMPILE_BROKEN;
    if (run(argv, text, size, &result->log, &wait_status, &result->cpu_seconds) == KAS_OK)
        outcome = judge(wait_status, &result->log);
    if (outcome == KAS_COMPILED && kas_file_read(output, INT_MAX, &result->image) != KAS_OK)
        outcome = KAS_COMPILE_BROKEN;
    unlink(output);
    return outcome;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool find_in_path(const char *name, char out[4096])
{
    if (strchr(name, '/'))
        return snprintf(out, 4096, "%s", name) < 4096 && access(out, X_OK) == 0;
    const char *list = getenv("PATH");
    for (const char *p = list ? list : "/usr/bin:/bin"; *p;) {
        size_t length = strcspn(p, ":");
        if (length > 0 && snprintf(out, 4096, "%.*s/%s", (int)length, p, name) < 4096 &&
            access(out, X_OK) == 0)
            return true;
        p += length + (p[length] == ':');
    }
    return false;
}

static kas_status find_compiler(kas_compiler *compiler)
{
    const char *own = getenv("KAS_CC");
    if (own && *own)
        return find_in_path(own, compiler->program)
                   ? KAS_OK
                   : kas_fail(KAS_MACHINE, "KAS_CC=%s: no such program", own);
    const char *const names[] = {kas_device_code_compiler, "clang", "gcc", "cc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i][0] && find_in_path(names[i], compiler->program))
            return KAS_OK;
    return kas_fail(KAS_MACHINE, "no C compiler was found (clang, gcc or cc on PATH, or KAS_CC): "
                                 "the CPU device needs one to build kernels; Debian: apt-get "
                                 "install clang");
}

/* Shortens a version line: "Debian clang version 14.0.6" to "clang 14.0.6", "gcc (Debian 12.2.0-14)
 * 12.2.0" to "gcc 12.2.0". */
static void short_version(const char *text, const char *program, char *out, size_t size)
{
    const char *clang = strstr(text, "clang version ");
    if (clang) {
        const char *number = clang + strlen("clang version ");
        snprintf(out, size, "clang %.*s", (int)strcspn(number, " \n("), number);
        return;
    }
    int end = (int)strcspn(text, "\n"), start = end;
    while (start > 0 && text[start - 1] != ' ')
        start--;
    const char *name = strrchr(program, '/');
    snprintf(out, size, "%.60s %.*s", name ? name + 1 : program, end - start, text + start);
}

/* Adds to the key what this processor can do: -march=native means other code on another machine,
 * and a home folder may be shared. */
static void add_processor(kas_buf *identity)
{
    if (strcmp(kas_device_code_march, "native") != 0)
        return;
    FILE *file = fopen("/proc/cpuinfo", "r");
    char *line = NULL;
    size_t room = 0;
    static const char *const fields[] = {"vendor_id",       "cpu family", "model",   "flags",
                                         "CPU implementer", "CPU part",   "Features"};
    while (file && getline(&line, &room, file) > 1) /* the first processor; an empty line ends it */
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (strncmp(line, fields[i], strlen(fields[i])) == 0)
                kas_buf_puts(identity, line);
    free(line);
    if (file)
        fclose(file);
}

static kas_status ask_version(char *program, kas_buf *answer)
{
    char *argv[] = {program, (char *)"--version", NULL};
    int wait_status = 0;
    double cpu_seconds;
    KAS_TRY(run(argv, "", 0, answer, &wait_status, &cpu_seconds));
    return wait_status == 0
               ? KAS_OK
               : kas_fail(KAS_MACHINE, "%s --version failed: is it a C compiler?", program);
}

kas_status kas_compiler_probe(const char *name, char path[4096], char version[256])
{
    kas_buf answer = {0};
    path[0] = version[0] = '\0';
    if (!find_in_path(name, path))
        return kas_fail(KAS_UNSUPPORTED, "no %s on PATH", name);
    kas_status status = ask_version(path, &answer);
    if (status == KAS_OK)
        short_version(kas_buf_text(&answer), path, version, 256);
    kas_buf_free(&answer);
    return status;
}

static kas_status identify(kas_compiler *compiler)
{
    char *flags[MAX_ARGUMENTS];
    int n = 0;
    kas_buf *identity = &compiler->identity;
    KAS_TRY(ask_version(compiler->program, identity));
    short_version(kas_buf_text(identity), compiler->program, compiler->name, sizeof compiler->name);
    kas_buf_printf(identity, "\n%s -march=%s -shared -lm", compiler->program,
                   kas_device_code_march);
    add_flags(compiler, flags, &n);
    kas_buf shown = {0};
    kas_buf_printf(&shown, "%s -march=%s", compiler->name, kas_device_code_march);
    for (int i = 0; i < n; i++) {
        kas_buf_printf(identity, " %s", flags[i]);
        kas_buf_printf(&shown, " %s", flags[i]);
    }
    kas_buf_puts(identity, "\n");
    add_processor(identity);
    snprintf(compiler->describe, sizeof compiler->describe, "%s", kas_buf_text(&shown));
    kas_buf_free(&shown);
    return kas_buf_status(identity);
}

kas_status kas_compile_host_open(kas_compiler *compiler)
{
    char temporary[4200];
    if (strcmp(compiler->arch, "cpu") != 0 && strcmp(compiler->arch, "cpu+order1") != 0 &&
        strcmp(compiler->arch, "cpu+order2") != 0 && strcmp(compiler->arch, "cpu+apart") != 0)
        return kas_fail(KAS_USAGE, "architecture \"%s\": expected \"cpu\" or \"sm_NN\"",
                        compiler->arch);
    compiler->build = build;
    compiler->suffix = "so";
    KAS_TRY(find_compiler(compiler));
    snprintf(temporary, sizeof temporary, "%s/tmp", compiler->folder);
    KAS_TRY(kas_private_folder(temporary));
    kas_cache_sweep(temporary, true);
    return identify(compiler);
}
