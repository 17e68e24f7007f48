/* How long a supervisor takes to read a study: all items, which it does once, and then what has
 * changed, which it does at every claim, epoch and end. Prints the number of items and the
 * processor seconds of a reading of all, of one when nothing has changed, of one for each item that
 * has changed, and of a walk through all items in memory; the server's seconds not included.
 *     build/bench/store_list ITEMS [URL]
 * makes at least 100 items in a file below /tmp, or in the study "bench-store-list" of a server,
 * whose items of an earlier run it deletes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/clock.h"
#include "host/core/integer.h"
#include "host/store/sql.h"

enum { READINGS = 20, CHANGED = 100 };

typedef struct reader {
    kas_store *store;
    kas_store_mark mark;
    kas_work *list;
    int count;
} reader;

/* Makes a study of items with 2,000 bytes of kernel and 1,250 of right images. */
static kas_status make_study(const char *items, const char *url, kas_store **out)
{
    int64_t count;
    if (!kas_integer_read(items, CHANGED, INT32_MAX, &count))
        return kas_fail(KAS_USAGE, "ITEMS: expected an integer of at least %d, found \"%s\"",
                        CHANGED, items);
    char path[64] = "/tmp/store-list-XXXXXX", kernel[2001] = "", correct[1251] = "";
    kas_store_place place = {.study = "bench-store-list"};
    memset(kernel, 'k', sizeof kernel - 1);
    memset(correct, 'c', sizeof correct - 1);
    if (!url)
        KAS_CHECK_LIBC(close(mkstemp(path)) == 0, KAS_FAILURE);
    snprintf(place.url, sizeof place.url, "%s", url ? url : "");
    KAS_TRY(url ? kas_store_open_server(&place, KAS_STORE_CREATE, out)
                : kas_store_open(path, KAS_STORE_CREATE, out));
    unlink(path); /* it stays while it is open */
    KAS_TRY(kas_sql_run(*out, NULL, "DELETE FROM work", ""));
    return kas_sql_run(
        *out, NULL,
        "INSERT INTO work (kind, k, attempt, name, created, kernel, correct, state)"
        " WITH RECURSIVE n(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM n WHERE k + 1 < ?)"
        " SELECT 1, k, k, '', 0, ?, ?, 'finished' FROM n",
        "itt", count, kernel, correct);
}

static kas_status read_all(reader *r, double *seconds)
{
    const double before = kas_processor_seconds();
    const kas_status status = kas_store_refresh(r->store, &r->mark, &r->list, &r->count);
    *seconds = kas_processor_seconds() - before;
    return status;
}

/* `changed` items at a time. */
static kas_status read_changes(reader *r, int changed, double *seconds)
{
    *seconds = 0;
    for (int i = 0; i < READINGS; i++) {
        if (changed)
            KAS_TRY(kas_sql_run(r->store, NULL, "UPDATE work SET rung = rung WHERE k < ?", "i",
                                (int64_t)changed));
        const double before = kas_processor_seconds();
        KAS_TRY(kas_store_refresh(r->store, &r->mark, &r->list, &r->count));
        *seconds += (kas_processor_seconds() - before) / READINGS;
    }
    return KAS_OK;
}

/* As a supervisor does that looks for something among its items. */
static double walk(const reader *r)
{
    static volatile int found;
    const double before = kas_processor_seconds();
    for (int turn = 0; turn < READINGS; turn++)
        for (int i = 0; i < r->count; i++)
            found += r->list[i].kind == KAS_WORK_FINAL;
    return (kas_processor_seconds() - before) / READINGS;
}

static kas_status measure(reader *r)
{
    double all, none, some;
    KAS_TRY(read_all(r, &all));
    KAS_TRY(read_changes(r, 0, &none));
    KAS_TRY(read_changes(r, CHANGED, &some));
    printf("{\"items\": %d, \"all_seconds\": %.3g, \"unchanged_seconds\": %.3g,"
           " \"changed_item_seconds\": %.3g, \"walk_seconds\": %.3g}\n",
           r->count, all, none, (some - none) / CHANGED, walk(r));
    return KAS_OK;
}

int main(int argc, char **argv)
{
    reader r = {.count = 0};
    const bool right = argc == 2 || argc == 3;
    if (!right || make_study(argv[1], argv[2], &r.store) != KAS_OK || measure(&r) != KAS_OK) {
        fprintf(stderr, "%s\n", right ? kas_error() : "usage: store_list ITEMS [URL]");
        return 1;
    }
    kas_work_list_free(r.list, r.count);
    kas_store_close(r.store);
    return 0;
}
