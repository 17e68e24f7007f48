/* Stores of an earlier schema: read as they are, brought to the present one in one transaction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/store/sql.h"
#include "support/folder.h"
#include "support/ok.h"

static char path[300];

static int set_up(void **state)
{
    const int made = make_folder(state);
    snprintf(path, sizeof path, "%s/study.db", folder);
    return made;
}

/* What changed in schema 2. */
static const char to_schema_2[] =
    "ALTER TABLE study ADD COLUMN code_version TEXT NOT NULL DEFAULT '';"
    "PRAGMA user_version = 2;";

/* And in schema 3. */
#define WORK_2                                                                                     \
    "id, kind, k, attempt, name, kernel, flops, params, conv_flops, conv_params, state, reason,"   \
    " lease, owner, lease_until, deaths, created, started, ended, accuracy, latency, latency_iqr," \
    " step_seconds, compile_seconds, memory, output_std_min, output_std_max"
static const char to_schema_3[] =
    "CREATE TABLE work3 (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, k INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, name TEXT NOT NULL, kernel TEXT, flops REAL, params REAL,"
    " conv_flops REAL, conv_params REAL, state TEXT NOT NULL DEFAULT 'queued',"
    " reason TEXT NOT NULL DEFAULT '', lease INTEGER NOT NULL DEFAULT 0,"
    " owner TEXT NOT NULL DEFAULT '', lease_until REAL NOT NULL DEFAULT 0,"
    " deaths INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL, ended REAL,"
    " accuracy REAL, latency REAL, latency_iqr REAL, step_seconds REAL, compile_seconds REAL,"
    " memory REAL, output_std_min REAL, output_std_max REAL, seed INTEGER NOT NULL DEFAULT 0,"
    " generation INTEGER NOT NULL DEFAULT 0, origin TEXT NOT NULL DEFAULT '',"
    " parents TEXT NOT NULL DEFAULT '', rung INTEGER NOT NULL DEFAULT 0, predicted REAL,"
    " gains TEXT NOT NULL DEFAULT '', answers INTEGER NOT NULL DEFAULT 0,"
    " correct TEXT NOT NULL DEFAULT '', UNIQUE (kind, k, seed));"
    "INSERT INTO work3 (" WORK_2 ", answers) SELECT " WORK_2 ", kind IN (2, 4) FROM work;"
    "CREATE TABLE epoch3 (work INTEGER NOT NULL REFERENCES work3 (id), epoch INTEGER NOT NULL,"
    " train_loss REAL, train_accuracy REAL, validation_loss REAL, validation_accuracy REAL,"
    " seconds REAL, PRIMARY KEY (work, epoch)) WITHOUT ROWID;"
    "INSERT INTO epoch3 SELECT * FROM epoch; DROP TABLE epoch; DROP TABLE work;"
    "ALTER TABLE work3 RENAME TO work; ALTER TABLE epoch3 RENAME TO epoch;"
    "PRAGMA user_version = 3;";

/* And in schema 4. */
static const char to_schema_4[] =
    "ALTER TABLE work ADD COLUMN processor REAL; ALTER TABLE work ADD COLUMN ratio REAL;"
    "ALTER TABLE work ADD COLUMN ratio_low REAL; ALTER TABLE work ADD COLUMN ratio_high REAL;"
    "PRAGMA user_version = 4;";

/* And in schema 5. */
static const char to_schema_5[] =
    "ALTER TABLE work ADD COLUMN changed BIGINT NOT NULL DEFAULT 0;"
    "CREATE INDEX work_changed ON work (changed);"
    "CREATE TABLE changes (number BIGINT NOT NULL, removed BIGINT NOT NULL);"
    "INSERT INTO changes VALUES (0, 0);"
    "CREATE TRIGGER work_added AFTER INSERT ON work BEGIN UPDATE changes SET number = number + 1;"
    " UPDATE work SET changed = (SELECT number FROM changes) WHERE id = NEW.id; END;"
    "CREATE TRIGGER work_changed AFTER UPDATE ON work WHEN (NEW.changed = OLD.changed"
    " AND (NEW.lease <> OLD.lease OR NEW.lease_until = OLD.lease_until))"
    " BEGIN UPDATE changes SET number = number + 1;"
    " UPDATE work SET changed = (SELECT number FROM changes) WHERE id = NEW.id; END;"
    "CREATE TRIGGER work_removed AFTER DELETE ON work BEGIN"
    " UPDATE changes SET removed = removed + 1; END;"
    "CREATE TRIGGER work_moved AFTER UPDATE OF kind ON work BEGIN"
    " UPDATE changes SET removed = removed + 1; END;"
    "CREATE INDEX work_open ON work (kind, k, seed) WHERE state IN ('queued', 'running');"
    "PRAGMA user_version = 5;";
