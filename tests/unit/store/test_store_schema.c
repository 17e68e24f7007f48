/* Stores of an earlier schema: read as they are, and left alone. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static const char to_schema_8[] =
    "ALTER TABLE work ADD COLUMN missed DOUBLE PRECISION; PRAGMA user_version = 8;";

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
    if (schema >= 8)
        assert_int_equal(sqlite3_exec(db, to_schema_8, 0, 0, 0), SQLITE_OK);
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
    (void)context, (void)present, (void)out;
    return KAS_OK;
}

static void assert_old_study(kas_store *store)
{
    kas_study study;
    kas_work *list;
    kas_epoch *epoch;
    int count, epochs;
    OK(kas_store_get_study(store, &study));
    assert_string_equal(study.code_version, "");
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
        assert_true(isnan(w->processor) && isnan(w->leased));
        assert_int_equal(w->answers,
                         w->kind == KAS_WORK_FINAL || w->kind == KAS_WORK_EARLIER_FINAL);
    }
    OK(kas_store_epochs(store, list[1].id, &epoch, &epochs));
    assert_int_equal(epochs, 1);
    free(epoch);
    kas_work_list_free(list, count);
}

TEST_WITH(older_schemas, set_up, remove_folder)
{
    kas_store *store;
    bool created;
    const kas_study study = {.options = "{}"};
    for (int schema = 1; schema < KAS_STORE_SCHEMA; schema++) {
        make_old(schema);
        OK(kas_store_open(path, KAS_STORE_READ, &store));
        assert_old_study(store);
        kas_store_close(store);
        OK(kas_store_open(path, KAS_STORE_CREATE, &store));
        assert_int_equal(kas_store_revise(store, accept_study, NULL), KAS_STORE);
        assert_non_null(strstr(kas_error(), "and goes on only with studies of version 9"));
        assert_int_equal(kas_store_check_schema(store), KAS_STORE);
        assert_old_study(store);
        OK(kas_sql_run(store, NULL, "DELETE FROM study", "")); /* one that never began */
        assert_int_equal(kas_store_begin_study(store, &study, &created), KAS_STORE);
        kas_store_close(store);
        assert_int_equal(schema_of_file(), schema);
        OK(kas_remove_tree(folder));
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

RUN_TESTS()
