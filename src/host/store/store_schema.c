/* The schema of a study: makes its tables, and brings those of earlier schemas to the present one.
 *
 * New tables are those of schema 4 (tables.h), the first that a server had. From there a study
 * takes the steps below, in a file and on a server, whether it is new or old. So both ways lead to
 * the same tables. */
#include "host/store/sql.h"
#include "host/store/tables.h"

/* ---- files of schemas 1 to 3 ----------------------------------------------------------------- */

/* The columns of `work` that schemas 1 and 2 have too, in the order in which they have them. */
#define OLD_WORK_COLUMNS                                                                           \
    "id, kind, k, attempt, name, kernel, flops, params, conv_flops, conv_params, state, reason,"   \
    " lease, owner, lease_until, deaths, created, started, ended, accuracy, latency, latency_iqr," \
    " step_seconds, compile_seconds, memory, output_std_min, output_std_max"

#define WORK_TABLE(name) KAS_WORK_TABLE(name, "INTEGER PRIMARY KEY", "INTEGER", "REAL")
#define EPOCH_TABLE(name, work)                                                                    \
    KAS_EPOCH_TABLE(name, "INTEGER", "REAL", " REFERENCES " work " (id)") " WITHOUT ROWID"

static const char *const file_tables[] = {
    KAS_STUDY_TABLE("INTEGER", "REAL"),
    WORK_TABLE("work"),
    EPOCH_TABLE("epoch", "work"),
};

/* From schemas 1 and 2. SQLite cannot change what is unique in a table, so both tables are made
 * anew. Epochs refer to items: the old epochs go before the old items, and a rename changes what
 * the new ones refer to. */
static const char *const renew_tables[] = {
    WORK_TABLE("work3"),
    "INSERT INTO work3 (" OLD_WORK_COLUMNS ", answers) SELECT " OLD_WORK_COLUMNS
    ", kind IN (2, 4) FROM work",
    EPOCH_TABLE("epoch3", "work3"),
    "INSERT INTO epoch3 SELECT * FROM epoch",
    "DROP TABLE epoch",
    "DROP TABLE work",
    "ALTER TABLE work3 RENAME TO work",
    "ALTER TABLE epoch3 RENAME TO epoch",
};

static const char *const columns_of_4[] = {
    "ALTER TABLE work ADD COLUMN processor REAL",
    "ALTER TABLE work ADD COLUMN ratio REAL",
    "ALTER TABLE work ADD COLUMN ratio_low REAL",
    "ALTER TABLE work ADD COLUMN ratio_high REAL",
};

/* ---- from schema 4 on ------------------------------------------------------------------------ */

/* What raises an item's number: everything but renewals, which no reader asks for. */
#define IS_CHANGE                                                                                  \
    " WHEN (NEW.changed = OLD.changed"                                                             \
    " AND (NEW.lease <> OLD.lease OR NEW.lease_until = OLD.lease_until))"
/* One process at a time writes to a file, so numbers are committed in their order. */
#define NUMBER_OF_FILE                                                                             \
    " BEGIN UPDATE changes SET number = number + 1;"                                               \
    " UPDATE work SET changed = (SELECT number FROM changes) WHERE id = NEW.id; END"
#define REMOVED "UPDATE changes SET removed = removed + 1;"

