/* The backend that keeps studies in a PostgreSQL database. Internal to the store.
 *
 *     postgres.c       connects, sends statements again after a lost connection
 *     postgres_open.c  opens a study: its schema and tables
 *
 * Each study has a schema (in PostgreSQL's sense, a folder of tables) of its own, named kas_ and
 * the study, so that the statements are those of a file. */
#ifndef KAS_STORE_POSTGRES_H
#define KAS_STORE_POSTGRES_H

#include "host/store/libpq.h"
#include "host/store/sql.h"

enum { KAS_PG_PREPARED = 64 };

struct kas_pg {
    const kas_libpq *lib;
    PGconn *conn;
    kas_store_place place;
    bool listens; /* is told of changes (kas_store_wait) */
    bool leads;   /* has the lock of the supervisor that proposes, until the connection ends */
    bool in_transaction;
    bool broken;   /* the open transaction is lost and must be repeated */
    bool given_up; /* the server was away for too long: later statements fail at once */
    const char *prepared[KAS_PG_PREPARED]; /* the server knows them as s0, s1, ... */
    int prepareds;
};

#define KAS_PG_WANT "want" /* the notification of a supervisor that has nothing to do */

/* Connects once; with `wait` it waits for a server that is starting. */
kas_status kas_pg_connect(kas_store *store, bool wait);
/* Sends a text of one or several statements without parameters, once. */
kas_status kas_pg_send(kas_store *store, const char *sql);
/* Finds out whether the study has a table of this name; without one it is not there. */
kas_status kas_pg_has_table(kas_store *store, const char *table, bool *has);
/* Writes a URL without its password; returns whether it has one. */
bool kas_pg_url_shown(const char *url, char *out, size_t size);

#endif
