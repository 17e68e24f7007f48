/* Reading what has changed: the same items as a list of all, and no more than what has changed. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/store/postgres.h"
#include "support/server.h"

typedef struct reader {
    kas_store *store;
    kas_store_mark mark;
    kas_work *list;
    int count;
} reader;

static void refresh(reader *r)
{
    OK(kas_store_refresh(r->store, &r->mark, &r->list, &r->count));
}

static void close_reader(reader *r)
{
    kas_work_list_free(r->list, r->count);
    kas_store_close(r->store);
}

static void execute(kas_store *store, const char *sql)
{
    if (store->server)
        OK(kas_pg_send(store, sql));
    else
        assert_int_equal(sqlite3_exec(store->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void add(kas_store *store, int count)
{
    for (int k = 0; k < count; k++) {
        const kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = k, .name = "a", .kernel = "{}"};
        bool added;
        OK(kas_store_add(store, &work, &added));
    }
}

static void same_number(double a, double b)
{
    assert_true(a == b || (isnan(a) && isnan(b)));
}

static void same_text(const char *a, const char *b)
{
    assert_true(!a == !b);
    if (a)
        assert_string_equal(a, b);
}

static void same_item(const kas_work *a, const kas_work *b)
{
    assert_true(a->id == b->id && a->kind == b->kind && a->index == b->index &&
                a->seed == b->seed && a->generation == b->generation && a->rung == b->rung);
    assert_true(a->state == b->state && a->lease == b->lease && a->deaths == b->deaths &&
                a->answers == b->answers);
    if (a->state != KAS_WORK_RUNNING)
        assert_int_equal(a->epochs, b->epochs);
    same_text(a->reason, b->reason);
    same_text(a->kernel, b->kernel);
    same_text(a->gains, b->gains);
    same_text(a->correct, b->correct);
    same_number(a->started, b->started);
    same_number(a->ended, b->ended);
    same_number(a->processor, b->processor);
    same_number(a->leased, b->leased);
    same_number(a->measured.accuracy, b->measured.accuracy);
    same_number(a->measured.latency, b->measured.latency);
}

static void assert_up_to_date(const reader *r)
{
    kas_work *list;
    int count;
    OK(kas_store_list(r->store, &list, &count));
    assert_int_equal(r->count, count);
    for (int i = 0; i < count; i++)
        same_item(&r->list[i], &list[i]);
    kas_work_list_free(list, count);
}

/* ---- whatever happens ------------------------------------------------------------------------ */

enum { ITEMS = 6 };

static unsigned next_random(unsigned *state, unsigned below)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 16) % below;
}

/* Something that a supervisor does with an item. */
static void change_item(kas_store *store, const kas_work *w, unsigned action)
{
    kas_measured measured = kas_measured_unknown();
    const kas_epoch epoch = {.epoch = w->lease};
    const kas_settled settled = {.id = w->id, .rung = w->rung, .promoted = w->id % 2};
    kas_work claimed;
    bool held, found;
    measured.accuracy = w->lease;
    switch (action) {
    case 0:
        OK(kas_store_record_epoch(store, w->id, w->lease, &epoch, &held));
        OK(kas_store_renew(store, w->id, w->lease, 60, &held));
        break;
    case 1:
        OK(kas_store_record_measured(store, w->id, w->lease, &measured, &held));
        OK(kas_store_record_gains(store, w->id, w->lease, "g", &held));
        break;
    case 2:
        OK(kas_store_pause(store, w->id, w->lease, &measured, &held));
        break;
    case 3:
        OK(kas_store_settle(store, &settled, 1));
        break;
    case 4:
        OK(kas_store_finish(store, w->id, w->lease, KAS_WORK_FINISHED, "r", &measured, &held));
        break;
    case 5:
        OK(kas_store_release(store, w->id, w->lease, true, &held));
        break;
    case 6:
        OK(kas_store_requeue(store, w)); /* of a candidate: deletes final trainings */
        break;
    default:
        OK(kas_store_claim_item(store, w->id, "o", 60, &claimed, &found));
        kas_work_clear(&claimed);
    }
}

static void add_items(kas_store *store, unsigned *state)
{
    kas_work finals[2] = {{.kind = KAS_WORK_FINAL, .answers = true},
                          {.kind = KAS_WORK_FINAL_BASELINE}};
    finals[0].index = next_random(state, 2);
    const kas_work one = {.kind = KAS_WORK_CANDIDATE, .index = next_random(state, ITEMS)};
    bool added;
    OK(kas_store_add(store, &one, &added));
    if (next_random(state, 4) == 0)
        OK(kas_store_add_finals(store, "d", finals, 2, &added));
}

