/* Checked calls of the store's database, one line each. Internal to the store.
 *
 * There are two backends: SQLite (sqlite.c) and PostgreSQL (postgres.c). Statements are written
 * once, in the SQL that both understand, with `?` for each parameter and kas_now() for the time in
 * seconds, by the database's clock. Where they differ (`server` below), the code says so.
 *
 * The parameters of a statement are bound by a string of types: i int64_t, d double (NaN binds
 * NULL), t text (NULL binds NULL). A failure's message names the store, the statement and
 * the database's message. */
#ifndef KAS_STORE_SQL_H
#define KAS_STORE_SQL_H

#include <sqlite3.h>
#include <stddef.h>

#include "host/store/store.h"

typedef struct kas_sql_backend kas_sql_backend;

struct kas_store {
    const kas_sql_backend *backend;
    sqlite3 *db;        /* SQLite; else NULL */
    struct kas_pg *pg;  /* PostgreSQL; else NULL */
    char path[4096];    /* the file, or server and study, for messages */
    int schema;         /* of the file, when kas_store_identify last read it */
    bool exclusive;     /* on a network file system */
    bool durable;       /* see kas_sql_durable */
    bool server;        /* on a database server, with other machines */
    bool hurry;         /* see kas_store_hurry */
    bool repeated;      /* the last statement was sent again after a lost connection */
    kas_work_role role; /* which items claims take */
    int claims;         /* made by this process */
    int connections;    /* made to the server so far; 1 for a file */
    double looked;      /* monotonic clock, when gone owners were last looked for */
    /* The monotonic clock when kas_store_changed last returned true (0 = now), and what it saw. */
    double changed;
    int64_t version, own_changes; /* of a file */
};

typedef struct kas_sql_stmt {
    kas_store *store;
    const char *sql;
    sqlite3_stmt *sqlite;
    struct pg_result *result;
    int row; /* of the result */
} kas_sql_stmt;

typedef union kas_sql_value {
    int64_t i;
    double d;
    const char *t;
} kas_sql_value;

struct kas_sql_backend {
    /* Binds the values and begins to execute. `sql` lives as long as the program. */
    kas_status (*start)(kas_sql_stmt *stmt, const char *types, const kas_sql_value *value);
    kas_status (*step)(kas_sql_stmt *stmt, bool *row);
    bool (*is_null)(kas_sql_stmt *stmt, int column);
    int64_t (*integer)(kas_sql_stmt *stmt, int column);
    double (*number)(kas_sql_stmt *stmt, int column);
    const char *(*chars)(kas_sql_stmt *stmt, int column);
    int (*changed)(kas_sql_stmt *stmt);
    void (*finish)(kas_sql_stmt *stmt);
    kas_status (*begin)(kas_store *store);
    kas_status (*commit)(kas_store *store);
    void (*rollback)(kas_store *store);
    /* Returns whether a transaction that failed is worth another try: the connection was lost, and
     * is there again. */
    bool (*again)(kas_store *store, kas_status *status);
    kas_status (*identify)(kas_store *store);
    void (*close)(kas_store *store);
};
extern const kas_sql_backend kas_sqlite, kas_postgres;
kas_status kas_sqlite_identify(kas_store *store);      /* store.c */
bool kas_sqlite_changed(kas_store *store, double now); /* see kas_store_changed */
/* Flushes the write-ahead log after each durable commit, outside SQLite's lock. */
void kas_sqlite_flush_commits(kas_store *store);

/* Does what kas_store_open does, with the kind of file system given, because tests have no network
 * file system. */
kas_status kas_store_open_as(const char *path, kas_store_mode mode, bool network, kas_store **out);

/* Fails with what SQLite says about its last call. */
kas_status kas_sqlite_fail(kas_store *store, const char *sql);
/* Starts a statement, which the caller ends with kas_sql_finish. */
kas_status kas_sql_prepare(kas_store *store, kas_sql_stmt **out, const char *sql, const char *types,
                           ...);
kas_status kas_sql_step(kas_sql_stmt *stmt, bool *row);
void kas_sql_finish(kas_sql_stmt *stmt); /* NULL is allowed */
/* Runs a statement to its end; *changed (may be NULL) gets the number of rows that it changed. */
kas_status kas_sql_run(kas_store *store, int *changed, const char *sql, const char *types, ...);
kas_status kas_sql_run_values(kas_store *store, int *changed, const char *sql, const char *types,
                              const kas_sql_value *value);
/* Returns whether a query without parameters has a row. */
kas_status kas_sql_has_row(kas_store *store, const char *sql, bool *has);

/* Says whether later commits are flushed before they return. Those on a server, and in a file that
 * has no write-ahead log, always are. */
void kas_sql_durable(kas_store *store, bool full);

/* Runs the call `body` in a transaction in which no other process writes; `status`, a variable,
 * gets the first failure, upon which everything is rolled back. The body is called again when the
 * connection to a server is lost meanwhile. */
#define KAS_SQL_TRANSACTION(store, status, body)                                                   \
    do {                                                                                           \
        status = kas_sql_begin(store);                                                             \
        if (status == KAS_OK)                                                                      \
            status = (body);                                                                       \
    } while (kas_sql_end(store, &status))
kas_status kas_sql_begin(kas_store *store);
/* Commits when *status is KAS_OK and rolls back otherwise; sets *status to the first failure.
 * Returns whether all of it must be done again. */
bool kas_sql_end(kas_store *store, kas_status *status);

/* Checks that the database is a store of kas-gpu, and sets `schema`, which another process may
 * change at any time. */
kas_status kas_store_identify(kas_store *store);
/* Marks a file as one whose study has moved, so that no supervisor goes on with it. A transaction
 * must be open. */
kas_status kas_sqlite_retire(kas_store *store);
kas_status kas_store_make_answers(kas_store *store); /* the table, if it is missing */

/* Tells those who wait that there may be something to claim. It is a transaction of its own, behind
 * that of the change: PostgreSQL flushes transactions that notify one after another. Who is killed
 * in between leaves it to the others to look again, after five seconds. */
kas_status kas_store_tell(kas_store *store);

/* Ends the leases of processes of this machine that are gone. It looks at most once a second. */
kas_status kas_store_void_leases(kas_store *store);

/* Turns a finished final training into an earlier one and deletes an unfinished one, because
 * another candidate may win now. */
kas_status kas_store_retire_finals(kas_store *store);

/* Read a column. NULL gives 0, "" or NaN, and of kas_sql_chars NULL; its text is valid until the
 * next step. kas_sql_text copies it, cut to `size` bytes. */
int64_t kas_sql_int(kas_sql_stmt *stmt, int column);
double kas_sql_double(kas_sql_stmt *stmt, int column);
const char *kas_sql_chars(kas_sql_stmt *stmt, int column);
void kas_sql_text(kas_sql_stmt *stmt, int column, char *out, size_t size);

#endif