static const char to_schema_6[] =
    "ALTER TABLE work ADD COLUMN exchange TEXT NOT NULL DEFAULT '';"
    "CREATE INDEX work_running ON work (owner) WHERE state = 'running';"
    "PRAGMA user_version = 6;";
static const char to_schema_7[] = "PRAGMA user_version = 7;"; /* what changed is a server's */

/* A study as the program of that schema left it (tests/store/schema1.sql). */
static void make_old(int schema)
{
    sqlite3 *db;
    kas_buf text = {0};
    OK(kas_file_read("tests/store/schema1.sql", 1 << 20, &text));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, kas_buf_text(&text), 0, 0, 0), SQLITE_OK);
    if (schema >= 2)
        assert_int_equal(sqlite3_exec(db, to_schema_2, 0, 0, 0), SQLITE_OK);
    if (schema >= 3)
        assert_int_equal(sqlite3_exec(db, to_schema_3, 0, 0, 0), SQLITE_OK);
    if (schema >= 4)
        assert_int_equal(sqlite3_exec(db, to_schema_4, 0, 0, 0), SQLITE_OK);
    if (schema >= 5)
        assert_int_equal(sqlite3_exec(db, to_schema_5, 0, 0, 0), SQLITE_OK);
    if (schema >= 6)
        assert_int_equal(sqlite3_exec(db, to_schema_6, 0, 0, 0), SQLITE_OK);
    if (schema >= 7)
        assert_int_equal(sqlite3_exec(db, to_schema_7, 0, 0, 0), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    kas_buf_free(&text);
}

static int schema_of_file(void)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    const int version = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return version;
}

static kas_status accept_study(void *context, const kas_study *present, kas_study_change *out)
{
    snprintf(context, KAS_CODE_TEXT, "%s", present->code_version);
    snprintf(out->code_version, sizeof out->code_version, "now");
    return KAS_OK;
}

static kas_status refuse_study(void *context, const kas_study *present, kas_study_change *out)
{
    (void)context, (void)present, (void)out;
    return kas_fail(KAS_STORE, "another sampler");
}

static void assert_old_study(kas_store *store, const char *code_version)
{
    kas_study study;
    kas_work *list;
    kas_epoch *epoch;
    int count, epochs;
    OK(kas_store_get_study(store, &study));
    assert_string_equal(study.code_version, code_version);
    assert_string_equal(study.dataset_path, "/data/shapes.h5");
    assert_int_equal(study.sampler_version, 2);
    kas_study_clear(&study);
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 5);
    for (int i = 0; i < count; i++) {
        const kas_work *w = &list[i];
        assert_int_equal(w->state, KAS_WORK_FINISHED);
        assert_true(w->epochs == 1 && w->measured.accuracy > 0);
        assert_true(!*w->origin && !*w->parents && !w->gains && isnan(w->predicted));
        assert_true(w->generation == 0 && w->rung == 0 && w->seed == 0 && !w->correct);
        assert_true(isnan(w->processor));
        assert_int_equal(w->answers,
                         w->kind == KAS_WORK_FINAL || w->kind == KAS_WORK_EARLIER_FINAL);
    }
    OK(kas_store_epochs(store, list[1].id, &epoch, &epochs));
    assert_int_equal(epochs, 1);
    free(epoch);
    kas_work_list_free(list, count);
}

