#include "host/store/postgres.h"

#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host/core/buf.h"
#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/core/plain.h"

enum { MOST_PARAMETERS = 64, PATIENCE = 60, HURRIED = 5, LOOK_AGAIN = 5, SERIAL_TRIES = 20 };

/* ---- connecting ------------------------------------------------------------------------------ */

bool kas_pg_url_shown(const char *url, char *out, size_t size)
{
    const char *host = strstr(url, "://"), *at = host ? strchr(host + 3, '@') : NULL;
    const char *colon = at ? memchr(host + 3, ':', (size_t)(at - host - 3)) : NULL;
    const char *query = strstr(url, "password=");
    if (colon)
        snprintf(out, size, "%.*s%s", (int)(colon - url), url, at);
    else
        snprintf(out, size, "%.*s", query ? (int)(query - url) : (int)strlen(url), url);
    return colon || query;
}

/* Returns what the server or the library said, in one line. */
static const char *trimmed(const char *message, char out[512])
{
    size_t size = 0;
    for (const char *c = message ? message : ""; *c && size < 511; c++)
        if (*c != '\n' && *c != '\t')
            out[size++] = *c;
        else if (size && out[size - 1] != ' ')
            out[size++] = ' ';
    while (size && out[size - 1] == ' ')
        size--;
    out[size] = 0;
    return out;
}

static void forget(struct kas_pg *pg)
{
    if (pg->conn)
        pg->lib->PQfinish(pg->conn);
    pg->conn = NULL;
    pg->prepareds = 0;
    pg->leads = false;
}

/* The study's schema comes first; notices about what exists already are for nobody. The server
 * looks for machines that are lost as often as this side does, so that their locks do not stay. No
 * statement is worth compiling (version 11 has the option): that takes seconds. */
static kas_status set_up(kas_store *store)
{
    struct kas_pg *pg = store->pg;
    char name[80], text[1024];
    snprintf(name, sizeof name, "kas_%s", pg->place.study);
    char *quoted = pg->lib->PQescapeIdentifier(pg->conn, name, strlen(name));
    if (!quoted)
        return kas_fail(KAS_STORE, "%s: %s", store->path, pg->lib->PQerrorMessage(pg->conn));
    snprintf(text, sizeof text,
             "SET client_min_messages = warning; SET tcp_keepalives_idle = 10;"
             "SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;"
             "SELECT set_config(name, 'off', false) FROM pg_settings WHERE name = 'jit';"
             "SET search_path = %s;%s%s",
             quoted, pg->listens ? " LISTEN " : "", pg->listens ? quoted : "");
    pg->lib->PQfreemem(quoted);
    return kas_pg_send(store, text);
}

kas_status kas_pg_connect(kas_store *store, bool wait)
{
    static const char *const key[] = {"dbname",           "application_name",    "connect_timeout",
                                      "keepalives_idle",  "keepalives_interval", "keepalives_count",
                                      "tcp_user_timeout", "client_encoding",     NULL};
    struct kas_pg *pg = store->pg;
    const char *const value[] = {
        pg->place.url, "kas-gpu", store->hurry ? "2" : "10", "10", "5", "3", "30000", "UTF8", NULL};
    char why[512];
    const double end = kas_monotonic() + PATIENCE;
    const struct timespec pause = {0, 200000000};
    for (;;) {
        forget(pg);
        pg->conn = pg->lib->PQconnectdbParams(key, value, 1);
        store->connections++;
        store->changed = 0;
        if (!pg->conn)
            return kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
        if (pg->lib->PQstatus(pg->conn) == CONNECTION_OK) {
            const kas_status status = set_up(store);
            if (status == KAS_OK || pg->lib->PQstatus(pg->conn) == CONNECTION_OK)
                return status; /* else it was lost at once */
        }
        if (!wait || kas_monotonic() > end || pg->lib->PQpingParams(key, value, 1) != PQPING_REJECT)
            break;
        nanosleep(&pause, NULL);
    }
    return kas_fail(
        KAS_STORE,
        "%s: no connection: %s; check host, user, password and database in the URL, and that the "
        "server runs (`kas-gpu store status DIR`)",
        store->path, trimmed(pg->lib->PQerrorMessage(pg->conn), why));
}

static double patience(const kas_store *store)
{
    const char *text = getenv("KAS_STORE_PATIENCE");
    const double asked = text ? atof(text) : 0, seconds = asked > 0 ? asked : PATIENCE;
    return store->hurry ? fmin(seconds, HURRIED) : seconds;
}

