/* Stores in files: files that are not ours or are damaged, network file systems. */
#include "support/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/store/sql.h"
#include "support/folder.h"

static char path[300];

static int set_up(void **state)
{
    const int made = make_folder(state);
    snprintf(path, sizeof path, "%s/study.db", folder);
    return made;
}

static kas_store *open_store(void)
{
    kas_store *store;
    OK(kas_store_open(path, KAS_STORE_CREATE, &store));
    return store;
}

static void add_candidates(kas_store *store, int count)
{
    for (int k = 0; k < count; k++) {
        const kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = k, .kernel = (char *)"{}"};
        bool added;
        OK(kas_store_add(store, &work, &added));
    }
}

static void write_text(const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void assert_refused(kas_store_mode mode, const char *word)
{
    kas_store *store = (kas_store *)1;
    assert_int_equal(kas_store_open(path, mode, &store), KAS_STORE);
    assert_null(store);
    assert_non_null(strstr(kas_error(), path));
    if (!strstr(kas_error(), word))
        fail_msg("message lacks \"%s\": %s", word, kas_error());
}

TEST_WITH(files_that_are_not_ours, set_up, remove_folder)
{
    assert_refused(KAS_STORE_READ, "no such study");
    assert_refused(KAS_STORE_WRITE, "no such study");
    char text[8192];
    memset(text, 'x', sizeof text);
    write_text(text, sizeof text);
    for (int mode = KAS_STORE_READ; mode <= KAS_STORE_CREATE; mode++)
        assert_refused((kas_store_mode)mode, "not an SQLite data base");
    unlink(path);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE other (x)", 0, 0, 0), SQLITE_OK);
    sqlite3_close(db);
    for (int mode = KAS_STORE_READ; mode <= KAS_STORE_CREATE; mode++)
        assert_refused((kas_store_mode)mode, "not of kas-gpu");
}

TEST_WITH(newer_schema, set_up, remove_folder)
{
    kas_store_close(open_store());
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", 0, 0, 0), SQLITE_OK);
    sqlite3_close(db);
    for (int mode = KAS_STORE_READ; mode <= KAS_STORE_CREATE; mode++)
        assert_refused((kas_store_mode)mode, "schema version 99");
}

TEST_WITH(damaged_file, set_up, remove_folder)
{
    kas_store *store = open_store();
    add_candidates(store, 200);
    kas_store_close(store);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    char noise[6000];
    memset(noise, 0x5a, sizeof noise);
    assert_int_equal(fseek(file, 12288, SEEK_SET), 0);
    assert_int_equal(fwrite(noise, 1, sizeof noise, file), sizeof noise);
    assert_int_equal(fclose(file), 0);
    assert_refused(KAS_STORE_WRITE, "damaged");
    assert_refused(KAS_STORE_CREATE, "damaged");
}

TEST_WITH(network_file_systems, set_up, remove_folder)
{
    assert_true(kas_store_network_magic(0x6969));
    assert_true(kas_store_network_magic(0xFF534D42));
    assert_true(kas_store_network_magic(0x0BD00BD0));
    assert_false(kas_store_network_magic(0xEF53));     /* ext4 */
    assert_false(kas_store_network_magic(0x58465342)); /* XFS */
    assert_false(kas_store_network_magic(0x01021994)); /* tmpfs */
}

/* What a network file system gets: no WAL files, and the second supervisor is refused. */
TEST_WITH(exclusive_lock, set_up, remove_folder)
{
    kas_store *store;
    OK(kas_store_open_as(path, KAS_STORE_CREATE, true, &store));
    assert_true(kas_store_is_exclusive(store));
    add_candidates(store, 1);
    char wal[320];
    snprintf(wal, sizeof wal, "%s-wal", path);
    assert_false(kas_file_exists(wal));
    pid_t pid = fork();
    if (pid == 0) {
        kas_store *second;
        kas_status got = kas_store_open_as(path, KAS_STORE_CREATE, true, &second);
        _exit(got == KAS_STORE && strstr(kas_error(), "one supervisor at a time") ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    kas_store_close(store);
    OK(kas_store_open_as(path, KAS_STORE_CREATE, true, &store));
    kas_work work;
    bool found;
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found));
    assert_true(found);
    kas_work_clear(&work);
    kas_store_close(store);
}

RUN_TESTS()
