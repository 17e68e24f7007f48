/* The two compilers behind the cache. The texts avoid the dialect: they test the machinery only. */
#include "support/test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/library.h"
#include "cuda/nvrtc/respill.h"
#include "host/core/file/files.h"
#include "jit/compile/cache.h"
#include "jit/compile/compile_backend.h"
#include "support/folder.h"

enum { PROCESSES = 12 };

static const char answer_text[] =
    "__attribute__((visibility(\"default\"))) int kas_test_answer(void) { return 42; }\n";
static const char cuda_text[] =
    "extern \"C\" __global__ void kas_test(float *x) { x[threadIdx.x] = 2.0f * x[threadIdx.x]; }\n";

static int set_up(void **state)
{
    unsetenv("KAS_CC");
    return make_folder(state);
}

static int tear_down(void **state)
{
    unsetenv("KAS_CC");
    return remove_folder(state);
}

static kas_compiler *open_compiler(const char *arch)
{
    kas_compiler *compiler = NULL;
    OK(kas_compiler_open(arch, folder, &compiler));
    return compiler;
}

static int answer_of(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return -1;
    int (*function)(void);
    *(void **)&function = dlsym(handle, "kas_test_answer");
    int answer = function ? function() : -2;
    dlclose(handle);
    return answer;
}

/* Another way of dealing with spills takes no image that was made the old way. */
TEST_WITH(policy_is_in_the_key, set_up, tear_down)
{
    kas_compiler *compiler = open_compiler("cpu");
    kas_compile_stats stats;
    char path[4096], other[4096];
    assert_int_equal(kas_compile(compiler, answer_text, path, &stats), KAS_OK);
    compiler->policy++;
    assert_int_equal(kas_compile(compiler, answer_text, other, &stats), KAS_OK);
    assert_false(stats.cached);
    assert_string_not_equal(path, other);
    kas_compiler_close(compiler);
}

TEST_WITH(host_image_is_made_once, set_up, tear_down)
{
    kas_compiler *compiler = open_compiler("cpu");
    kas_compile_stats stats;
    char path[4096], again[4096];
    printf("%s\n", kas_compiler_describe(compiler));
    assert_int_equal(kas_compile(compiler, answer_text, path, &stats), KAS_OK);
    assert_false(stats.cached);
    assert_true(stats.image_bytes > 100 && stats.cpu_seconds > 0 && stats.seconds > 0);
    assert_int_equal(answer_of(path), 42);
    assert_int_equal(kas_compile(compiler, answer_text, again, &stats), KAS_OK);
    assert_true(stats.cached);
    assert_true(stats.cpu_seconds == 0 && stats.image_bytes > 100);
    assert_string_equal(path, again);
    kas_compiler_close(compiler);
}

/* What a compiler was about to write when its process was killed. */
TEST_WITH(leavings_go_when_a_compiler_is_opened, set_up, tear_down)
{
    char tmp[300], old[320], young[320];
    const struct timespec then = {time(NULL) - 7200, 0}, times[2] = {then, then};
    snprintf(tmp, sizeof tmp, "%s/jit/tmp", folder);
    snprintf(old, sizeof old, "%s/Ab12Cd", tmp);
    snprintf(young, sizeof young, "%s/Ab12Ce", tmp);
    assert_int_equal(kas_mkdirs(tmp), KAS_OK);
    assert_int_equal(kas_file_write_atomic(old, "x", 1), KAS_OK);
    assert_int_equal(kas_file_write_atomic(young, "x", 1), KAS_OK);
    assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
    kas_compiler_close(open_compiler("cpu"));
    assert_false(kas_file_exists(old));
    assert_true(kas_file_exists(young));
}

/* An image that somebody else could have put there is not loaded, but made anew. */
TEST_WITH(a_foreign_image_is_made_again, set_up, tear_down)
{
    kas_compiler *compiler = open_compiler("cpu");
    kas_compile_stats stats;
    char path[4096], moved[4200];
    struct stat info;
    assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_OK);
    snprintf(moved, sizeof moved, "%s/moved.so", folder);
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 2 && geteuid() != 0) {
            printf("SKIPPED: only root can give a file to another user\n");
            break;
        }
        if (kind == 1)
            assert_true(rename(path, moved) == 0 && symlink(moved, path) == 0);
        else
            assert_int_equal(kind == 0 ? chmod(path, 0666) : chown(path, 12345, 0), 0);
        assert_int_equal(kas_compile(compiler, answer_text, path, &stats), KAS_OK);
        assert_false(stats.cached);
        assert_true(lstat(path, &info) == 0 && S_ISREG(info.st_mode));
        assert_true(info.st_uid == geteuid() && !(info.st_mode & 022));
        assert_int_equal(answer_of(path), 42);
        assert_int_equal(kas_compile(compiler, answer_text, path, &stats), KAS_OK);
        assert_true(stats.cached);
    }
    kas_compiler_close(compiler);
}

