/* A study on a server: lost connections, studies of other folders and schemas, waiting, moves. */
#include "support/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/store/postgres.h"
#include "host/store/server_lock.h"
#include "support/server.h"

static void add(kas_store *store, int count)
{
    for (int k = 0; k < count; k++) {
        const kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = k};
        bool added;
        OK(kas_store_add(store, &work, &added));
        assert_true(added);
    }
}

/* Has the server end all connections but one, as a network may at any time. */
static void cut_others(kas_store *store)
{
    OK(kas_pg_send(store, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                          " application_name = 'kas-gpu' AND pid <> pg_backend_pid()"));
}

static void cut(kas_store *store)
{
    kas_store *other = open_store();
    cut_others(other);
    kas_store_close(other);
    (void)store;
}

static void assert_fails(kas_store_place place, kas_store_mode mode, const char *word)
{
    kas_store *store = (kas_store *)1;
    assert_int_equal(kas_store_open_server(&place, mode, &store), KAS_STORE);
    assert_null(store);
    if (!strstr(kas_error(), word))
        fail_msg("message lacks \"%s\": %s", word, kas_error());
    assert_null(strstr(kas_error(), "wrongword")); /* never the password */
    assert_null(strpbrk(kas_error(), "\n\t"));
    if (!*place.study)
        assert_int_not_equal(strncmp(kas_error(), "study ", 6), 0);
}

/* Every operation goes on after its connection was cut, and a transaction is repeated. */
TEST_WITH(lost_connections, on_server, remove_folder)
{
    kas_store *store = open_store();
    kas_measured measured = kas_measured_unknown();
    kas_work work, *list;
    bool found, held;
    int count;
    add(store, 2);
    cut(store);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found));
    assert_true(found && work.index == 0 && work.lease == 1);
    cut(store);
    OK(kas_store_renew(store, work.id, work.lease, 60, &held));
    assert_true(held);
    cut(store);
    OK(kas_store_pause(store, work.id, work.lease, &measured, &held));
    assert_true(held);
    const kas_settled settled = {.id = work.id, .promoted = true};
    OK(kas_sql_begin(store)); /* a transaction that is lost in the middle */
    cut(store);
    kas_status status = kas_sql_run(store, NULL, "DELETE FROM work", "");
    assert_int_equal(status, KAS_STORE);
    assert_true(kas_sql_end(store, &status)); /* "again" */
    OK(kas_store_settle(store, &settled, 1));
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 2);
    assert_int_equal(list[0].state, KAS_WORK_QUEUED);
    assert_int_equal(list[0].rung, 1);
    kas_work_list_free(list, count);
    kas_store_close(store);
}

/* The answer to a claim was lost, and the claim repeated: the first one goes back to the queue. A
 * report that counted before its answer was lost is known to have counted. */
TEST_WITH(repeated_statements, on_server, remove_folder)
{
    kas_store *store = open_store();
    kas_measured measured = kas_measured_unknown();
    kas_work first, work;
    bool found, held;
    add(store, 2);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 60, &first, &found));
    store->claims--; /* the next claim has the same text, as a repeated one */
    cut(store);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found));
    assert_true(found && work.index == 1);
    OK(kas_store_renew(store, first.id, first.lease, 60, &held));
    assert_false(held);
    OK(kas_store_finish(store, work.id, work.lease, KAS_WORK_FINISHED, "", &measured, &held));
    assert_true(held);
    cut(store);
    OK(kas_store_finish(store, work.id, work.lease, KAS_WORK_FINISHED, "", &measured, &held));
    assert_true(held);
    OK(kas_store_finish(store, work.id, work.lease, KAS_WORK_FINISHED, "", &measured, &held));
    assert_false(held); /* not repeated: somebody else's */
    kas_store_close(store);
}

/* Once a process is to end it does not wait for a server that is gone, however patient it was: a
 * failure of this test is that it does not end. */
TEST_WITH(hurry, on_server, remove_folder)
{
    kas_store *store = open_store(), *other = open_store();
    bool held;
    assert_int_equal(setenv("KAS_STORE_PATIENCE", "100000", 1), 0);
    snprintf(store->pg->place.url, sizeof store->pg->place.url, "postgresql://kas@127.0.0.1:1/x");
    cut_others(other);
    kas_store_hurry(store);
    assert_int_equal(kas_store_renew(store, 1, 1, 60, &held), KAS_STORE);
    assert_non_null(strstr(kas_error(), "did not come back"));
    assert_int_equal(unsetenv("KAS_STORE_PATIENCE"), 0);
    kas_store_close(other);
    kas_store_close(store);
}

