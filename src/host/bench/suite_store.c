/* How many items a second does a store carry?
 *
 * Processes claim items of one study and finish them, as supervisors do, with nothing in between.
 * Every end is on the disk when it counts, and on a server every claim.  The store is an SQLite
 * file, and then a PostgreSQL server that the suite starts for itself where PostgreSQL is
 * installed. What a disk can do at all is the rate at which a file is written and flushed, measured
 * beside it: one process cannot end more items, several have the disk flushed for all of them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/bench/bench.h"
#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/store/owner.h"
#include "host/store/server.h"
#include "host/store/sql.h"

enum { MOST_PROCESSES = 32, ITEMS = 1 << 16 };
static const int processes[] = {1, 8, 32};
enum { CASES = sizeof processes / sizeof *processes };
static const double DEFAULT_SECONDS = 3;

/* What a process has done, in memory that all share. */
typedef struct done {
    int items;
    double claiming, ending; /* seconds */
    bool failed;
} done;

typedef struct subject {
    const kas_bench_options *o;
    kas_device_info info;
    kas_store_place place; /* of the server; url "" = a file */
    char folder[64];
    pid_t cleaner;  /* 0 = none yet */
    int alive;      /* end of a pipe that all processes but the cleaner hold */
    double flushes; /* a second */
    double seconds;
    int studies;
    done *done; /* [MOST_PROCESSES] */
    kas_table *table;
} subject;

static kas_status open_study(const subject *s, kas_store **out)
{
    char path[128];
    kas_store_place place = s->place;
    snprintf(path, sizeof path, "%s/%d.db", s->folder, s->studies);
    if (!*place.url)
        return kas_store_open(path, KAS_STORE_CREATE, out);
    snprintf(place.study, sizeof place.study, "bench-%d", s->studies);
    return kas_store_open_server(&place, KAS_STORE_CREATE, out);
}

static kas_status fill(const subject *s)
{
    kas_store *store;
    KAS_TRY(open_study(s, &store));
    const kas_status status =
        kas_sql_run(store, NULL,
                    "INSERT INTO work (kind, k, attempt, name, created)"
                    " WITH RECURSIVE n(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM n WHERE k < ?)"
                    " SELECT 1, k, k, '', 0 FROM n",
                    "i", (int64_t)ITEMS);
    kas_store_close(store);
    return status;
}

/* ---- a process ------------------------------------------------------------------------------- */

static kas_status do_items(const subject *s, kas_store *store, done *out)
{
    const kas_measured measured = kas_measured_unknown();
    char owner[KAS_OWNER_SIZE];
    kas_owner_self(owner);
    for (double began = kas_monotonic(), now = began; now < began + s->seconds; out->items++) {
        kas_work work;
        bool found, held = false;
        KAS_TRY(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, owner, 3600, &work, &found));
        const double claimed = kas_monotonic();
        if (found)
            KAS_TRY(kas_store_finish(store, work.id, work.lease, KAS_WORK_FINISHED, "", &measured,
                                     &held));
        kas_work_clear(&work);
        if (!held)
            return kas_fail(KAS_FAILURE, "store: no item is left, or one was claimed twice");
        out->claiming += claimed - now;
        now = kas_monotonic();
        out->ending += now - claimed;
    }
    return KAS_OK;
}

/* All begin at once, when the other end of `gate` is closed. */
static void live(const subject *s, int gate, int ready, done *out)
{
    kas_store *store = NULL;
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a stopped suite measures no further */
    out->failed = open_study(s, &store) != KAS_OK;
    out->failed |= write(ready, "", 1) != 1;
    close(ready); /* so that the parent's read ends when one of us could not write */
    out->failed |= read(gate, &byte, 1) != 0;
    out->failed = out->failed || do_items(s, store, out) != KAS_OK;
    if (out->failed)
        fprintf(stderr, "%s\n", kas_error());
    kas_store_close(store);
}

/* ---- all processes --------------------------------------------------------------------------- */

