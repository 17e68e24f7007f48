/* The supervisors of a study on a server: which of them proposes, what they evaluate on, and
 * whether their search has ended. A file has none of this: its supervisors run on one machine. */
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/store/postgres.h"

const char *const kas_work_role_names[] = {"all", "train", "measure", NULL};

void kas_store_set_role(kas_store *store, kas_work_role role)
{
    store->role = role;
}

/* The lock is one of two numbers: the first is ours, the second that of the study's schema. */
kas_status kas_store_lead(kas_store *store, bool *leads)
{
    bool alive;
    *leads = true;
    if (!store->server)
        return KAS_OK;
    if (store->pg->leads) /* unless its connection was lost, which a statement finds out */
        KAS_TRY(kas_sql_has_row(store, "SELECT 1", &alive));
    if (!store->pg->leads)
        KAS_TRY(kas_sql_has_row(store,
                                "SELECT 1 WHERE pg_try_advisory_lock(1, (SELECT oid::int FROM"
                                " pg_namespace WHERE nspname = current_schema()))",
                                &store->pg->leads));
    *leads = store->pg->leads;
    return KAS_OK;
}

static kas_status notify(kas_store *store, const char *text)
{
    return kas_sql_run(store, NULL, "SELECT pg_notify(current_schema(), ?)", "t", text);
}

kas_status kas_store_tell(kas_store *store)
{
    return store->server ? notify(store, "") : KAS_OK;
}

kas_status kas_store_want(kas_store *store)
{
    return store->server ? notify(store, KAS_PG_WANT) : KAS_OK;
}

kas_status kas_store_wait(kas_store *store, bool waits)
{
    const bool listens = store->server && (waits || store->pg->leads);
    if (!store->server || listens == store->pg->listens)
        return KAS_OK;
    store->pg->listens = listens; /* a new connection listens too */
    store->changed = 0;
    return listens ? kas_sql_run(store, NULL,
                                 "DO $$ BEGIN EXECUTE format('LISTEN %I', current_schema());"
                                 " END $$",
                                 "")
                   : kas_sql_run(store, NULL, "UNLISTEN *", "");
}

kas_status kas_store_set_ended(kas_store *store, bool ended)
{
    if (!store->server)
        return KAS_OK;
    KAS_TRY(kas_sql_run(store, NULL, "UPDATE kas_gpu SET ended = ?", "i", (int64_t)ended));
    return kas_store_tell(store);
}

kas_status kas_store_ended(kas_store *store, bool *ended)
{
    *ended = false;
    return store->server ? kas_sql_has_row(store, "SELECT 1 FROM kas_gpu WHERE ended <> 0", ended)
                         : KAS_OK;
}

kas_status kas_store_join(kas_store *store, const char *owner, const char *device,
                          kas_work_role role)
{
    return store->server
               ? kas_sql_run(store, NULL,
                             "INSERT INTO member (owner, device, role, seen) VALUES (?, ?, ?,"
                             " kas_now()) ON CONFLICT (owner, device) DO UPDATE SET seen ="
                             " excluded.seen",
                             "ttt", owner, device, kas_work_role_names[role])
               : KAS_OK;
}

static void read_member(kas_sql_stmt *stmt, kas_member *out)
{
    kas_sql_text(stmt, 0, out->owner, sizeof out->owner);
    kas_sql_text(stmt, 1, out->device, sizeof out->device);
    kas_sql_text(stmt, 2, out->role, sizeof out->role);
    out->seen = kas_sql_double(stmt, 3);
}

kas_status kas_store_members(kas_store *store, kas_member **out, int *count)
{
    kas_sql_stmt *stmt;
    bool row = false;
    *out = NULL;
    *count = 0;
    if (store->server)
        KAS_TRY(kas_pg_has_table(store, "member", &row));
    if (!row)
        return KAS_OK;
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            "SELECT owner, device, role, kas_now() - seen FROM member"
                            " ORDER BY owner, device",
                            ""));
    kas_status status = kas_sql_step(stmt, &row);
    while (status == KAS_OK && row) {
        if (!KAS_GROW(*out, *count)) {
            status = kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
            break;
        }
        read_member(stmt, &(*out)[(*count)++]);
        status = kas_sql_step(stmt, &row);
    }
    kas_sql_finish(stmt);
    if (status != KAS_OK) {
        free(*out);
        *out = NULL;
        *count = 0;
    }
    return status;
}
