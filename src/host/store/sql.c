#include "host/store/sql.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_PARAMETERS = 64 };

static void read_values(const char *types, va_list *args, kas_sql_value *value)
{
    for (int i = 0; types[i]; i++)
        switch (types[i]) {
        case 'i':
            value[i].i = va_arg(*args, int64_t);
            break;
        case 'd':
            value[i].d = va_arg(*args, double);
            break;
        default:
            value[i].t = va_arg(*args, const char *);
        }
}

static kas_status prepare(kas_store *store, kas_sql_stmt **out, const char *sql, const char *types,
                          const kas_sql_value *value)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
    **out = (kas_sql_stmt){.store = store, .sql = sql};
    store->repeated = false;
    const kas_status status = store->backend->start(*out, types, value);
    if (status != KAS_OK) {
        kas_sql_finish(*out);
        *out = NULL;
    }
    return status;
}

kas_status kas_sql_prepare(kas_store *store, kas_sql_stmt **out, const char *sql, const char *types,
                           ...)
{
    va_list args;
    kas_sql_value value[MOST_PARAMETERS];
    va_start(args, types);
    read_values(types, &args, value);
    va_end(args);
    return prepare(store, out, sql, types, value);
}

kas_status kas_sql_step(kas_sql_stmt *stmt, bool *row)
{
    return stmt->store->backend->step(stmt, row);
}

void kas_sql_finish(kas_sql_stmt *stmt)
{
    if (!stmt)
        return;
    stmt->store->backend->finish(stmt);
    free(stmt);
}

kas_status kas_sql_run(kas_store *store, int *changed, const char *sql, const char *types, ...)
{
    va_list args;
    kas_sql_value value[MOST_PARAMETERS];
    va_start(args, types);
    read_values(types, &args, value);
    va_end(args);
    return kas_sql_run_values(store, changed, sql, types, value);
}

kas_status kas_sql_run_values(kas_store *store, int *changed, const char *sql, const char *types,
                              const kas_sql_value *value)
{
    kas_sql_stmt *stmt;
    KAS_TRY(prepare(store, &stmt, sql, types, value));
    kas_status status = KAS_OK;
    for (bool row = true; status == KAS_OK && row;)
        status = kas_sql_step(stmt, &row);
    if (status == KAS_OK && changed)
        *changed = store->backend->changed(stmt);
    kas_sql_finish(stmt);
    return status;
}

kas_status kas_sql_has_row(kas_store *store, const char *sql, bool *has)
{
    kas_sql_stmt *stmt;
    KAS_TRY(kas_sql_prepare(store, &stmt, sql, ""));
    const kas_status status = kas_sql_step(stmt, has);
    kas_sql_finish(stmt);
    return status;
}

void kas_sql_durable(kas_store *store, bool full)
{
    store->durable = full;
}

kas_status kas_sql_begin(kas_store *store)
{
    return store->backend->begin(store);
}

bool kas_sql_end(kas_store *store, kas_status *status)
{
    if (*status == KAS_OK)
        *status = store->backend->commit(store);
    if (*status == KAS_OK)
        return false;
    store->backend->rollback(store);
    return store->backend->again(store, status);
}

kas_status kas_store_identify(kas_store *store)
{
    return store->backend->identify(store);
}

int64_t kas_sql_int(kas_sql_stmt *stmt, int column)
{
    return stmt->store->backend->integer(stmt, column);
}

double kas_sql_double(kas_sql_stmt *stmt, int column)
{
    const kas_sql_backend *backend = stmt->store->backend;
    return backend->is_null(stmt, column) ? NAN : backend->number(stmt, column);
}

const char *kas_sql_chars(kas_sql_stmt *stmt, int column)
{
    return stmt->store->backend->chars(stmt, column);
}

void kas_sql_text(kas_sql_stmt *stmt, int column, char *out, size_t size)
{
    const char *text = kas_sql_chars(stmt, column);
    snprintf(out, size, "%s", text ? text : "");
}
