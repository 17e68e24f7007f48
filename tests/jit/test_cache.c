/* The compile cache: damage is found, and many processes may share it. */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/sha256.h"
#include "jit/compile/cache.h"
#include "support/folder.h"

enum { KEYS = 4, PROCESSES = 32, ROUNDS = 40 };

static void entry_path(int key, char path[4096])
{
    char hex[65];
    kas_sha256_hex(&key, sizeof key, hex);
    assert_int_equal(kas_cache_path(folder, hex, "so", path), KAS_OK);
}

/* The only right content of a key: 1000 .. 4000 bytes of a simple sequence. */
static size_t content(int key, unsigned char out[4096])
{
    size_t size = 1000 + (size_t)key * 1000;
    uint32_t x = 12345u + (uint32_t)key;
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        out[i] = (unsigned char)(x >> 24);
    }
    return size;
}

/* 1 found and right, 0 not found, -1 found and wrong or an error. */
static int look(int key)
{
    char path[4096];
    unsigned char right[4096];
    size_t size = content(key, right);
    kas_buf got = {0};
    bool found = false;
    entry_path(key, path);
    int result = -1;
    if (kas_cache_read(path, &got, &found) == KAS_OK)
        result = !found ? 0 : got.size == size && memcmp(got.data, right, size) == 0 ? 1 : -1;
    kas_buf_free(&got);
    return result;
}

static kas_status put(int key)
{
    char path[4096];
    unsigned char right[4096];
    size_t size = content(key, right);
    entry_path(key, path);
    return kas_cache_write(path, right, size);
}

TEST_WITH(entry_comes_back_whole, make_folder, remove_folder)
{
    assert_int_equal(look(0), 0);
    assert_int_equal(put(0), KAS_OK);
    assert_int_equal(look(0), 1);
}

TEST_WITH(the_first_of_several_is_kept, make_folder, remove_folder)
{
    char path[4096];
    unsigned char right[4096];
    const size_t size = content(1, right);
    bool existed = true;
    entry_path(1, path);
    assert_int_equal(kas_cache_write_new(path, right, size, &existed), KAS_OK);
    assert_false(existed);
    assert_int_equal(kas_cache_write_new(path, "another", 7, &existed), KAS_OK);
    assert_true(existed);
    assert_int_equal(look(1), 1);
}