TEST_BOTH(same_as_list)
{
    kas_store *store = open_store();
    reader r = {.store = open_store()};
    const kas_study study = {.options = "{}", .options_digest = "d"};
    unsigned random = 1, moved = 0;
    bool created;
    OK(kas_store_begin_study(store, &study, &created));
    refresh(&r); /* of an empty study */
    assert_int_equal(r.count, 0);
    for (int turn = 0; turn < 50; turn++) {
        const int64_t removed = r.mark.removed;
        add_items(store, &random);
        for (unsigned i = next_random(&random, 4); r.count && i > 0; i--)
            change_item(next_random(&random, 2) ? store : r.store,
                        &r.list[next_random(&random, (unsigned)r.count)], next_random(&random, 9));
        refresh(&r);
        assert_up_to_date(&r);
        moved += r.mark.removed != removed;
    }
    assert_true(moved > 3); /* items were deleted, or got another kind */
    close_reader(&r);
    kas_store_close(store);
}

/* ---- no more than what has changed ----------------------------------------------------------- */

TEST_BOTH(only_what_changed)
{
    kas_store *store = open_store();
    reader r = {.store = open_store()};
    kas_work work;
    bool found, held;
    add(store, 3);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found));
    refresh(&r);
    /* A row that is changed behind the store's back is not read again ... */
    execute(store, store->server ? "ALTER TABLE work DISABLE TRIGGER work_changed"
                                 : "DROP TRIGGER work_changed");
    execute(store, "UPDATE work SET name = 'b'");
    refresh(&r);
    for (int i = 0; i < 3; i++)
        assert_string_equal(r.list[i].name, "a");
    if (!store->server)
        goto out;
    /* ... nor after a renewal, but when it changes; */
    execute(store, "ALTER TABLE work ENABLE TRIGGER work_changed");
    OK(kas_store_renew(store, work.id, work.lease, 90, &held));
    assert_true(held);
    refresh(&r);
    assert_string_equal(r.list[0].name, "a");
    OK(kas_store_release(store, work.id, work.lease, false, &held));
    refresh(&r);
    assert_string_equal(r.list[0].name, "b");
    assert_string_equal(r.list[1].name, "a");
    /* and after a lost connection all are: the server may have forgotten numbers. */
    execute(store, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                   " application_name = 'kas-gpu' AND pid <> pg_backend_pid()");
    refresh(&r);
    assert_string_equal(r.list[1].name, "b");
out:
    kas_work_clear(&work);
    close_reader(&r);
    kas_store_close(store);
}

/* ---- transactions that are committed late ---------------------------------------------------- */

#define CHANGE(k, name) "UPDATE work SET name = '" name "' WHERE k = " #k

/* On a server: the transaction that began first and has the lowest number ends last. */
TEST_WITH(committed_late, on_server, remove_folder)
{
    kas_store *early = open_store(), *late = open_store();
    reader r = {.store = open_store()};
    add(early, 3);
    refresh(&r);
    execute(early, "BEGIN; " CHANGE(0, "early"));
    execute(late, CHANGE(1, "late"));
    refresh(&r);
    assert_string_equal(r.list[0].name, "a");
    assert_string_equal(r.list[1].name, "late");
    execute(late, CHANGE(2, "later"));
    refresh(&r);
    assert_string_equal(r.list[2].name, "later");
    execute(early, "COMMIT");
    refresh(&r);
    assert_string_equal(r.list[0].name, "early");
    assert_up_to_date(&r);
    /* The same with an item that is deleted. */
    execute(early, "BEGIN; DELETE FROM work WHERE k = 0");
    execute(late, CHANGE(1, "again"));
    refresh(&r);
    assert_int_equal(r.count, 3);
    execute(early, "COMMIT");
    refresh(&r);
    assert_int_equal(r.count, 2);
    assert_up_to_date(&r);
    close_reader(&r);
    kas_store_close(early);
    kas_store_close(late);
}

/* ---- a file says whether it has changed ------------------------------------------------------ */

TEST_WITH(changed_files, on_file, remove_folder)
{
    kas_store *store = open_store(), *other = open_store();
    assert_true(kas_store_changed(store)); /* before it the store may have changed */
    store->changed += 3600;                /* however slow this test is */
    assert_false(kas_store_changed(store));
    add(other, 1);
    assert_true(kas_store_changed(store));
    store->changed += 3600;
    assert_false(kas_store_changed(store));
    add(store, 2); /* its own */
    assert_true(kas_store_changed(store));
    store->changed -= 3600;
    assert_true(kas_store_changed(store)); /* a lease may have ended */
    kas_store_close(other);
    kas_store_close(store);
}

RUN_TESTS(start_server, stop_server)
