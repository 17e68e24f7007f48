/* PostgreSQL's client library, opened at run time: a study in a file needs none of it, and no
 * header of it is needed to build. The declarations are those of libpq-fe.h, whose interface has
 * been the same since version 9.1. */
#ifndef KAS_STORE_LIBPQ_H
#define KAS_STORE_LIBPQ_H

#include <stddef.h>

#include "host/core/status.h"

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;
typedef unsigned int Oid;
typedef struct pgNotify {
    char *relname;
    int be_pid;
    char *extra;
    struct pgNotify *next;
} PGnotify;
enum { CONNECTION_OK = 0 };
enum { PQPING_OK = 0, PQPING_REJECT = 1 };
enum { PGRES_COMMAND_OK = 1, PGRES_TUPLES_OK = 2 };
enum { PG_DIAG_SQLSTATE = 'C' };

#define KAS_LIBPQ_FUNCTIONS(F)                                                                     \
    F(PQconnectdbParams, PGconn *, (const char *const *, const char *const *, int))                \
    F(PQpingParams, int, (const char *const *, const char *const *, int))                          \
    F(PQfinish, void, (PGconn *))                                                                  \
    F(PQstatus, int, (const PGconn *))                                                             \
    F(PQsocket, int, (const PGconn *))                                                             \
    F(PQerrorMessage, char *, (const PGconn *))                                                    \
    F(PQserverVersion, int, (const PGconn *))                                                      \
    F(PQexec, PGresult *, (PGconn *, const char *))                                                \
    F(PQexecParams, PGresult *,                                                                    \
      (PGconn *, const char *, int, const Oid *, const char *const *, const int *, const int *,    \
       int))                                                                                       \
    F(PQprepare, PGresult *, (PGconn *, const char *, const char *, int, const Oid *))             \
    F(PQexecPrepared, PGresult *,                                                                  \
      (PGconn *, const char *, int, const char *const *, const int *, const int *, int))           \
    F(PQresultStatus, int, (const PGresult *))                                                     \
    F(PQresultErrorField, char *, (const PGresult *, int))                                         \
    F(PQresultErrorMessage, char *, (const PGresult *))                                            \
    F(PQntuples, int, (const PGresult *))                                                          \
    F(PQgetvalue, char *, (const PGresult *, int, int))                                            \
    F(PQgetisnull, int, (const PGresult *, int, int))                                              \
    F(PQcmdTuples, char *, (PGresult *))                                                           \
    F(PQclear, void, (PGresult *))                                                                 \
    F(PQconsumeInput, int, (PGconn *))                                                             \
    F(PQnotifies, PGnotify *, (PGconn *))                                                          \
    F(PQfreemem, void, (void *))                                                                   \
    F(PQescapeIdentifier, char *, (PGconn *, const char *, size_t))

#define KAS_SLOT(symbol, result, parameters) result(*symbol) parameters;
typedef struct kas_libpq {
    KAS_LIBPQ_FUNCTIONS(KAS_SLOT)
} kas_libpq;
#undef KAS_SLOT

/* Returns the library's functions; it is opened at the first call and stays. Fails with KAS_STORE
 * and says what to install. Use it in one thread at a time. */
kas_status kas_libpq_load(const kas_libpq **out);

#endif