TEST_WITH(damaged_image_is_made_again, set_up, tear_down)
{
    kas_compiler *compiler = open_compiler("cpu");
    kas_compile_stats stats;
    char path[4096];
    assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_OK);
    for (int kind = 0; kind < 3; kind++) {
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        if (kind == 2)
            assert_int_equal(pwrite(fd, "\1", 1, 1000), 1);
        else
            assert_int_equal(ftruncate(fd, kind == 0 ? 0 : 5000), 0);
        close(fd);
        assert_int_equal(kas_compile(compiler, answer_text, path, &stats), KAS_OK);
        assert_false(stats.cached);
        assert_int_equal(answer_of(path), 42);
    }
    kas_compiler_close(compiler);
}

typedef struct waiter {
    kas_compiler *compiler;
    kas_compile_stats stats;
    kas_status status;
} waiter;

static void *compile_answer(void *context)
{
    waiter *w = context;
    char path[4096];
    w->status = kas_compile(w->compiler, answer_text, path, &w->stats);
    return NULL;
}

/* Time spent waiting for somebody who makes the same is time spent on compilers. Whether the thread
 * is already waiting when the entry appears nobody can see, so it has some tries. */
TEST_WITH(waiting_for_another_counts, set_up, tear_down)
{
    waiter w = {.compiler = open_compiler("cpu")};
    char path[4096];
    kas_buf image = {0};
    assert_int_equal(kas_compile(w.compiler, answer_text, path, &w.stats), KAS_OK);
    assert_false(w.stats.waited);
    assert_true(kas_compile_waited(&w.stats) > 0);
    assert_int_equal(kas_file_read(path, 1 << 24, &image), KAS_OK);
    for (int i = 0; i < 50 && !w.stats.waited; i++) {
        pthread_t thread;
        assert_int_equal(unlink(path), 0);
        const int lock = kas_cache_lock(path, 0);
        assert_true(lock >= 0);
        assert_int_equal(pthread_create(&thread, NULL, compile_answer, &w), 0);
        usleep(1000u << (i < 10 ? i : 10));
        assert_int_equal(kas_file_write_atomic(path, image.data, image.size), KAS_OK);
        kas_cache_unlock(path, lock);
        pthread_join(thread, NULL);
        assert_int_equal(w.status, KAS_OK);
        assert_true(w.stats.cached);
    }
    assert_true(w.stats.waited);
    assert_true(kas_compile_waited(&w.stats) > 0);
    assert_int_equal(kas_compile(w.compiler, answer_text, path, &w.stats), KAS_OK);
    assert_true(kas_compile_waited(&w.stats) == 0);
    kas_buf_free(&image);
    kas_compiler_close(w.compiler);
}

/* A compiler that stands aside neither waits for a lock nor holds one. */
TEST_WITH(standing_aside, set_up, tear_down)
{
    kas_compiler *compiler = open_compiler("cpu"), *aside = open_compiler("cpu");
    kas_compile_stats stats;
    char path[4096];
    kas_compiler_stand_aside(aside);
    assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_OK);
    assert_int_equal(unlink(path), 0);
    const int lock = kas_cache_lock(path, 0);
    assert_true(lock >= 0 && kas_cache_locked(path));
    assert_int_equal(kas_compile(aside, answer_text, path, &stats), KAS_OK);
    assert_false(stats.cached || stats.waited || kas_file_exists(path));
    kas_cache_unlock(path, lock);
    assert_false(kas_cache_locked(path));
    assert_int_equal(kas_compile(aside, answer_text, path, &stats), KAS_OK);
    assert_false(stats.cached);
    assert_int_equal(answer_of(path), 42);
    assert_int_equal(kas_compile(compiler, answer_text, path, &stats), KAS_OK);
    assert_true(stats.cached && !stats.waited); /* the same key */
    kas_compiler_close(aside);
    kas_compiler_close(compiler);
}

