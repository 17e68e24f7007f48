#include "fuzz_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include "host/core/file/files.h"

fuzz_run fuzz;

static const kas_buf *present; /* the file of the case at hand */
static char folder[64], kept[80];
static char alternate_stack[64 << 10];

/* ---- findings -------------------------------------------------------------------------------- */

/* Says which case it was and keeps its file; calls only what a signal handler may call. */
static void tell_case(void)
{
    char line[400];
    if (!present)
        return;
    const int fd = open(kept, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool written =
        fd >= 0 && write(fd, kas_buf_text(present), present->size) == (ssize_t)present->size;
    const int length =
        snprintf(line, sizeof line, "FINDING in case %llu of seed %llu; its file: %s\n", fuzz.now,
                 fuzz.seed, written ? kept : "could not be kept");
    if (write(STDERR_FILENO, line, (size_t)length) < 0 || fd < 0)
        return;
    close(fd);
}

void fuzz_finding(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not so: %s\nmessage: %s\n", file, line, condition, kas_error());
    tell_case();
    kas_remove_tree(folder);
    _exit(1);
}

static void on_signal(int number)
{
    static const char late[] = "a case took too long\n", crash[] = "a case crashed\n";
    const bool timer = number == SIGALRM;
    if (write(STDERR_FILENO, timer ? late : crash, strlen(timer ? late : crash)) > 0)
        tell_case();
    _exit(1);
}

/* A sanitizer catches crashes itself. */
static void catch_signals(void)
{
#ifdef __SANITIZE_ADDRESS__
    static const int numbers[] = {SIGALRM};
    __sanitizer_set_death_callback(tell_case);
#else
    static const int numbers[] = {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#endif
    const stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof alternate_stack};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    MUST(sigaltstack(&stack, NULL) == 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        MUST(sigaction(numbers[i], &action, NULL) == 0);
}

/* So much memory asked for by a damaged file is refused by the system, and KAS_NO_MEMORY is a
 * finding.  A sanitizer reserves address space of its own. */
static void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    MUST(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    const rlim_t limit = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + FUZZ_MEMORY;
    MUST(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0);
#endif
}

/* ---- arguments ------------------------------------------------------------------------------- */

static unsigned long long number(const char *text)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || end == text || *text == '-') {
        fprintf(stderr, "usage: TEST [CASES [SEED]]; KAS_FUZZ_TIMES and KAS_FUZZ_SEED are numbers "
                        "too\n");
        exit(2);
    }
    return value;
}

static unsigned long long from_environment(const char *name)
{
    const char *text = getenv(name);
    return text ? number(text) : 1;
}

void fuzz_begin(int argc, char **argv, unsigned long long usual)
{
    const char *name = strrchr(argv[0], '/');
    const char *temporary =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* no fsync waits */
    fuzz.usual = usual;
    fuzz.cases = argc > 1 ? number(argv[1]) : usual * from_environment("KAS_FUZZ_TIMES");
    fuzz.seed = argc > 2 ? number(argv[2]) : from_environment("KAS_FUZZ_SEED");
    snprintf(folder, sizeof folder, "%s/kas-fuzz-XXXXXX", temporary);
    MUST(mkdtemp(folder));
    snprintf(kept, sizeof kept, "/tmp/finding-%.40s", name ? name + 1 : argv[0]);
    catch_signals();
    limit_memory();
}

/* ---- the corpus ------------------------------------------------------------------------------ */

void fuzz_add(const void *data, size_t size)
{
    if (fuzz.files < FUZZ_CORPUS)
        kas_buf_add(&fuzz.corpus[fuzz.files++], data, size);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

void fuzz_add_folder(const char *path)
{
    struct dirent **list;
    const int count = scandir(path, &list, NULL, by_name);
    MUST(count > 2);
    for (int i = 0; i < count; i++) {
        char file[300];
        kas_buf text = {0};
        snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
        if (strstr(file, ".json")) {
            MUST(kas_file_read(file, 1 << 20, &text) == KAS_OK);
            fuzz_add(text.data, text.size);
        }
        kas_buf_free(&text);
        free(list[i]);
    }
    free(list);
}

const kas_buf *fuzz_pick(kas_rng *rng)
{
    return &fuzz.corpus[kas_rng_below(rng, (uint32_t)fuzz.files)];
}

void fuzz_keep(kas_rng *rng, const kas_buf *file)
{
    if (file->size > FUZZ_LARGEST || kas_rng_below(rng, 4) != 0)
        return;
    if (fuzz.files < FUZZ_CORPUS) {
        fuzz_add(file->data, file->size);
        return;
    }
    kas_buf *slot =
        &fuzz.corpus[fuzz.fixed + (int)kas_rng_below(rng, (uint32_t)(FUZZ_CORPUS - fuzz.fixed))];
    kas_buf_clear(slot);
    kas_buf_add(slot, file->data, file->size);
}

/* ---- the cases ------------------------------------------------------------------------------- */

static void one_case(fuzz_mutate *mutate, fuzz_read *read)
{
    static const struct itimerval limit = {.it_value = {.tv_sec = FUZZ_SECONDS}};
    kas_rng rng = kas_rng_make(fuzz.seed, KAS_PURPOSE_TEST, fuzz.now);
    kas_buf file = {0};
    mutate(&rng, &file);
    MUST(kas_buf_status(&file) == KAS_OK);
    char *tight = malloc(file.size ? file.size : 1);
    MUST(tight);
    memcpy(tight, kas_buf_text(&file), file.size);
    present = &file;
    MUST(setitimer(ITIMER_REAL, &limit, NULL) == 0);
    *(read(&rng, tight, file.size, &file) ? &fuzz.accepted : &fuzz.refused) += 1;
    present = NULL;
    free(tight);
    kas_buf_free(&file);
}

void fuzz_cases(fuzz_mutate *mutate, fuzz_read *read)
{
    fuzz.fixed = fuzz.files;
    for (fuzz.now = 0; fuzz.now < fuzz.cases; fuzz.now++)
        one_case(mutate, read);
    alarm(0);
}

bool fuzz_accepts(kas_status status, const char *file)
{
    if (status == KAS_OK)
        return true;
    MUST(status == KAS_BAD_INPUT);
    MUST(strstr(kas_error(), file));
    return false;
}

const char *fuzz_path(const char *name)
{
    static char path[4][128];
    static int next;
    char *out = path[next++ % 4];
    MUST(snprintf(out, sizeof path[0], "%s/%s", folder, name) < (int)sizeof path[0]);
    return out;
}

void fuzz_write(const char *path, const void *data, size_t size)
{
    unlink(path); /* some file systems flush a file that is cut to nothing and written again */
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

void fuzz_end(unsigned accepted, unsigned solved, unsigned refused)
{
    MUST(fuzz.cases < fuzz.usual ||
         (fuzz.accepted * 100 >= fuzz.cases * accepted &&
          fuzz.solved * 100 >= fuzz.cases * solved && fuzz.refused * 100 >= fuzz.cases * refused));
    MUST(kas_remove_tree(folder) == KAS_OK);
    printf(
        "ok: %llu cases of seed %llu: %llu accepted (%llu of them went all the way), %llu refused, "
        "0 findings\n",
        fuzz.cases, fuzz.seed, fuzz.accepted, fuzz.solved, fuzz.refused);
    for (int i = 0; i < fuzz.files; i++)
        kas_buf_free(&fuzz.corpus[i]);
}