/* A server that went away without a word: the kernel waits for its answer as long as it is told
 * here, once the connection has been silent for 10 seconds. A local socket has no such option, and
 * needs none. */
void kas_store_hurry(kas_store *store)
{
    const int milliseconds = 1000 * HURRIED, fd = kas_store_descriptor(store);
    store->hurry = true;
    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

/* A supervisor blocks signals outside its wait for workers; it must not wait here when one came. */
static bool signal_waits(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t set;
    bool waits = false;
    sigemptyset(&set);
    if (sigpending(&set) == 0)
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            waits |= sigismember(&set, numbers[i]) == 1;
    return waits;
}

/* Connects again, as long as the patience lasts. */
static kas_status reconnect(kas_store *store)
{
    struct kas_pg *pg = store->pg;
    const double began = kas_monotonic(), end = began + patience(store);
    char why[512];
    trimmed(pg->conn ? pg->lib->PQerrorMessage(pg->conn) : "", why);
    kas_warn("%s: the connection is lost (%s); trying again for %.0f s", store->path, why,
             end - began);
    while (kas_pg_connect(store, false) != KAS_OK) {
        const struct timespec pause = {0, 200000000};
        if (kas_monotonic() > end || signal_waits()) {
            pg->given_up = true;
            return kas_fail(KAS_STORE,
                            "%s: the database went away and did not come back within %.0f s (%s); "
                            "nothing that was committed is lost: start it, then run the same "
                            "command again",
                            store->path, kas_monotonic() - began,
                            trimmed(pg->lib->PQerrorMessage(pg->conn), why));
        }
        nanosleep(&pause, NULL);
    }
    kas_info("%s: connected again", store->path);
    return KAS_OK;
}

/* ---- statements ------------------------------------------------------------------------------ */

static kas_status failed(kas_store *store, const char *sql, PGresult *result)
{
    struct kas_pg *pg = store->pg;
    char why[512];
    const char *state = result ? pg->lib->PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    if (state && (strcmp(state, "42P01") == 0 || strcmp(state, "3F000") == 0))
        return kas_fail(KAS_STORE,
                        "%s: no such study in this database; it was never begun, or `kas-gpu store "
                        "export` has moved it",
                        store->path);
    if (state && strcmp(state, "53100") == 0)
        return kas_fail(KAS_STORE,
                        "%s: the server's disk is full; make room and run the command "
                        "again",
                        store->path);
    return kas_fail(
        KAS_STORE, "%s: %.200s: %s", store->path, sql,
        trimmed(result ? pg->lib->PQresultErrorMessage(result) : pg->lib->PQerrorMessage(pg->conn),
                why));
}

kas_status kas_pg_send(kas_store *store, const char *sql)
{
    struct kas_pg *pg = store->pg;
    PGresult *result = pg->lib->PQexec(pg->conn, sql);
    const int code = pg->lib->PQresultStatus(result);
    const kas_status status =
        code == PGRES_COMMAND_OK || code == PGRES_TUPLES_OK ? KAS_OK : failed(store, sql, result);
    pg->lib->PQclear(result);
    return status;
}

typedef struct arguments {
    int count;
    Oid type[MOST_PARAMETERS];
    const char *text[MOST_PARAMETERS];
    char number[MOST_PARAMETERS][32];
    char *cleaned[MOST_PARAMETERS]; /* owned */
} arguments;

/* PostgreSQL refuses text that is not UTF-8, which a message of a compiler may contain. */
static kas_status clean(const char *text, const char **out, char **owned)
{
    *out = text;
    if (!text || kas_is_plain(text))
        return KAS_OK;
    const size_t size = KAS_PLAIN_GROWTH * strlen(text) + 1;
    *out = *owned = malloc(size);
    if (!*owned)
        return kas_fail(KAS_NO_MEMORY, "a text for the store: out of memory");
    kas_plain_copy(*owned, size, text);
    return KAS_OK;
}

static kas_status make_arguments(const char *types, const kas_sql_value *value, arguments *out)
{
    enum { INT8 = 20, TEXT = 25, FLOAT8 = 701 };
    kas_status status = KAS_OK;
    out->count = (int)strlen(types);
    for (int i = 0; i < out->count; i++) {
        out->text[i] = out->number[i];
        out->cleaned[i] = NULL;
        if (types[i] == 'i') {
            out->type[i] = INT8;
            snprintf(out->number[i], sizeof out->number[i], "%lld", (long long)value[i].i);
        } else if (types[i] == 'd') {
            out->type[i] = FLOAT8;
            snprintf(out->number[i], sizeof out->number[i], "%.17g", value[i].d);
            if (isnan(value[i].d))
                out->text[i] = NULL;
        } else {
            out->type[i] = TEXT;
            if (clean(value[i].t, &out->text[i], &out->cleaned[i]) != KAS_OK)
                status = KAS_NO_MEMORY;
        }
    }
    return status;
}

/* Writes a statement with $1, $2, ... in place of each `?`. */
static void number_parameters(const char *sql, kas_buf *out)
{
    int count = 0;
    for (const char *end; *sql; sql = end) {
        end = sql + strcspn(sql, "?");
        kas_buf_add(out, sql, (size_t)(end - sql));
        if (*end == '?') {
            kas_buf_printf(out, "$%d", ++count);
            end++;
        }
    }
}

/* Sends a statement; it is prepared at its first use. NULL: out of memory, or no connection. */
static PGresult *execute(struct kas_pg *pg, const char *sql, const arguments *a)
{
    char name[16];
    int at = 0;
    while (at < pg->prepareds && pg->prepared[at] != sql)
        at++;
    snprintf(name, sizeof name, "s%d", at);
    if (at == KAS_PG_PREPARED)
        *name = 0; /* the unnamed statement, prepared each time */
    if (at == pg->prepareds || !*name) {
        kas_buf text = {0};
        number_parameters(sql, &text);
        PGresult *made =
            kas_buf_status(&text) == KAS_OK
                ? pg->lib->PQprepare(pg->conn, name, kas_buf_text(&text), a->count, a->type)
                : NULL;
        kas_buf_free(&text);
        if (!made || pg->lib->PQresultStatus(made) != PGRES_COMMAND_OK)
            return made;
        pg->lib->PQclear(made);
        if (*name)
            pg->prepared[pg->prepareds++] = sql;
    }
    return pg->lib->PQexecPrepared(pg->conn, name, a->count, a->text, NULL, NULL, 0);
}

/* Returns whether the server asks to try again: two transactions waited for each other. */
static bool is_serial(struct kas_pg *pg, PGresult *result)
{
    const char *state = result ? pg->lib->PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    return state && (strcmp(state, "40P01") == 0 || strcmp(state, "40001") == 0);
}

static kas_status send_statement(kas_sql_stmt *stmt, const arguments *a)
{
    kas_store *store = stmt->store;
    struct kas_pg *pg = store->pg;
    for (int tries = 0;; tries++) {
        PGresult *result = execute(pg, stmt->sql, a);
        const int code = pg->lib->PQresultStatus(result);
        if (code == PGRES_COMMAND_OK || code == PGRES_TUPLES_OK) {
            stmt->result = result;
            stmt->row = -1;
            return KAS_OK;
        }
        const bool lost = pg->lib->PQstatus(pg->conn) != CONNECTION_OK;
        const bool serial = !lost && is_serial(pg, result) && tries < SERIAL_TRIES;
        const kas_status status = failed(store, stmt->sql, result);
        pg->lib->PQclear(result);
        pg->broken = pg->in_transaction && (lost || serial);
        if (pg->in_transaction || !(lost || serial))
            return status;
        store->repeated = true;
        if (lost)
            KAS_TRY(reconnect(store));
    }
}

static kas_status start(kas_sql_stmt *stmt, const char *types, const kas_sql_value *value)
{
    if (stmt->store->pg->given_up)
        return kas_fail(KAS_STORE, "%s: the database is gone", stmt->store->path);
    arguments a;
    kas_status status = make_arguments(types, value, &a);
    if (status == KAS_OK)
        status = send_statement(stmt, &a);
    for (int i = 0; i < a.count; i++)
        free(a.cleaned[i]);
    return status;
}

static kas_status step(kas_sql_stmt *stmt, bool *row)
{
    *row = ++stmt->row < stmt->store->pg->lib->PQntuples(stmt->result);
    return KAS_OK;
}

static bool is_null(kas_sql_stmt *stmt, int column)
{
    return stmt->store->pg->lib->PQgetisnull(stmt->result, stmt->row, column);
}

static const char *chars(kas_sql_stmt *stmt, int column)
{
    return is_null(stmt, column)
               ? NULL
               : stmt->store->pg->lib->PQgetvalue(stmt->result, stmt->row, column);
}

static int64_t integer(kas_sql_stmt *stmt, int column)
{
    const char *text = chars(stmt, column);
    return text ? strtoll(text, NULL, 10) : 0;
}

static double number(kas_sql_stmt *stmt, int column)
{
    return strtod(chars(stmt, column), NULL);
}

static int changed(kas_sql_stmt *stmt)
{
    return atoi(stmt->store->pg->lib->PQcmdTuples(stmt->result));
}

static void finish(kas_sql_stmt *stmt)
{
    stmt->store->pg->lib->PQclear(stmt->result);
}

/* ---- transactions ---------------------------------------------------------------------------- */

/* Single statements of other processes wait at these locks, so that this is what BEGIN IMMEDIATE is
 * to a file. */
static kas_status begin(kas_store *store)
{
    KAS_TRY(kas_sql_run(store, NULL, "BEGIN", ""));
    store->pg->in_transaction = true;
    return kas_sql_run(store, NULL, "LOCK TABLE study, work, epoch IN EXCLUSIVE MODE", "");
}

static kas_status commit(kas_store *store)
{
    KAS_TRY(kas_sql_run(store, NULL, "COMMIT", ""));
    store->pg->in_transaction = false;
    return KAS_OK;
}

static void rollback(kas_store *store)
{
    struct kas_pg *pg = store->pg;
    if (pg->in_transaction) /* the first failure is the one to report */
        pg->lib->PQclear(pg->lib->PQexec(pg->conn, "ROLLBACK"));
    pg->in_transaction = false;
}

static bool again(kas_store *store, kas_status *status)
{
    struct kas_pg *pg = store->pg;
    if (!pg->broken)
        return false;
    pg->broken = false;
    if (pg->lib->PQstatus(pg->conn) == CONNECTION_OK)
        return true;
    *status = reconnect(store);
    return *status == KAS_OK;
}

static kas_status identify(kas_store *store)
{
    kas_sql_stmt *stmt;
    bool row;
    struct kas_pg *pg = store->pg;
    KAS_TRY(kas_sql_prepare(store, &stmt, "SELECT schema, folder_id, folder FROM kas_gpu", ""));
    kas_status status = kas_sql_step(stmt, &row);
    store->schema = row ? (int)kas_sql_int(stmt, 0) : 0;
    const char *id = row ? kas_sql_chars(stmt, 1) : NULL;
    if (store->schema < KAS_STORE_SERVER_SCHEMA || store->schema > KAS_STORE_SCHEMA)
        status = kas_fail(KAS_STORE,
                          "%s: schema version %d, this kas-gpu knows versions %d to %d; use the "
                          "kas-gpu that made the study",
                          store->path, store->schema, KAS_STORE_SERVER_SCHEMA, KAS_STORE_SCHEMA);
    else if (*pg->place.id && strcmp(id, pg->place.id) != 0)
        status = kas_fail(KAS_STORE,
                          "%s: another study has this name in the database: that of the folder %s; "
                          "give --study a folder of another name",
                          store->path, kas_sql_chars(stmt, 2));
    if (status == KAS_OK) {
        kas_sql_text(stmt, 1, pg->place.id, sizeof pg->place.id);
        kas_sql_text(stmt, 2, pg->place.folder, sizeof pg->place.folder);
    }
    kas_sql_finish(stmt);
    return status;
}

static void close_connection(kas_store *store)
{
    forget(store->pg);
    free(store->pg);
}

int kas_store_descriptor(const kas_store *store)
{
    return store->server && store->pg->conn ? store->pg->lib->PQsocket(store->pg->conn) : -1;
}

bool kas_store_changed(kas_store *store)
{
    struct kas_pg *pg = store->pg;
    const double now = kas_monotonic();
    if (!store->server)
        return kas_sqlite_changed(store, now);
    bool news = now > store->changed + LOOK_AGAIN || !pg->lib->PQconsumeInput(pg->conn);
    for (PGnotify *one; (one = pg->lib->PQnotifies(pg->conn));) {
        news |= pg->leads || strcmp(one->extra, KAS_PG_WANT) != 0;
        pg->lib->PQfreemem(one);
    }
    if (news)
        store->changed = now;
    return news;
}

const kas_sql_backend kas_postgres = {start,    step,    is_null,  integer,         number,
                                      chars,    changed, finish,   begin,           commit,
                                      rollback, again,   identify, close_connection};