static kas_status run_processes(const subject *s, int count)
{
    int gate[2], ready[2];
    char byte;
    pid_t pid[MOST_PROCESSES];
    bool failed = false;
    memset(s->done, 0, MOST_PROCESSES * sizeof *s->done);
    KAS_CHECK_LIBC(pipe(gate) == 0 && pipe(ready) == 0, KAS_FAILURE);
    fflush(NULL);
    for (int i = 0; i < count; i++) {
        pid[i] = fork();
        failed |= pid[i] < 0;
        if (pid[i] == 0) {
            close(gate[1]);
            live(s, gate[0], ready[1], &s->done[i]);
            _exit(0);
        }
    }
    close(ready[1]);
    for (int i = 0; i < count; i++)
        failed |= read(ready[0], &byte, 1) != 1;
    close(gate[0]);
    close(gate[1]);
    close(ready[0]);
    for (int i = 0; i < count; i++) {
        while (pid[i] > 0 && waitpid(pid[i], NULL, 0) < 0 && errno == EINTR)
            ;
        failed |= s->done[i].failed;
    }
    return failed ? kas_fail(KAS_FAILURE, "store: a process of %d failed", count) : KAS_OK;
}

static kas_status put(const subject *s, int count, const done *sum, const kas_bench_sink *sink)
{
    const char *backend = *s->place.url ? "postgresql" : "sqlite";
    const double rate = 2 * sum->items / s->seconds;
    const double claim = sum->claiming / sum->items, end = sum->ending / sum->items;
    if (!sink->json) {
        char human[2][32];
        kas_table_cell(s->table, "%s", backend);
        kas_table_cell(s->table, "%d", count);
        kas_table_cell(s->table, "%.0f", rate);
        kas_table_cell(s->table, "%s", kas_human_seconds(claim, human[0]));
        kas_table_cell(s->table, "%s", kas_human_seconds(end, human[1]));
        kas_table_cell(s->table, "%.0f", s->flushes);
        return KAS_OK;
    }
    kas_buf out = {0};
    kas_bench_line_begin(&out, "store", &s->info);
    kas_line_text(&out, "store", backend);
    kas_line_int(&out, "processes", count);
    kas_line_number(&out, "seconds", s->seconds);
    kas_line_int(&out, "items", sum->items);
    kas_line_number(&out, "changes_per_second", rate);
    kas_line_number(&out, "claim_seconds", claim);
    kas_line_number(&out, "end_seconds", end);
    kas_line_number(&out, "flushes_per_second", s->flushes);
    return kas_bench_line_put(&out, sink);
}

static kas_status measure(subject *s, int count, const kas_bench_sink *sink)
{
    done sum = {.items = 0};
    s->studies++;
    KAS_TRY(fill(s));
    KAS_TRY(run_processes(s, count));
    for (int i = 0; i < count; i++) {
        sum.items += s->done[i].items;
        sum.claiming += s->done[i].claiming;
        sum.ending += s->done[i].ending;
    }
    return put(s, count, &sum, sink);
}

/* How often a second a page can be appended to a file and flushed. */
static kas_status measure_flushes(subject *s)
{
    char path[128], page[4096] = "";
    int count = 0;
    snprintf(path, sizeof path, "%s/flushed", s->folder);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    KAS_CHECK_LIBC(fd >= 0, KAS_FAILURE);
    const double began = kas_monotonic();
    bool ok = true;
    while (ok && kas_monotonic() < began + s->seconds / 2) {
        ok = write(fd, page, sizeof page) == sizeof page && fdatasync(fd) == 0;
        count++;
    }
    s->flushes = count / (kas_monotonic() - began);
    close(fd);
    return ok ? KAS_OK : kas_fail_errno(KAS_MACHINE, path);
}

static kas_status start_server(subject *s)
{
    kas_server server;
    kas_buf text = {0};
    char path[80];
    snprintf(path, sizeof path, "%s/pg", s->folder);
    KAS_TRY(kas_server_start(path, NULL, 0, &server));
    snprintf(path, sizeof path, "%s/pg/url", s->folder);
    KAS_TRY(kas_file_read(path, KAS_STORE_URL - 1, &text));
    snprintf(s->place.url, sizeof s->place.url, "%.*s", (int)strcspn(text.data, "\n"), text.data);
    kas_buf_free(&text);
    return KAS_OK;
}

