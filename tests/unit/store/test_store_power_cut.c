/* What a power cut leaves of a store in a file.
 *
 * This program has an fdatasync of its own, which SQLite calls. It keeps a copy of what each file
 * had when it was last flushed: what a disk is sure to have. After a report has returned, the
 * copies alone must be a study that has it. */
#include "support/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/core/buf.h"
#include "host/core/file/files.h"
#include "host/store/sql.h"
#include "support/folder.h"

static char path[300];
static int flushes;
static kas_store *other; /* tries to write while a commit is flushed, if it is not NULL */
static kas_status other_status;

static void copy(const char *from, const char *folder_to, const char *name)
{
    char to[400];
    kas_buf text = {0};
    snprintf(to, sizeof to, "%s/%s/%s", folder, folder_to, name);
    OK(kas_file_read(from, (size_t)1 << 30, &text));
    FILE *file = fopen(to, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    assert_int_equal(fclose(file), 0);
    kas_buf_free(&text);
}

int fdatasync(int file)
{
    char link[64], name[400] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    assert_true(readlink(link, name, sizeof name - 1) > 0);
    const int code = (int)syscall(SYS_fdatasync, file);
    if (strncmp(name, path, strlen(path)) == 0) {
        flushes++;
        copy(link, "flushed", strrchr(name, '/') + 1);
        kas_store *second = other;
        other = NULL; /* its own commit comes here too */
        if (second) {
            bool added;
            other_status = kas_store_add(
                second, &(kas_work){.kind = KAS_WORK_BASELINE, .kernel = (char *)"{}"}, &added);
        }
    }
    return code;
}

static int set_up(void **state)
{
    char sub[320];
    const int made = make_folder(state);
    snprintf(path, sizeof path, "%s/study.db", folder);
    for (int i = 0; i < 2; i++) {
        snprintf(sub, sizeof sub, "%s/%s", folder, i ? "flushed" : "after");
        assert_int_equal(mkdir(sub, 0700), 0);
    }
    return made;
}

static kas_store *open_store(void)
{
    kas_store *store;
    OK(kas_store_open(path, KAS_STORE_CREATE, &store));
    return store;
}

static void add(kas_store *store, int k)
{
    const kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = k, .kernel = (char *)"{}"};
    bool added;
    OK(kas_store_add(store, &work, &added));
    assert_true(added);
}

static kas_work claim(kas_store *store)
{
    kas_work work;
    bool found;
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 3600, &work, &found));
    assert_true(found);
    const kas_work taken = {.id = work.id, .lease = work.lease};
    kas_work_clear(&work);
    return taken;
}

static void finish(kas_store *store, const kas_work *work)
{
    const kas_measured measured = kas_measured_unknown();
    bool held;
    OK(kas_store_finish(store, work->id, work->lease, KAS_WORK_FINISHED, "", &measured, &held));
    assert_true(held);
}

/* Counts the finished items of what a power cut leaves. */
static int left(void)
{
    char from[400];
    sqlite3 *db;
    sqlite3_stmt *stmt;
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "study.db-wal" : "study.db";
        snprintf(from, sizeof from, "%s/flushed/%s", folder, name);
        if (kas_file_exists(from))
            copy(from, "after", name);
    }
    snprintf(from, sizeof from, "%s/after/study.db", folder);
    assert_int_equal(sqlite3_open(from, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM work WHERE state = 'finished'",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    const int count = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    snprintf(from, sizeof from, "%s/after/study.db-wal", folder);
    unlink(from);
    return count;
}

/* So many items that SQLite copies the log into the file, and begins it anew. */
TEST_WITH(every_end_is_left, set_up, remove_folder)
{
    enum { ITEMS = 200 };
    struct stat info;
    char log[320];
    kas_store *store = open_store();
    for (int k = 0; k < ITEMS; k++) {
        add(store, k);
        const kas_work work = claim(store);
        finish(store, &work);
        if (k < 3 || k % 10 == 0)
            assert_int_equal(left(), k + 1);
    }
    snprintf(log, sizeof log, "%s-wal", path);
    assert_int_equal(stat(log, &info), 0);
    assert_in_range(info.st_size, 1000 * 4096, 1200 * 4120);
    kas_store_close(store);
    assert_int_equal(left(), ITEMS);
}

/* The claim of a candidate and a renewal are not flushed. So the copies show what is not. */
TEST_WITH(some_changes_wait, set_up, remove_folder)
{
    kas_store *store = open_store();
    add(store, 0);
    const int before = flushes;
    const kas_work work = claim(store);
    bool held;
    OK(kas_store_renew(store, work.id, work.lease, 60, &held));
    assert_true(held);
    assert_int_equal(flushes, before);
    finish(store, &work);
    assert_int_equal(flushes, before + 1);
    kas_store_close(store);
}

/* While one process waits for the disk another one can write. */
TEST_WITH(the_lock_is_free, set_up, remove_folder)
{
    kas_store *store = open_store(), *second = open_store();
    assert_int_equal(sqlite3_busy_timeout(second->db, 0), SQLITE_OK);
    other = second;
    other_status = KAS_FAILURE;
    add(store, 0);
    OK(other_status);
    kas_store_close(second);
    kas_store_close(store);
}

/* Where files cannot share memory there is no log, and SQLite says nothing of it. */
TEST_WITH(without_a_log, set_up, remove_folder)
{
    char log[320];
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find("unix-dotfile"), 1), SQLITE_OK);
    kas_store *store = open_store();
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_prepare_v2(store->db, "PRAGMA synchronous", -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(stmt, 0), 2); /* FULL: a rollback journal needs it */
    sqlite3_finalize(stmt);
    for (int k = 0; k < 3; k++) {
        add(store, k);
        const kas_work work = claim(store);
        finish(store, &work);
        assert_int_equal(left(), k + 1);
    }
    snprintf(log, sizeof log, "%s-wal", path);
    assert_false(kas_file_exists(log));
    kas_store_close(store);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find("unix"), 1), SQLITE_OK);
}

RUN_TESTS()