TEST_WITH(wrong_places, on_server, remove_folder)
{
    kas_store *store = open_store();
    kas_store_place place = store->pg->place, wrong = place;
    snprintf(wrong.id, sizeof wrong.id, "other");
    for (int mode = KAS_STORE_READ; mode <= KAS_STORE_CREATE; mode++)
        assert_fails(wrong, (kas_store_mode)mode, "another study has this name");
    wrong = place;
    snprintf(wrong.study, sizeof wrong.study, "none");
    assert_fails(wrong, KAS_STORE_READ, "no such study");
    assert_fails(wrong, KAS_STORE_WRITE, "no such study");
    wrong = place;
    *wrong.study = 0; /* "the only one" */
    assert_fails(wrong, KAS_STORE_WRITE, "studies: ");
    snprintf(wrong.study, sizeof wrong.study, "none");
    snprintf(wrong.url, sizeof wrong.url, "postgresql://kas:wrongword@%s",
             strchr(place.url, '@') + 1);
    assert_fails(wrong, KAS_STORE_READ, "password authentication failed");
    snprintf(wrong.url, sizeof wrong.url, "postgresql://kas:wrongword@127.0.0.1:1/x");
    assert_fails(wrong, KAS_STORE_READ, "no connection");
    *wrong.study = 0;
    assert_fails(wrong, KAS_STORE_READ, "no connection");
    snprintf(wrong.url, sizeof wrong.url, "mysql://kas:wrongword@127.0.0.1:1/x");
    assert_fails(wrong, KAS_STORE_READ, "not the URL of a store");
    OK(kas_pg_send(store, "UPDATE kas_gpu SET schema = 99"));
    for (int mode = KAS_STORE_READ; mode <= KAS_STORE_CREATE; mode++)
        assert_fails(place, (kas_store_mode)mode, "schema version 99");
    kas_store_close(store);
}

static bool readable(const kas_store *store)
{
    struct pollfd fd = {kas_store_descriptor(store), POLLIN, 0};
    return poll(&fd, 1, 5000) == 1;
}

/* Returns how many notifications have come behind a statement of one's own. */
static int told(kas_store *store)
{
    int count = 0;
    OK(kas_pg_send(store, "SELECT 1"));
    for (PGnotify *one; (one = store->pg->lib->PQnotifies(store->pg->conn)); count++)
        store->pg->lib->PQfreemem(one);
    return count;
}

/* Who waits hears of items that come and end, but not of claims, also after its connection was
 * lost; who works hears of nothing. */
TEST_WITH(waiting, on_server, remove_folder)
{
    const kas_measured unknown = kas_measured_unknown();
    kas_store *store = open_store(), *other = open_store();
    kas_work work;
    bool found, held;
    assert_true(kas_store_changed(store)); /* before it the store may have changed */
    OK(kas_store_wait(store, false));
    assert_false(kas_store_changed(store));
    OK(kas_store_wait(store, true));
    assert_true(kas_store_changed(store));
    OK(kas_store_wait(store, true));
    assert_false(kas_store_changed(store));
    add(other, 1);
    assert_true(readable(store) && kas_store_changed(store));
    OK(kas_store_claim(other, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found));
    assert_false(kas_store_changed(store));
    OK(kas_store_release(other, work.id, work.lease, false, &held));
    assert_true(readable(store) && kas_store_changed(store));
    cut_others(other);
    while (!kas_store_changed(store)) /* the end of its connection is one */
        ;
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found)); /* connects again */
    while (kas_store_changed(store))
        ;
    OK(kas_store_release(other, work.id, work.lease, false, &held));
    assert_true(readable(store) && kas_store_changed(store));
    OK(kas_store_wait(store, false)); /* it has found something */
    while (kas_store_changed(store))
        ;
    OK(kas_store_claim(other, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found));
    OK(kas_store_finish(other, work.id, work.lease, KAS_WORK_FAILED, "", &unknown, &held));
    assert_int_equal(told(store), 0);
    kas_store_close(other);
    kas_store_close(store);
}

/* Tries until it leads: the server notices the end of a connection a moment later. */
static void await_lead(kas_store *store)
{
    for (bool leads = false; !leads;)
        OK(kas_store_lead(store, &leads));
}

/* Of several supervisors one proposes, until its connection ends; it is told when another one has
 * nothing to do, and the others are not. */
