/* The backend that keeps a study in an SQLite file. */
#include <math.h>

#include "host/store/sql.h"

kas_status kas_sqlite_fail(kas_store *store, const char *sql)
{
    int code = sqlite3_errcode(store->db) & 0xff;
    const char *text = sqlite3_errmsg(store->db);
    switch (code) {
    case SQLITE_NOTADB:
        return kas_fail(
            KAS_STORE,
            "%s: not a study: the file is not an SQLite data base; give the folder of a "
            "study, or another --study",
            store->path);
    case SQLITE_CORRUPT:
        return kas_fail(KAS_STORE,
                        "%s: the data base is damaged (%s); restore it from a backup, or try "
                        "`sqlite3 study.db .recover`",
                        store->path, text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return kas_fail(
            KAS_STORE, "%s: locked by another process for too long%s; wait for it or end it",
            store->path,
            store->exclusive ? " (on a network file system one supervisor at a time)" : "");
    case SQLITE_FULL:
        return kas_fail(KAS_STORE, "%s: the disk is full; make room and run the command again",
                        store->path);
    default:
        return kas_fail(KAS_STORE, "%s: %s: %s", store->path, sql, text);
    }
}

static int bind_one(sqlite3_stmt *stmt, int i, char type, const kas_sql_value *value)
{
    if (type == 'i')
        return sqlite3_bind_int64(stmt, i, value->i);
    if (type == 'd')
        return isnan(value->d) ? sqlite3_bind_null(stmt, i)
                               : sqlite3_bind_double(stmt, i, value->d);
    return value->t ? sqlite3_bind_text(stmt, i, value->t, -1, SQLITE_TRANSIENT)
                    : sqlite3_bind_null(stmt, i);
}

static kas_status start(kas_sql_stmt *stmt, const char *types, const kas_sql_value *value)
{
    if (sqlite3_prepare_v2(stmt->store->db, stmt->sql, -1, &stmt->sqlite, NULL) != SQLITE_OK)
        return kas_sqlite_fail(stmt->store, stmt->sql);
    for (int i = 0; types[i]; i++)
        if (bind_one(stmt->sqlite, i + 1, types[i], &value[i]) != SQLITE_OK)
            return kas_sqlite_fail(stmt->store, stmt->sql);
    return KAS_OK;
}

static kas_status step(kas_sql_stmt *stmt, bool *row)
{
    const int code = sqlite3_step(stmt->sqlite);
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? KAS_OK
                                                     : kas_sqlite_fail(stmt->store, stmt->sql);
}

static bool is_null(kas_sql_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt->sqlite, column) == SQLITE_NULL;
}

static int64_t integer(kas_sql_stmt *stmt, int column)
{
    return sqlite3_column_int64(stmt->sqlite, column);
}

static double number(kas_sql_stmt *stmt, int column)
{
    return sqlite3_column_double(stmt->sqlite, column);
}

static const char *chars(kas_sql_stmt *stmt, int column)
{
    return (const char *)sqlite3_column_text(stmt->sqlite, column);
}

static int changed(kas_sql_stmt *stmt)
{
    return sqlite3_changes(stmt->store->db);
}

static void finish(kas_sql_stmt *stmt)
{
    sqlite3_finalize(stmt->sqlite);
}

static kas_status begin(kas_store *store)
{
    return kas_sql_run(store, NULL, "BEGIN IMMEDIATE", "");
}

static kas_status commit(kas_store *store)
{
    return kas_sql_run(store, NULL, "COMMIT", "");
}

static void rollback(kas_store *store)
{
    /* The first failure is the one to report; a failed rollback makes nothing worse. */
    if (!sqlite3_get_autocommit(store->db))
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

/* SQLite calls this after each commit, when it has released the lock of writers; with synchronous
 * = NORMAL it has not flushed the log. What is flushed here is the whole log, with the commits of
 * other processes, and the kernel flushes the disk once for all that wait: so processes wait
 * for the disk together and not in turns. Nobody's commit is lost without all that follow it in the
 * log. Failure is reported by the statement that committed. */
static int flush_log(void *context, sqlite3 *db, const char *name, int pages)
{
    enum { CHECKPOINT = 1000 }; /* SQLite's own number, which a hook replaces */
    const kas_store *store = context;
    sqlite3_file *log;
    if (store->durable) {
        int code = sqlite3_file_control(db, name, SQLITE_FCNTL_JOURNAL_POINTER, &log);
        if (code == SQLITE_OK)
            code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
        if (code != SQLITE_OK)
            return code;
    }
    if (pages >= CHECKPOINT) /* readers may delay it: it is tried again after the next commit */
        (void)sqlite3_wal_checkpoint(db, name);
    return SQLITE_OK;
}

void kas_sqlite_flush_commits(kas_store *store)
{
    (void)sqlite3_wal_hook(store->db, flush_log, store);
}

static bool again(kas_store *store, kas_status *status)
{
    (void)store, (void)status;
    return false;
}

/* Other processes' changes, and then those of this one. */
bool kas_sqlite_changed(kas_store *store, double now)
{
    const double look_again = 1; /* a process of this machine that is gone leaves leases */
    kas_sql_stmt *stmt;
    int64_t version = -1;
    bool row;
    const int64_t own = sqlite3_total_changes(store->db);
    if (kas_sql_prepare(store, &stmt, "PRAGMA data_version", "") == KAS_OK) {
        if (kas_sql_step(stmt, &row) == KAS_OK && row)
            version = kas_sql_int(stmt, 0);
        kas_sql_finish(stmt);
    }
    if (version == store->version && own == store->own_changes && version >= 0 &&
        now <= store->changed + look_again)
        return false;
    store->version = version;
    store->own_changes = own;
    store->changed = now;
    return true;
}

static void close_file(kas_store *store)
{
    sqlite3_close(store->db);
}

const kas_sql_backend kas_sqlite = {start,
                                    step,
                                    is_null,
                                    integer,
                                    number,
                                    chars,
                                    changed,
                                    finish,
                                    begin,
                                    commit,
                                    rollback,
                                    again,
                                    kas_sqlite_identify,
                                    close_file};
