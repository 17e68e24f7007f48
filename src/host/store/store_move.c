/* Copies a study from one store into another. */

#include "host/store/sql.h"

enum { MOST_COLUMNS = 64 };

/* A table: how its rows are read and written, and the types of its columns. */
typedef struct copied {
    const char *select, *insert, *types;
} copied;

#define STUDY                                                                                      \
    "id, options, options_digest, dataset_digest, dataset_path, sampler_version, seed, created,"   \
    " busy_seconds, device, code_version, drawing_seconds"
#define WORK                                                                                       \
    "id, kind, k, attempt, name, kernel, flops, params, conv_flops, conv_params, state, reason,"   \
    " lease, owner, lease_until, deaths, created, started, ended, accuracy, latency, latency_iqr," \
    " step_seconds, compile_seconds, memory, output_std_min, output_std_max, seed, generation,"    \
    " origin, parents, rung, predicted, gains, answers, correct, processor, ratio, ratio_low,"     \
    " ratio_high, exchange, missed, leased"
#define EPOCH                                                                                      \
    "work, epoch, train_loss, train_accuracy, validation_loss, validation_accuracy, seconds"
#define ANSWER "generation, text, fault, asked"
#define Q4 "?, ?, ?, ?"
#define Q7 Q4 ", ?, ?, ?"
#define Q10 Q4 ", " Q4 ", ?, ?"

static const copied tables[] = {
    {"SELECT " STUDY " FROM study", "INSERT INTO study (" STUDY ") VALUES (" Q10 ", ?, ?)",
     "ittttiiddttd"},
    {"SELECT " WORK " FROM work ORDER BY id",
     "INSERT INTO work (" WORK ") VALUES (" Q10 ", " Q10 ", " Q10 ", " Q10 ", ?, ?, ?)",
     "iiiittddddttitdiddd"
     "dddddddd"
     "iittidtitddddtdd"},
    {"SELECT " EPOCH " FROM epoch ORDER BY work, epoch",
     "INSERT INTO epoch (" EPOCH ") VALUES (" Q7 ")", "iiddddd"},
    {"SELECT " ANSWER " FROM answer", "INSERT INTO answer (" ANSWER ") VALUES (" Q4 ")", "ittd"},
};

static kas_status copy_row(kas_sql_stmt *row, kas_store *to, const copied *table)
{
    kas_sql_value value[MOST_COLUMNS];
    for (int i = 0; table->types[i]; i++)
        if (table->types[i] == 'i')
            value[i].i = kas_sql_int(row, i);
        else if (table->types[i] == 'd')
            value[i].d = kas_sql_double(row, i);
        else
            value[i].t = kas_sql_chars(row, i);
    return kas_sql_run_values(to, NULL, table->insert, table->types, value);
}

static kas_status copy_table(kas_store *from, kas_store *to, const copied *table)
{
    kas_sql_stmt *rows;
    bool row = true;
    KAS_TRY(kas_sql_prepare(from, &rows, table->select, ""));
    kas_status status = kas_sql_step(rows, &row);
    while (status == KAS_OK && row) {
        status = copy_row(rows, to, table);
        if (status == KAS_OK)
            status = kas_sql_step(rows, &row);
    }
    kas_sql_finish(rows);
    return status;
}

static kas_status clear(kas_store *store)
{
    KAS_TRY(kas_sql_run(store, NULL, "DELETE FROM epoch", ""));
    KAS_TRY(kas_sql_run(store, NULL, "DELETE FROM work", ""));
    return kas_sql_run(store, NULL, "DELETE FROM study", "");
}

static kas_status copy_all(kas_store *from, kas_store *to)
{
    bool answers;
    KAS_TRY(kas_store_has_answers(from, &answers));
    KAS_TRY(clear(to)); /* a copy that was interrupted */
    for (int i = 0; i < 3; i++)
        KAS_TRY(copy_table(from, to, &tables[i]));
    if (answers) {
        KAS_TRY(kas_store_make_answers(to));
        KAS_TRY(kas_sql_run(to, NULL, "DELETE FROM answer", ""));
        KAS_TRY(copy_table(from, to, &tables[3]));
    }
    return to->server ? kas_sql_run(to, NULL,
                                    "SELECT setval(pg_get_serial_sequence('work', 'id'),"
                                    " (SELECT coalesce(max(id), 1) FROM work))",
                                    "")
                      : KAS_OK;
}

static kas_status busy(const kas_store *store)
{
    return kas_fail(KAS_STORE,
                    "%s: another process has the study open: a supervisor, which Ctrl-C stops, or "
                    "a command that reads it",
                    store->path);
}

/* Has the store for itself. A supervisor may have no item at the moment and claim one later, in a
 * store from which the study is gone. So nobody else may have the file open: then it can do without
 * its write-ahead log, and is whole when it gets another name. On a server nobody else may propose. */
static kas_status seize(kas_store *store)
{
    bool leads;
    if (store->server) {
        KAS_TRY(kas_store_lead(store, &leads));
        return leads ? KAS_OK : busy(store);
    }
    const kas_status status = kas_sql_run(store, NULL, "PRAGMA journal_mode = DELETE", "");
    const bool locked = status != KAS_OK && (sqlite3_errcode(store->db) & 0xff) == SQLITE_BUSY;
    return locked ? busy(store) : status;
}

/* Fails when somebody has opened the store since it was seized, or has an item; on a server nobody
 * can claim one any more. */
static kas_status check_idle(kas_store *store)
{
    bool taken = false, claimed;
    if (store->server)
        KAS_TRY(kas_sql_run(store, NULL, "LOCK TABLE work IN EXCLUSIVE MODE", ""));
    else
        KAS_TRY(kas_sql_has_row(
            store, "SELECT 1 FROM pragma_journal_mode WHERE journal_mode = 'wal'", &taken));
    KAS_TRY(kas_store_void_leases(store));
    KAS_TRY(kas_sql_has_row(
        store, "SELECT 1 FROM work WHERE state = 'running' AND lease_until > kas_now()", &claimed));
    return taken || claimed ? busy(store) : KAS_OK;
}

/* Leaves nothing that a supervisor could go on with. */
static kas_status retire(kas_store *store)
{
    return store->server ? kas_sql_run(store, NULL,
                                       "DO $$ BEGIN EXECUTE format('DROP SCHEMA %s CASCADE',"
                                       " current_setting('search_path')); END $$",
                                       "")
                         : kas_sqlite_retire(store);
}

static kas_status move(kas_store *from, const kas_store_mover *mover)
{
    kas_store *to;
    kas_status status;
    KAS_TRY(kas_store_check_schema(from));
    KAS_TRY(check_idle(from));
    KAS_TRY(mover->open(mover->context, &to));
    KAS_SQL_TRANSACTION(to, status, copy_all(from, to));
    kas_store_close(to);
    KAS_TRY(status);
    KAS_TRY(mover->change(mover->context));
    return retire(from);
}

kas_status kas_store_move(kas_store *from, const kas_store_mover *mover)
{
    kas_status status;
    kas_sql_durable(from, true);
    KAS_TRY(seize(from));
    KAS_SQL_TRANSACTION(from, status, move(from, mover));
    return status;
}