/* Rows that an older schema has no room for. */
static void assert_holds_what_is_new(kas_store *store)
{
    kas_work final = {.kind = KAS_WORK_FINAL,
                      .seed = 7,
                      .attempt = -1,
                      .origin = "change",
                      .parents = "a,b",
                      .generation = 3,
                      .predicted = 0.5};
    kas_work *list;
    int count, found = 0;
    bool added;
    OK(kas_store_add(store, &final, &added));
    assert_true(added); /* beside the one with seed 0 */
    OK(kas_store_add(store, &final, &added));
    assert_false(added);
    OK(kas_store_list(store, &list, &count));
    for (int i = 0; i < count; i++)
        if (list[i].seed == 7) {
            found++;
            assert_string_equal(list[i].origin, "change");
            assert_string_equal(list[i].parents, "a,b");
            assert_true(list[i].generation == 3 && list[i].predicted == 0.5);
        }
    assert_int_equal(found, 1);
    kas_work_list_free(list, count);
}

/* Describes what a file has besides its rows: the columns in order, indexes and triggers. */
static void describe(char *out, size_t size)
{
    static const char *const queries[] = {
        "SELECT m.name || '.' || c.name || ' ' || c.type || c.'notnull' || coalesce(c.dflt_value, "
        "'')"
        " FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1",
        "SELECT sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
        " ORDER BY name"};
    sqlite3 *db;
    sqlite3_stmt *stmt;
    size_t used = 0;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sqlite3_prepare_v2(db, queries[i], -1, &stmt, NULL), SQLITE_OK);
        while (sqlite3_step(stmt) == SQLITE_ROW)
            used += (size_t)snprintf(out + used, size - used, "%s\n", sqlite3_column_text(stmt, 0));
        assert_true(used > 100 && used < size);
        sqlite3_finalize(stmt);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A study of an earlier schema becomes what a new one is. */
static void same_as_new(void **state)
{
    (void)state;
    static char fresh[8192], converted[8192];
    kas_store *store;
    OK(kas_store_open(path, KAS_STORE_CREATE, &store));
    kas_store_close(store);
    describe(fresh, sizeof fresh);
    for (int schema = 1; schema < KAS_STORE_SCHEMA; schema++) {
        OK(kas_remove_tree(folder));
        assert_int_equal(mkdir(folder, 0700), 0);
        make_old(schema);
        OK(kas_store_open(path, KAS_STORE_WRITE, &store));
        OK(kas_store_update(store));
        kas_store_close(store);
        describe(converted, sizeof converted);
        assert_string_equal(converted, fresh);
    }
}

/* Read as it is; left alone by who refuses to go on; the present schema once somebody does. */
static void older_schema(int schema)
{
    kas_store *store, *reader;
    char before[KAS_CODE_TEXT] = "-";
    make_old(schema);
    OK(kas_store_open(path, KAS_STORE_READ, &reader));
    assert_old_study(reader, "");
    OK(kas_store_open(path, KAS_STORE_WRITE, &store));
    assert_old_study(store, "");
    assert_int_equal(kas_store_revise(store, refuse_study, NULL), KAS_STORE);
    assert_int_equal(schema_of_file(), schema);
    assert_old_study(store, "");
    OK(kas_store_revise(store, accept_study, before));
    assert_string_equal(before, "");
    assert_int_equal(schema_of_file(), KAS_STORE_SCHEMA);
    assert_old_study(store, "now");
    assert_old_study(reader, "now"); /* which was open meanwhile */
    OK(kas_store_revise(store, accept_study, before));
    assert_string_equal(before, "now");
    assert_holds_what_is_new(store);
    kas_store_close(reader);
    kas_store_close(store);
}

static void schema_1(void **state)
{
    (void)state;
    older_schema(1);
}

static void schema_2(void **state)
{
    (void)state;
    older_schema(2);
}

static void schema_3(void **state)
{
    (void)state;
    older_schema(3);
}

static void schema_4(void **state)
{
    (void)state;
    older_schema(4);
}

static void schema_5(void **state)
{
    (void)state;
    older_schema(5);
}

static void schema_6(void **state)
{
    (void)state;
    older_schema(6);
}

