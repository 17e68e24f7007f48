#include "host/store/sql.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

double kas_store_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

kas_status kas_sql_fail(kas_store *store, const char *sql)
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

static int bind_one(sqlite3_stmt *stmt, int i, char type, va_list *args)
{
    if (type == 'i')
        return sqlite3_bind_int64(stmt, i, va_arg(*args, int64_t));
    if (type == 'd') {
        double value = va_arg(*args, double);
        return isnan(value) ? sqlite3_bind_null(stmt, i) : sqlite3_bind_double(stmt, i, value);
    }
    const char *text = va_arg(*args, const char *);
    return text ? sqlite3_bind_text(stmt, i, text, -1, SQLITE_TRANSIENT)
                : sqlite3_bind_null(stmt, i);
}

static kas_status prepare(kas_store *store, sqlite3_stmt **out, const char *sql, const char *types,
                          va_list *args)
{
    *out = NULL;
    if (sqlite3_prepare_v2(store->db, sql, -1, out, NULL) != SQLITE_OK)
        return kas_sql_fail(store, sql);
    for (int i = 0; types[i]; i++)
        if (bind_one(*out, i + 1, types[i], args) != SQLITE_OK) {
            kas_status status = kas_sql_fail(store, sql);
            sqlite3_finalize(*out);
            *out = NULL;
            return status;
        }
    return KAS_OK;
}

kas_status kas_sql_prepare(kas_store *store, sqlite3_stmt **out, const char *sql, const char *types,
                           ...)
{
    va_list args;
    va_start(args, types);
    kas_status status = prepare(store, out, sql, types, &args);
    va_end(args);
    return status;
}

kas_status kas_sql_step(kas_store *store, sqlite3_stmt *stmt, bool *row)
{
    int code = sqlite3_step(stmt);
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? KAS_OK
                                                     : kas_sql_fail(store, sqlite3_sql(stmt));
}

kas_status kas_sql_run(kas_store *store, int *changed, const char *sql, const char *types, ...)
{
    sqlite3_stmt *stmt;
    va_list args;
    va_start(args, types);
    kas_status status = prepare(store, &stmt, sql, types, &args);
    va_end(args);
    if (status != KAS_OK)
        return status;
    for (bool row = true; status == KAS_OK && row;)
        status = kas_sql_step(store, stmt, &row);
    if (status == KAS_OK && changed)
        *changed = sqlite3_changes(store->db);
    sqlite3_finalize(stmt);
    return status;
}

kas_status kas_sql_durable(kas_store *store, bool full)
{
    if (store->synchronous_normal == !full)
        return KAS_OK;
    KAS_TRY(kas_sql_run(store, NULL,
                        full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", ""));
    store->synchronous_normal = !full;
    return KAS_OK;
}

kas_status kas_sql_begin(kas_store *store)
{
    return kas_sql_run(store, NULL, "BEGIN IMMEDIATE", "");
}

kas_status kas_sql_end(kas_store *store, kas_status status)
{
    if (status == KAS_OK)
        status = kas_sql_run(store, NULL, "COMMIT", "");
    if (status != KAS_OK && !sqlite3_get_autocommit(store->db))
        /* The first failure is the one to report; a failed rollback makes nothing worse. */
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

void kas_sql_text(sqlite3_stmt *stmt, int column, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);
    snprintf(out, size, "%s", text ? (const char *)text : "");
}

double kas_sql_double(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? NAN
                                                            : sqlite3_column_double(stmt, column);
}