TEST_WITH(leading, on_server, remove_folder)
{
    kas_store *first = open_store(), *second = open_store(), *third = open_store();
    bool leads, ended;
    OK(kas_store_lead(first, &leads));
    assert_true(leads);
    for (int i = 0; i < 2; i++) {
        OK(kas_store_lead(second, &leads));
        assert_false(leads);
    }
    OK(kas_store_wait(first, false)); /* it listens all the same, because it proposes */
    OK(kas_store_wait(third, true));
    kas_store_changed(first);
    kas_store_changed(third);
    OK(kas_store_want(second));
    assert_true(readable(first) && kas_store_changed(first));
    assert_true(readable(third));
    assert_false(kas_store_changed(third));
    cut(first); /* all connections */
    await_lead(second);
    OK(kas_store_lead(first, &leads));
    assert_false(leads);
    kas_store_close(second);
    await_lead(first);
    OK(kas_store_set_ended(first, true));
    OK(kas_store_ended(third, &ended));
    assert_true(ended);
    OK(kas_store_set_ended(first, false));
    OK(kas_store_ended(third, &ended));
    assert_false(ended);
    kas_store_close(first);
    kas_store_close(third);
}

TEST_WITH(members, on_server, remove_folder)
{
    kas_store *store = open_store();
    kas_member *list;
    int count;
    for (int i = 0; i < 2; i++) /* the second time it is there again */
        OK(kas_store_join(store, "host|b|n|1|2", "edge", KAS_TAKES_MEASURING));
    OK(kas_store_join(store, "host|b|n|1|2", "gpu", KAS_TAKES_ALL));
    OK(kas_store_members(store, &list, &count));
    assert_int_equal(count, 2);
    assert_string_equal(list[0].device, "edge");
    assert_string_equal(list[0].role, "measure");
    assert_string_equal(list[1].role, "all");
    assert_true(list[0].seen >= 0);
    free(list);
    kas_store_close(store);
}

/* Makes of a new study what the first program with servers made: schema 4, without members. */
static void make_schema_4(kas_store *store)
{
    OK(kas_pg_send(store,
                   "DROP TRIGGER work_added ON work; DROP TRIGGER work_changed ON work;"
                   "DROP TRIGGER work_removed ON work; DROP FUNCTION kas_number();"
                   "DROP FUNCTION kas_removed(); DROP TABLE changes;"
                   "ALTER TABLE work DROP COLUMN changed, DROP COLUMN exchange, DROP COLUMN missed,"
                   " DROP COLUMN leased; ALTER TABLE study DROP COLUMN drawing_seconds;"
                   "DROP INDEX work_running; DROP TABLE member;"
                   "ALTER TABLE kas_gpu DROP COLUMN ended; UPDATE kas_gpu SET schema = 4"));
}

static kas_status decide(void *context, const kas_study *present, kas_study_change *out)
{
    (void)context, (void)present, (void)out;
    return KAS_OK;
}

/* Read as it is, and left alone. */
TEST_WITH(older_schema, on_server, remove_folder)
{
    kas_store *store = open_store();
    kas_work *list;
    kas_member *members;
    int count = 0;
    bool created;
    const kas_study study = {.options = "{}"};
    OK(kas_store_begin_study(store, &study, &created));
    add(store, 1);
    make_schema_4(store);
    kas_store_close(store);
    OK(open_on(KAS_STORE_CREATE, &store));
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 1);
    kas_work_list_free(list, count);
    OK(kas_store_members(store, &members, &count));
    assert_int_equal(count, 0);
    assert_int_equal(kas_store_revise(store, decide, store), KAS_STORE);
    assert_non_null(strstr(kas_error(), "schema version 4"));
    assert_int_equal(kas_store_check_schema(store), KAS_STORE);
    kas_store_close(store);
}

static kas_status open_file(void *context, kas_store **out)
{
    char path[300];
    (void)context;
    snprintf(path, sizeof path, "%s/moved.db", folder);
    return kas_store_open(path, KAS_STORE_CREATE, out);
}

static kas_status open_other(void *context, kas_store **out)
{
    (void)context;
    return open_on(KAS_STORE_CREATE, out);
}

static kas_status keep(void *context)
{
    (void)context;
    return KAS_OK;
}

static void assert_exchanges(kas_store *store)
{
    kas_work *list;
    int count;
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 2);
    assert_string_equal(list[0].exchange, "2 ranks; then 3 ranks");
    assert_null(list[1].exchange);
    kas_work_list_free(list, count);
}