static const struct step {
    int schema; /* that it leads to */
    enum { ON_BOTH, IN_FILE, ON_SERVER } where;
    const char *sql;
} steps[] = {
    /* 5: which items have changed since a reader looked last (store_refresh.c) */
    {5, ON_BOTH, "ALTER TABLE work ADD COLUMN changed BIGINT NOT NULL DEFAULT 0"},
    {5, ON_BOTH, "CREATE INDEX work_changed ON work (changed)"},
    {5, ON_BOTH, "CREATE TABLE changes (number BIGINT NOT NULL, removed BIGINT NOT NULL)"},
    {5, ON_BOTH, "INSERT INTO changes VALUES (0, 0)"},
    {5, IN_FILE, "CREATE TRIGGER work_added AFTER INSERT ON work" NUMBER_OF_FILE},
    {5, IN_FILE, "CREATE TRIGGER work_changed AFTER UPDATE ON work" IS_CHANGE NUMBER_OF_FILE},
    {5, IN_FILE, "CREATE TRIGGER work_removed AFTER DELETE ON work BEGIN " REMOVED " END"},
    {5, IN_FILE, "CREATE TRIGGER work_moved AFTER UPDATE OF kind ON work BEGIN " REMOVED " END"},
    {5, ON_SERVER,
     "CREATE FUNCTION kas_number() RETURNS trigger LANGUAGE plpgsql AS"
     " $$ BEGIN NEW.changed := txid_current(); RETURN NEW; END $$"},
    {5, ON_SERVER,
     "CREATE TRIGGER work_added BEFORE INSERT ON work FOR EACH ROW"
     " EXECUTE PROCEDURE kas_number()"},
    {5, ON_SERVER,
     "CREATE TRIGGER work_changed BEFORE UPDATE ON work FOR EACH ROW" IS_CHANGE
     " EXECUTE PROCEDURE kas_number()"},
    {5, ON_SERVER,
     "CREATE FUNCTION kas_removed() RETURNS trigger LANGUAGE plpgsql AS"
     " $$ BEGIN " REMOVED " RETURN NULL; END $$"},
    {5, ON_SERVER,
     "CREATE TRIGGER work_removed AFTER DELETE OR UPDATE OF kind ON work FOR EACH STATEMENT"
     " EXECUTE PROCEDURE kas_removed()"},
    /* The items of which one is claimed. A server has this index since schema 4. */
    {5, IN_FILE, "CREATE INDEX work_open ON work (kind, k, seed) WHERE " KAS_WORK_OPEN},
    /* The supervisors: younger than the first studies of schema 4. */
    {5, ON_SERVER, "ALTER TABLE kas_gpu ADD COLUMN IF NOT EXISTS ended BIGINT NOT NULL DEFAULT 0"},
    {5, ON_SERVER,
     "CREATE TABLE IF NOT EXISTS member (owner TEXT, device TEXT, role TEXT NOT NULL,"
     " seen DOUBLE PRECISION NOT NULL, PRIMARY KEY (owner, device))"},
    /* 6: how the ranks of a training exchange; who holds leases, among many items that are queued */
    {6, ON_BOTH, "ALTER TABLE work ADD COLUMN exchange TEXT NOT NULL DEFAULT ''"},
    {6, ON_BOTH, "CREATE INDEX work_running ON work (owner) WHERE state = 'running'"},
    /* 7: who waits is told behind the change and not in its transaction (kas_store_tell) */
    {7, ON_SERVER, "DROP TRIGGER IF EXISTS work_tell ON work"},
    {7, ON_SERVER, "DROP FUNCTION IF EXISTS kas_tell()"},
    /* 8: what kernels miss of the convolutions that they imitate */
    {8, ON_BOTH, "ALTER TABLE work ADD COLUMN missed DOUBLE PRECISION"},
};

static kas_status run_all(kas_store *store, const char *const *sql, size_t count)
{
    for (size_t i = 0; i < count; i++)
        KAS_TRY(kas_sql_run(store, NULL, sql[i], ""));
    return KAS_OK;
}
#define RUN_ALL(store, list) run_all(store, list, sizeof(list) / sizeof *(list))

kas_status kas_store_take_steps(kas_store *store, int schema)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].schema > schema && steps[i].where != (store->server ? IN_FILE : ON_SERVER))
            KAS_TRY(kas_sql_run(store, NULL, steps[i].sql, ""));
    return store->backend->set_schema(store);
}

kas_status kas_sqlite_make_tables(kas_store *store)
{
    KAS_TRY(RUN_ALL(store, file_tables));
    return kas_store_take_steps(store, KAS_STORE_SERVER_SCHEMA);
}

/* `schema` is read again later, because the commit may fail. */
kas_status kas_store_migrate(kas_store *store)
{
    KAS_TRY(kas_store_identify(store)); /* another process may have done it */
    if (store->schema == KAS_STORE_SCHEMA)
        return KAS_OK;
    if (store->schema == 1)
        KAS_TRY(
            kas_sql_run(store, NULL, "ALTER TABLE study ADD COLUMN" KAS_CODE_VERSION_COLUMN, ""));
    if (store->schema < 3)
        KAS_TRY(RUN_ALL(store, renew_tables));
    if (store->schema == 3)
        KAS_TRY(RUN_ALL(store, columns_of_4));
    return kas_store_take_steps(store, store->schema);
}

kas_status kas_store_update(kas_store *store)
{
    kas_status status;
    KAS_TRY(kas_store_identify(store));
    if (store->schema == KAS_STORE_SCHEMA)
        return KAS_OK;
    kas_sql_durable(store, true);
    KAS_SQL_TRANSACTION(store, status, kas_store_migrate(store));
    return status;
}