static kas_status run_all(subject *s, const kas_bench_sink *sink)
{
    KAS_TRY(measure_flushes(s));
    for (int i = 0; i < CASES; i++)
        KAS_TRY(measure(s, processes[i], sink));
    if (kas_server_installed() != KAS_OK) {
        kas_info("store: without PostgreSQL: %s", kas_error());
        return KAS_OK;
    }
    KAS_TRY(start_server(s));
    for (int i = 0; i < CASES; i++)
        KAS_TRY(measure(s, processes[i], sink));
    return KAS_OK;
}

/* ---- what the suite leaves behind -------------------------------------------------------------- */

static kas_status clear(const subject *s)
{
    kas_server server;
    char path[80];
    snprintf(path, sizeof path, "%s/pg", s->folder);
    if (kas_file_exists(path)) {
        KAS_TRY(kas_server_find(path, &server));
        if (server.running)
            KAS_TRY(kas_server_stop(path));
    }
    return kas_remove_tree(s->folder);
}

/* Starts a process that stops the server and removes the folder when all others of the suite have
 * ended, however they ended: a signal ends them at once. It is in a session of its own, which
 * Ctrl-C does not reach. The others hold the end of a pipe, whose closing it awaits. */
static kas_status start_cleaner(subject *s)
{
    int alive[2];
    char byte;
    KAS_CHECK_LIBC(pipe2(alive, O_CLOEXEC) == 0, KAS_FAILURE);
    fflush(NULL);
    s->cleaner = fork();
    KAS_CHECK_LIBC(s->cleaner >= 0, KAS_FAILURE);
    if (s->cleaner == 0) {
        setsid();
        close(alive[1]);
        while (read(alive[0], &byte, 1) < 0 && errno == EINTR)
            ;
        const bool cleared = clear(s) == KAS_OK;
        if (!cleared)
            kas_warn("%s", kas_error());
        _exit(!cleared);
    }
    close(alive[0]);
    s->alive = alive[1];
    return KAS_OK;
}

static kas_status await_cleaner(const subject *s)
{
    int status;
    close(s->alive);
    KAS_CHECK_LIBC(waitpid(s->cleaner, &status, 0) == s->cleaner, KAS_FAILURE);
    return status == 0 ? KAS_OK : kas_fail(KAS_FAILURE, "%s: could not be removed", s->folder);
}

/* ---- the suite --------------------------------------------------------------------------------- */

static kas_status open_subject(subject *s)
{
    static const kas_column columns[] = {{"store", KAS_LEFT},      {"processes", KAS_RIGHT},
                                         {"changes/s", KAS_RIGHT}, {"a claim", KAS_RIGHT},
                                         {"an end", KAS_RIGHT},    {"flushes/s", KAS_RIGHT}};
    kas_device *cpu;
    KAS_TRY(kas_device_open("cpu", 1, &cpu));
    s->info = *kas_device_get_info(cpu);
    kas_device_close(cpu);
    s->table = kas_table_create(columns, sizeof columns / sizeof *columns);
    s->done = mmap(NULL, MOST_PROCESSES * sizeof *s->done, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    KAS_CHECK_LIBC(s->done != MAP_FAILED, KAS_FAILURE);
    const char *temporary = getenv("TMPDIR");
    snprintf(s->folder, sizeof s->folder, "%.32s/kas-bench-store-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    /* PostgreSQL may run as another user, who must reach its folder. */
    KAS_CHECK_LIBC(mkdtemp(s->folder) && chmod(s->folder, 0755) == 0, KAS_FAILURE);
    return start_cleaner(s);
}

static kas_status run_suite(const kas_bench_options *o, const kas_bench_sink *sink)
{
    subject s = {.o = o, .seconds = o->seconds > 0 ? o->seconds : DEFAULT_SECONDS};
    kas_status status = open_subject(&s);
    if (status == KAS_OK)
        status = run_all(&s, sink);
    if (status == KAS_OK)
        status = kas_bench_table_put(
            s.table, "store: changes (claims and ends of items), all processes together", sink);
    kas_table_free(s.table);
    const kas_status cleared = s.cleaner > 0 ? await_cleaner(&s) : KAS_OK;
    return status == KAS_OK ? cleared : status;
}

static double seconds(const kas_bench_options *o)
{
    return 2 * CASES * (o->seconds > 0 ? o->seconds : DEFAULT_SECONDS) + 20;
}

const kas_bench_suite kas_bench_suite_store = {
    "store", "claims and durable ends of items in a second, by 1 to 32 processes", run_suite,
    seconds};