/* Of a study that a supervisor has open, though it has no item at the moment. */
static void assert_no_move(kas_store *store, kas_store *other,
                           kas_status open(void *, kas_store **))
{
    bool leads;
    OK(kas_store_lead(other, &leads));
    assert_true(leads);
    assert_int_equal(kas_store_move(store, &(kas_store_mover){.open = open, .change = keep}),
                     KAS_STORE);
    assert_non_null(strstr(kas_error(), "another process has the study open"));
    OK(kas_store_add_busy(other, 1, 0)); /* it goes on */
    kas_store_close(other);
    for (leads = false; !leads; nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL))
        OK(kas_store_lead(store, &leads)); /* a server takes a moment to see that it is gone */
}

/* What a study knows of the exchange between ranks goes with it, from a server into a file and
 * back. */
TEST_WITH(moves, on_server, remove_folder)
{
    kas_store *store = open_store(), *other;
    kas_work work;
    bool found, held;
    add(store, 2);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found));
    OK(kas_store_record_exchange(store, work.id, work.lease + 1, "of another attempt", &held));
    assert_false(held);
    OK(kas_store_record_exchange(store, work.id, work.lease, "2 ranks; then 3 ranks", &held));
    assert_true(held);
    OK(kas_store_release(store, work.id, work.lease, false, &held));
    kas_work_clear(&work);
    assert_no_move(store, open_store(), open_file);
    OK(kas_store_move(store, &(kas_store_mover){.open = open_file, .change = keep}));
    kas_store_close(store);
    OK(open_file(NULL, &store));
    assert_exchanges(store);
    OK(open_file(NULL, &other));
    next_study();
    assert_no_move(store, other, open_other);
    OK(kas_store_move(store, &(kas_store_mover){.open = open_other, .change = keep}));
    kas_store_close(store);
    store = open_store();
    assert_exchanges(store);
    kas_store_close(store);
}

/* A message that is not UTF-8 must not end a search. */
TEST_WITH(odd_text, on_server, remove_folder)
{
    kas_store *store = open_store();
    kas_measured measured = kas_measured_unknown();
    kas_work work, *list;
    bool found, held;
    int count;
    add(store, 1);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "o", 60, &work, &found));
    OK(kas_store_finish(store, work.id, work.lease, KAS_WORK_FAILED, "a\xff'?$1\n", &measured,
                        &held));
    OK(kas_store_list(store, &list, &count));
    assert_string_equal(list[0].reason, "a\xef\xbf\xbd'?$1\n");
    kas_work_list_free(list, count);
    kas_store_close(store);
}

static const char *lock_path(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/lock", folder);
    return path;
}

static void write_lock(const char *owner)
{
    OK(kas_file_write_atomic(lock_path(), owner, strlen(owner)));
}

/* The lock of a process that is gone is taken; that of another machine only without a heartbeat. */
TEST_WITH(locks, on_server, remove_folder)
{
    bool here;
    char host[65];
    OK(kas_server_lock(folder, &here));
    assert_true(kas_server_holds(folder) && kas_server_locked(folder, host, &here) && here);
    assert_int_equal(kas_server_lock(folder, &here), KAS_STORE);
    assert_true(here);
    kas_server_unlock(folder);
    assert_false(kas_server_locked(folder, host, &here));
    char huge[5000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    write_lock(huge); /* by no keeper: no lock, and nothing to wait for */
    assert_int_equal(kas_server_lock(folder, &here), KAS_STORE);
    assert_non_null(strstr(kas_error(), "cannot be read"));
    assert_int_equal(unlink(lock_path()), 0);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(kas_server_lock(folder, &here) == KAS_OK ? 0 : 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    OK(kas_server_lock(folder, &here)); /* its owner has ended */
    write_lock("elsewhere|b|n|1|2\n1 1\n");
    assert_false(kas_server_beat(folder)); /* lost */
    const pid_t heart = fork();
    for (int i = 0; heart == 0 && i < 600; i++) {
        char text[64];
        snprintf(text, sizeof text, "elsewhere|b|n|1|2\n1 %d\n", i);
        write_lock(text);
        usleep(100000);
    }
    if (heart == 0)
        _exit(0);
    assert_int_equal(kas_server_lock(folder, &here), KAS_STORE);
    assert_non_null(strstr(kas_error(), "elsewhere"));
    assert_false(here);
    kill(heart, SIGKILL);
    waitpid(heart, &status, 0);
    OK(kas_server_lock(folder, &here)); /* 15 seconds of silence */
    assert_true(kas_server_holds(folder));
}

RUN_TESTS(start_server, stop_server)