/* A file of that age, in seconds. */
static void leave(const char *path, int age)
{
    const struct timespec then = {time(NULL) - age, 0}, times[2] = {then, then};
    assert_int_equal(kas_file_write_atomic(path, "x", 1), KAS_OK);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Of a process that was killed: what is old goes when an entry is written beside it, what may be
 * somebody's stays, and so do entries. */
TEST_WITH(leavings_are_swept, make_folder, remove_folder)
{
    static const struct {
        const char *suffix;
        int age;
        bool stays;
    } left[] = {{".unfinished-Ab12Cd", 7200, false},
                {".unfinished-Ab12Ce", 600, true},
                {".lock", 7200, false},
                {"", 7200, true},
                {".err", 7200, true},
                {".Ab12Cdef", 7200, true}};
    enum { LEFT = sizeof left / sizeof *left };
    char path[4096], file[LEFT][4200];
    entry_path(0, path);
    for (int i = 0; i < LEFT; i++) {
        snprintf(file[i], sizeof file[i], "%s%s", path, left[i].suffix);
        if (*left[i].suffix)
            leave(file[i], left[i].age);
    }
    assert_int_equal(put(0), KAS_OK);
    for (int i = 0; i < LEFT; i++)
        if (kas_file_exists(file[i]) != left[i].stays)
            fail_msg("%s", file[i]);
    assert_int_equal(look(0), 1);
}

/* An old lock that somebody holds is no leaving. */
TEST_WITH(a_held_lock_stays, make_folder, remove_folder)
{
    char path[4096], lock_path[4200];
    entry_path(0, path);
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    const int lock = kas_cache_lock(path, 0);
    const struct timespec then = {time(NULL) - 7200, 0}, times[2] = {then, then};
    assert_true(lock >= 0 && utimensat(AT_FDCWD, lock_path, times, 0) == 0);
    assert_int_equal(put(0), KAS_OK);
    assert_true(kas_cache_locked(path));
    kas_cache_unlock(path, lock);
    assert_false(kas_file_exists(lock_path));
}

TEST_WITH(every_truncation_is_found, make_folder, remove_folder)
{
    char path[4096];
    struct stat info;
    entry_path(0, path);
    assert_int_equal(put(0), KAS_OK);
    assert_int_equal(stat(path, &info), 0);
    for (off_t size = 0; size < info.st_size; size++) {
        assert_int_equal(put(0), KAS_OK);
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(look(0), 0);
        size += size > 64 && size < info.st_size - 64 ? 37 : 0;
    }
}

TEST_WITH(every_changed_byte_is_found, make_folder, remove_folder)
{
    char path[4096];
    struct stat info;
    entry_path(0, path);
    assert_int_equal(put(0), KAS_OK);
    assert_int_equal(stat(path, &info), 0);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (off_t at = 0; at < info.st_size; at++) {
        unsigned char byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_int_equal(look(0), 0);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
    assert_int_equal(look(0), 1);
}

/* Whatever stands in the place of an entry: it counts as missing and gives way. */
TEST_WITH(what_is_no_file_is_replaced, make_folder, remove_folder)
{
    char path[4096], inner[4200], victim[300];
    struct stat info;
    kas_buf kept = {0};
    entry_path(0, path);
    snprintf(inner, sizeof inner, "%s/inner", path);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    assert_int_equal(kas_file_write_atomic(victim, "old", 3), KAS_OK);
    for (int kind = 0; kind < 3; kind++) {
        assert_int_equal(kas_remove_tree(path), KAS_OK);
        assert_int_equal(kind == 0   ? kas_mkdirs(inner) == KAS_OK ? 0 : -1
                         : kind == 1 ? symlink(victim, path)
                                     : mkfifo(path, 0600),
                         0);
        assert_int_equal(look(0), 0);
        assert_int_equal(put(0), KAS_OK);
        assert_int_equal(look(0), 1);
        assert_true(lstat(path, &info) == 0 && S_ISREG(info.st_mode));
    }
    assert_int_equal(kas_file_read(victim, 10, &kept), KAS_OK);
    assert_string_equal(kas_buf_text(&kept), "old");
    kas_buf_free(&kept);
}

/* Code is loaded from there. */
TEST_WITH(folders_of_entries_are_private, make_folder, remove_folder)
{
    char path[4096], hex[65];
    struct stat info;
    const int key = 0;
    entry_path(0, path);
    *strrchr(path, '/') = '\0';
    assert_true(stat(path, &info) == 0 && (info.st_mode & 07777) == 0700);
    assert_int_equal(chmod(path, 0777), 0);
    kas_sha256_hex(&key, sizeof key, hex);
    assert_int_equal(kas_cache_path(folder, hex, "so", path), KAS_FAILURE);
    assert_non_null(strstr(kas_error(), "group or others may write it"));
    assert_int_equal(kas_cache_shared_path(folder, hex, "plan", path), KAS_OK);
}

/* Writers, readers and vandals; the exit code is the number of wrong reads. */
static int child(int me)
{
    int wrong = 0;
    unsigned random = (unsigned)me * 7919u + 1;
    for (int round = 0; round < ROUNDS; round++) {
        int key = (int)(rand_r(&random) % KEYS);
        char path[4096];
        entry_path(key, path);
        if (me % 4 == 0) { /* vandal */
            int fd = open(path, O_RDWR);
            if (fd >= 0) {
                wrong += (rand_r(&random) & 1) ? ftruncate(fd, rand_r(&random) % 900) != 0
                                               : pwrite(fd, "damage", 6, 300) != 6;
                close(fd);
            }
        } else if (me % 4 == 1)
            wrong += put(key) != KAS_OK;
        else {
            int seen = look(key);
            wrong += seen < 0 || (seen == 0 && put(key) != KAS_OK);
        }
    }
    return wrong;
}

TEST_WITH(processes_share_it_while_it_is_damaged, make_folder, remove_folder)
{
    pid_t pid[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            _exit(child(i));
    }
    int wrong = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        wrong += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
    }
    printf("%d processes, %d rounds: %d wrong reads (0 allowed)\n", PROCESSES, ROUNDS, wrong);
    assert_int_equal(wrong, 0);
    for (int key = 0; key < KEYS; key++) {
        assert_int_equal(put(key), KAS_OK);
        assert_int_equal(look(key), 1);
    }
}

TEST_WITH(lock_of_a_killed_process_is_free, make_folder, remove_folder)
{
    char path[4096];
    int ready[2];
    entry_path(2, path);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int lock = kas_cache_lock(path, 1);
        if (write(ready[1], lock >= 0 ? "y" : "n", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char answer = 0;
    assert_int_equal(read(ready[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    assert_int_equal(kas_cache_lock(path, 0.05), -1); /* held: goes on without */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    int lock = kas_cache_lock(path, 1);
    assert_true(lock >= 0);
    kas_cache_unlock(path, lock);
    close(ready[0]);
    close(ready[1]);
}

RUN_TESTS()