TEST_WITH(refused_text_is_kept_as_failure, set_up, tear_down)
{
    kas_compiler *compiler = open_compiler("cpu");
    kas_compile_stats stats;
    char path[4096];
    for (int round = 0; round < 2; round++) {
        assert_int_equal(
            kas_compile(compiler, "int good;\nint f(void) { return no_such; }\n", path, &stats),
            KAS_FAILURE);
        assert_non_null(strstr(kas_error(), "no_such"));
        assert_non_null(strstr(kas_error(), "kernel:2")); /* lines count from the text's first */
        assert_int_equal(stats.cached, round == 1);
        assert_false(kas_file_exists(path));
    }
    kas_compiler_close(compiler);
}

/* A compiler of our own: `body` runs in place of a build; each build leaves a line in "count". */
static void make_compiler(const char *version, const char *body)
{
    char path[256], text[2048];
    snprintf(path, sizeof path, "%s/fake-cc", folder);
    snprintf(text, sizeof text,
             "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'fake (test) %s'; exit 0; fi\n"
             "echo x >>%s/count\n%s\n",
             version, folder, body);
    assert_int_equal(kas_file_write_atomic(path, text, strlen(text)), KAS_OK);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(setenv("KAS_CC", path, 1), 0);
}

static int builds(void)
{
    char path[256];
    kas_buf text = {0};
    snprintf(path, sizeof path, "%s/count", folder);
    int count = kas_file_read(path, 1 << 20, &text) == KAS_OK ? (int)text.size / 2 : 0;
    kas_buf_free(&text);
    return count;
}

TEST_WITH(broken_compiler_is_not_remembered, set_up, tear_down)
{
    static const char *const bodies[] = {
        "kill -9 $$", "echo 'error: No space left on device'; exit 1", "exit 3",
        "echo 'cc: fatal error: Killed signal terminated program cc1'; exit 1",
        "echo 'LLVM ERROR: out of memory'; kill -ABRT $$"};
    const int count = sizeof bodies / sizeof *bodies;
    for (int i = 0; i < count; i++) {
        make_compiler("1.0", bodies[i]);
        kas_compiler *compiler = open_compiler("cpu");
        char path[4096];
        assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_MACHINE);
        kas_compiler_close(compiler);
        printf("%s\n", kas_error());
    }
    assert_int_equal(builds(), count);
    make_compiler("1.0", "exec cc \"$@\"");
    kas_compiler *compiler = open_compiler("cpu");
    char path[4096];
    assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_OK);
    assert_int_equal(answer_of(path), 42);
    kas_compiler_close(compiler);
}

/* One that crashes on a text will do so again: that is the text's affair. */
TEST_WITH(compiler_that_crashes_refuses, set_up, tear_down)
{
    static const char *const bodies[] = {
        "kill -SEGV $$",
        "echo 'cc: internal compiler error: Segmentation fault signal terminated program cc1'; "
        "exit 4"};
    for (int i = 0; i < 2; i++) {
        make_compiler(i ? "1.1" : "1.0", bodies[i]);
        kas_compiler *compiler = open_compiler("cpu");
        char path[4096];
        for (int round = 0; round < 2; round++)
            assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_FAILURE);
        kas_compiler_close(compiler);
        printf("%s\n", kas_error());
    }
    assert_int_equal(builds(), 2);
}

/* A cache that cannot be written says nothing about the text, and is not remembered: here its
 * folder is a file; a limit on the size of files stands for a full disk. */
TEST_WITH(cache_that_cannot_be_written, set_up, tear_down)
{
    kas_compiler *compiler = open_compiler("cpu");
    char path[4096], file[256];
    const struct rlimit small = {4096, RLIM_INFINITY};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const kas_status limited = kas_compile(compiler, answer_text, path, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(limited, KAS_MACHINE);
    printf("%s\n", kas_error());
    snprintf(file, sizeof file, "%s/jit", folder);
    assert_int_equal(kas_remove_tree(file), KAS_OK);
    assert_int_equal(kas_file_write_atomic(file, "x", 1), KAS_OK);
    assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_MACHINE);
    printf("%s\n", kas_error());
    assert_int_equal(unlink(file), 0);
    kas_compiler_close(compiler);
    compiler = open_compiler("cpu");
    assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_OK);
    assert_int_equal(answer_of(path), 42);
    kas_compiler_close(compiler);
}

TEST_WITH(compiler_version_is_part_of_the_key, set_up, tear_down)
{
    char first[4096], second[4096];
    for (int i = 0; i < 2; i++) {
        make_compiler(i ? "1.1" : "1.0", "exec cc \"$@\"");
        kas_compiler *compiler = open_compiler("cpu");
        assert_non_null(strstr(kas_compiler_describe(compiler), i ? "1.1" : "1.0"));
        assert_int_equal(kas_compile(compiler, answer_text, i ? second : first, NULL), KAS_OK);
        kas_compiler_close(compiler);
    }
    assert_string_not_equal(first, second);
}

