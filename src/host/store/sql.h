/* Inside the store only: SQLite calls that are all checked, in one line each.
 *
 * Statements bind by a string of types: i int64_t, d double (NaN binds NULL), t text (NULL binds
 * NULL). A failure names the file, the statement and SQLite's message. */
#ifndef KAS_STORE_SQL_H
#define KAS_STORE_SQL_H

#include <sqlite3.h>
#include <stddef.h>

#include "host/store/store.h"

struct kas_store {
    sqlite3 *db;
    char path[4096];
    int schema;     /* of the file, when it was looked at last */
    bool exclusive; /* network file system */
    bool synchronous_normal;
};

/* kas_store_open with the kind of file system given: tests have no network file system. */
kas_status kas_store_open_as(const char *path, kas_store_mode mode, bool network, kas_store **out);

kas_status kas_sql_fail(kas_store *store, const char *sql);
/* *out is finalised by the caller. */
kas_status kas_sql_prepare(kas_store *store, sqlite3_stmt **out, const char *sql, const char *types,
                           ...);
kas_status kas_sql_step(kas_store *store, sqlite3_stmt *stmt, bool *row);
/* Prepares, runs to the end and finalises; *changed (may be NULL) gets the rows that it changed. */
kas_status kas_sql_run(kas_store *store, int *changed, const char *sql, const char *types, ...);

/* Durability of the commits that follow; no transaction may be open. */
kas_status kas_sql_durable(kas_store *store, bool full);
kas_status kas_sql_begin(kas_store *store);
/* Commits when `status` is KAS_OK, else rolls back; returns the first failure. */
kas_status kas_sql_end(kas_store *store, kas_status status);

/* Is the file ours?  Sets `schema`, which another process may change at any time. */
kas_status kas_store_identify(kas_store *store);
/* Brings the file to the present schema; inside a transaction. */
kas_status kas_store_migrate(kas_store *store);

/* The final training, if it finished, becomes an earlier one, and is forgotten otherwise: another
 * candidate may win now. */
kas_status kas_store_put_finals_by(kas_store *store);

/* Columns. Text is copied and cut to the size; NULL gives "" or NaN. */
void kas_sql_text(sqlite3_stmt *stmt, int column, char *out, size_t size);
double kas_sql_double(sqlite3_stmt *stmt, int column);
double kas_store_now(void); /* Unix time */

#endif