/* A file of schema 1 whose study never began is begun in the present one. */
static void older_schema_without_study(void **state)
{
    (void)state;
    sqlite3 *db;
    bool created;
    make_old(1);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM study", 0, 0, 0), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    kas_store *store;
    OK(kas_store_open(path, KAS_STORE_CREATE, &store));
    kas_study study = {.options = "{}", .code_version = "mine"}, read;
    OK(kas_store_begin_study(store, &study, &created));
    assert_true(created);
    OK(kas_store_get_study(store, &read));
    assert_string_equal(read.code_version, "mine");
    kas_study_clear(&read);
    kas_store_close(store);
    assert_int_equal(schema_of_file(), KAS_STORE_SCHEMA);
}

static int commits_left, statements_left;

static int die_at_commit(void *context)
{
    (void)context;
    if (--commits_left == 0)
        raise(SIGKILL);
    return 0;
}

static kas_status die_deciding(void *context, const kas_study *present, kas_study_change *out)
{
    (void)context, (void)present, (void)out;
    raise(SIGKILL);
    return KAS_OK;
}

static int die_at_statement(unsigned what, void *context, void *statement, void *sql)
{
    (void)what, (void)context, (void)statement, (void)sql;
    if (--statements_left == 0)
        raise(SIGKILL);
    return 0;
}

/* Goes on with the study and is killed before a statement, if it has so many. */
static void go_on_until_statement(int number)
{
    kas_store *store;
    char before[KAS_CODE_TEXT];
    if (kas_store_open(path, KAS_STORE_WRITE, &store) != KAS_OK)
        _exit(1);
    statements_left = number;
    sqlite3_trace_v2(store->db, SQLITE_TRACE_STMT, die_at_statement, NULL);
    _exit(kas_store_revise(store, accept_study, before) != KAS_OK);
}

/* Goes on with the study and is killed: while it decides, after the migration but before its
 * commit, at the first commit, or at the second, if there is one. */
static void go_on_and_die(int moment)
{
    kas_store *store;
    char before[KAS_CODE_TEXT];
    if (kas_store_open(path, KAS_STORE_WRITE, &store) != KAS_OK)
        _exit(1);
    if (moment == 1 && kas_sql_begin(store) == KAS_OK && kas_store_migrate(store) == KAS_OK)
        raise(SIGKILL);
    commits_left = moment - 1;
    sqlite3_commit_hook(store->db, die_at_commit, NULL);
    _exit(kas_store_revise(store, moment == 0 ? die_deciding : accept_study, before) != KAS_OK);
}

/* Runs one of the functions above in a process of its own, on a fresh old study. Whenever kill -9
 * comes, the old file is whole or the new one is, and the next command goes on. Returns whether the
 * process was killed. */
static bool migrate_and_die(int schema, void (*go_on)(int), int when)
{
    char before[KAS_CODE_TEXT];
    int status;
    kas_store *store;
    OK(kas_remove_tree(folder));
    assert_int_equal(mkdir(folder, 0700), 0);
    make_old(schema);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        go_on(when);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    assert_true(killed || status == 0);
    assert_int_equal(schema_of_file(), killed ? schema : KAS_STORE_SCHEMA);
    OK(kas_store_open(path, KAS_STORE_WRITE, &store));
    assert_old_study(store, killed ? "" : "now");
    OK(kas_store_revise(store, accept_study, before));
    assert_old_study(store, "now");
    kas_store_close(store);
    assert_int_equal(schema_of_file(), KAS_STORE_SCHEMA);
    return killed;
}

static void killed_while_migrating(void **state)
{
    (void)state;
    for (int moment = 0; moment < 4; moment++)
        assert_true(migrate_and_die(1, go_on_and_die, moment) || moment == 3);
}

static void killed_at_every_statement(void **state)
{
    (void)state;
    for (int schema = 1; schema < KAS_STORE_SCHEMA; schema++) {
        int number = 1;
        while (migrate_and_die(schema, go_on_until_statement, number))
            number++;
        assert_true(number > (schema < 3   ? 22
                              : schema < 5 ? 14
                              : schema < 6 ? 5
                                           : 3)); /* the transaction, the migration, the change */
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(schema_1),
        TEST(schema_2),
        TEST(schema_3),
        TEST(schema_4),
        TEST(schema_5),
        TEST(schema_6),
        TEST(same_as_new),
        TEST(older_schema_without_study),
        TEST(killed_while_migrating),
        TEST(killed_at_every_statement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