TEST_WITH(missing_compiler_is_the_machines, set_up, tear_down)
{
    kas_compiler *compiler = NULL;
    setenv("KAS_CC", "/no/such/compiler", 1);
    assert_int_equal(kas_compiler_open("cpu", folder, &compiler), KAS_MACHINE);
    assert_null(compiler);
    assert_non_null(strstr(kas_error(), "/no/such/compiler"));
    unsetenv("KAS_CC");
    assert_int_equal(kas_compiler_open("tpu", folder, &compiler), KAS_USAGE);
}

static int racer(bool vandal)
{
    kas_compiler *compiler = NULL;
    char path[4096];
    if (kas_compiler_open("cpu", folder, &compiler) != KAS_OK)
        return 1;
    int bad = 0;
    for (int round = 0; round < 4; round++) {
        if (kas_compile(compiler, answer_text, path, NULL) != KAS_OK) {
            fprintf(stderr, "%s\n", kas_error());
            return 2;
        }
        /* A damaged file is put in place by rename, as a file system or a broken copy would leave
         * it: changing a mapped file in place would kill whoever runs it. */
        if (vandal && round < 3)
            bad += kas_file_write_atomic(path, "damage", 6) != KAS_OK;
    }
    kas_compiler_close(compiler);
    return bad ? 3 : 0;
}

static int race(bool with_vandals)
{
    pid_t pid[PROCESSES];
    int failed = 0;
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            _exit(racer(with_vandals && i % 4 == 0));
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}

TEST_WITH(processes_compile_a_text_once, set_up, tear_down)
{
    make_compiler("1.0", "exec cc \"$@\"");
    assert_int_equal(race(false), 0);
    printf("%d processes made %d builds (1 allowed)\n", PROCESSES, builds());
    assert_int_equal(builds(), 1);
    assert_int_equal(race(true), 0);
    kas_compiler *compiler = open_compiler("cpu");
    char path[4096];
    assert_int_equal(kas_compile(compiler, answer_text, path, NULL), KAS_OK);
    assert_int_equal(answer_of(path), 42);
    kas_compiler_close(compiler);
}

static kas_compiler *open_nvrtc(const char *arch)
{
    const kas_nvrtc *nvrtc;
    if (kas_nvrtc_load(&nvrtc) != KAS_OK) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    return open_compiler(arch);
}

TEST_WITH(nvrtc_makes_cubins, set_up, tear_down)
{
    static const char *const archs[] = {"sm_80", "sm_90"};
    char path[2][4096];
    for (int i = 0; i < 2; i++) {
        kas_compiler *compiler = open_nvrtc(archs[i]);
        kas_compile_stats stats;
        kas_buf image = {0};
        OK(kas_compile(compiler, cuda_text, path[i], &stats));
        assert_int_equal(kas_file_read(path[i], 1 << 24, &image), KAS_OK);
        assert_memory_equal(image.data, "\177ELF", 4);
        assert_int_equal((unsigned char)image.data[18] | (unsigned char)image.data[19] << 8, 190);
        kas_buf_free(&image);
        printf("%s: %zu bytes in %.3f s\n", kas_compiler_describe(compiler), stats.image_bytes,
               stats.cpu_seconds);
        assert_int_equal(kas_compile(compiler, cuda_text, path[i], &stats), KAS_OK);
        assert_true(stats.cached);
        kas_compiler_close(compiler);
    }
    assert_string_not_equal(path[0], path[1]);
}

TEST_WITH(nvrtc_keeps_the_log_of_a_failure, set_up, tear_down)
{
    kas_compiler *compiler = open_nvrtc("sm_90");
    assert_int_equal(compiler->policy, KAS_RESPILL_POLICY);
    kas_compile_stats stats;
    char path[4096];
    for (int round = 0; round < 2; round++) {
        assert_int_equal(kas_compile(compiler, "int x = no_such;", path, &stats), KAS_FAILURE);
        assert_non_null(strstr(kas_error(), "no_such"));
        assert_int_equal(stats.cached, round == 1);
    }
    kas_compiler_close(compiler);
    assert_int_equal(kas_compiler_open("sm_10", folder, &compiler), KAS_UNSUPPORTED);
    assert_non_null(strstr(kas_error(), "sm_10"));
}

RUN_TESTS()
