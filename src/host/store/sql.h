/* Checked calls of SQLite, one line each. Internal to the store.
 *
 * The parameters of a statement are bound by a string of types: i int64_t, d double (NaN binds
 * NULL), t text (NULL binds NULL). A failure's message names the file, the statement and
 * SQLite's message. */
#ifndef KAS_STORE_SQL_H
#define KAS_STORE_SQL_H

#include <sqlite3.h>
#include <stddef.h>

#include "host/store/store.h"

struct kas_store {
    sqlite3 *db;
    char path[4096];
    int schema;     /* of the file, when kas_store_identify last read it */
    bool exclusive; /* on a network file system */
    bool synchronous_normal;
};

/* Does what kas_store_open does, with the kind of file system given, because tests have no network
 * file system. */
kas_status kas_store_open_as(const char *path, kas_store_mode mode, bool network, kas_store **out);

kas_status kas_sql_fail(kas_store *store, const char *sql);
/* Prepares a statement, which the caller finalises. */
kas_status kas_sql_prepare(kas_store *store, sqlite3_stmt **out, const char *sql, const char *types,
                           ...);
kas_status kas_sql_step(kas_store *store, sqlite3_stmt *stmt, bool *row);
/* Prepares a statement, runs it to its end and finalises it; *changed (may be NULL) gets the number
 * of rows that it changed. */
kas_status kas_sql_run(kas_store *store, int *changed, const char *sql, const char *types, ...);

/* Sets the durability of later commits. No transaction may be open. */
kas_status kas_sql_durable(kas_store *store, bool full);
kas_status kas_sql_begin(kas_store *store);
/* Commits when `status` is KAS_OK and rolls back otherwise; returns the first failure. */
kas_status kas_sql_end(kas_store *store, kas_status status);

/* Checks that the file is a store of kas-gpu, and sets `schema`, which another process may change
 * at any time. */
kas_status kas_store_identify(kas_store *store);
/* Converts the file to the current schema. A transaction must be open. */
kas_status kas_store_migrate(kas_store *store);

/* Turns a finished final training into an earlier one and deletes an unfinished one, because
 * another candidate may win now. */
kas_status kas_store_retire_finals(kas_store *store);

/* Read a column. Text is copied and cut to `size` bytes; NULL gives "" or NaN. */
void kas_sql_text(sqlite3_stmt *stmt, int column, char *out, size_t size);
double kas_sql_double(sqlite3_stmt *stmt, int column);
double kas_store_now(void); /* Unix time */

#endif
