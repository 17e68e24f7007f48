/* Reads what has changed in the items of a study since they were read last.
 *
 * Each change of an item gives it a number (tables.h), and a reader asks for the items with
 * larger numbers than it has read up to.
 *
 * In a file the numbers are counted. On a server several transactions write at once, and a number
 * that is drawn first may be committed last. So there the number is that of the transaction, and a
 * reader has read up to the oldest transaction that was still under way when it looked: whatever
 * commits later has that number or a larger one, and is read the next time. What lies above it and
 * was read already is read again, which does no harm. A server that was killed may use the number
 * of a transaction again of which nobody saw anything: after a lost connection all is read.
 *
 * Items that were deleted, or that have another place in the order, are counted: when there are
 * more than last time, which is rare, all is read too. */
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/store/work_row.h"

/* A row without an item says up to which number the others were read. */
#define CHANGED(number)                                                                            \
    "SELECT " KAS_WORK_ALL ", " number ", removed FROM (SELECT * FROM changes LIMIT 1) AS one"     \
    " LEFT JOIN work ON changed > ?"
enum { NUMBER = KAS_WORK_ALL_COUNT, REMOVED };

static int by_place(const void *a, const void *b)
{
    const kas_work *v = a, *w = b;
    if (v->kind != w->kind)
        return v->kind < w->kind ? -1 : 1;
    if (v->index != w->index)
        return v->index < w->index ? -1 : 1;
    return v->seed < w->seed ? -1 : v->seed > w->seed;
}

/* Takes the contents of `work`. */
static kas_status insert(kas_store *store, kas_work **list, int *count, int at, kas_work *work)
{
    if (!KAS_GROW(*list, *count)) {
        kas_work_clear(work);
        return kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
    }
    memmove(*list + at + 1, *list + at, sizeof **list * (size_t)(*count - at));
    (*list)[at] = *work;
    ++*count;
    return KAS_OK;
}

/* Puts an item into a list that is in order, in the place of its earlier state. */
static kas_status put(kas_store *store, kas_work **list, int *count, kas_work *work)
{
    int at = 0;
    for (int end = *count; at < end;) {
        const int middle = at + (end - at) / 2;
        if (by_place(&(*list)[middle], work) < 0)
            at = middle + 1;
        else
            end = middle;
    }
    if (at == *count || by_place(&(*list)[at], work) != 0)
        return insert(store, list, count, at, work);
    kas_work_clear(&(*list)[at]);
    (*list)[at] = *work;
    return KAS_OK;
}

/* Reads the items that were changed after `number`: into their places, or with `all` one after the
 * other. */
static kas_status read_changed(kas_store *store, int64_t number, bool all, kas_work **list,
                               int *count, kas_store_mark *mark)
{
    kas_sql_stmt *stmt;
    bool row;
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            store->server
                                ? CHANGED("txid_snapshot_xmin(txid_current_snapshot()) - 1")
                                : CHANGED("number"),
                            "i", number));
    mark->connection = store->connections;
    kas_status status = kas_sql_step(stmt, &row);
    while (status == KAS_OK && row) {
        kas_work work = {0};
        mark->number = kas_sql_int(stmt, NUMBER);
        mark->removed = kas_sql_int(stmt, REMOVED);
        if (kas_sql_int(stmt, 0) != 0) {
            status = kas_work_read_row(store, stmt, &work);
            if (status != KAS_OK)
                kas_work_clear(&work);
            else
                status = all ? insert(store, list, count, *count, &work)
                             : put(store, list, count, &work);
        }
        if (status == KAS_OK)
            status = kas_sql_step(stmt, &row);
    }
    kas_sql_finish(stmt);
    return status;
}

static kas_status read_all(kas_store *store, kas_store_mark *mark, kas_work **list, int *count)
{
    kas_work *fresh = NULL;
    int items = 0;
    KAS_TRY(kas_store_identify(store)); /* a newer program may have changed the schema */
    const kas_status status = read_changed(store, -1, true, &fresh, &items, mark);
    if (status != KAS_OK) {
        kas_work_list_free(fresh, items);
        return status;
    }
    if (items)
        qsort(fresh, (size_t)items, sizeof *fresh, by_place);
    kas_work_list_free(*list, *count);
    *list = fresh;
    *count = items;
    return KAS_OK;
}

kas_status kas_store_refresh(kas_store *store, kas_store_mark *mark, kas_work **list, int *count)
{
    kas_store_mark now = {0};
    if (mark->connection && mark->connection == store->connections)
        KAS_TRY(read_changed(store, mark->number, false, list, count, &now));
    if (now.connection != mark->connection || now.removed != mark->removed || !mark->connection)
        KAS_TRY(read_all(store, &now, list, count));
    *mark = now;
    return KAS_OK;
}
