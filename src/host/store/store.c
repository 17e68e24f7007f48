/* Opens and closes stores: chooses the journal, identifies the file and its schema. */
#include "host/store/store.h"

#include <ctype.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "host/core/buf.h"
#include "host/core/file/files.h"
#include "host/store/sql.h"
#include "host/store/tables.h"

enum { APPLICATION_ID = 0x4B415347, MOVED_ID = 0x4B41534D, BUSY_MS = 30000 }; /* "KASG", "KASM" */

bool kas_store_network_magic(unsigned long magic)
{
    static const unsigned long network[] = {
        0x6969,     /* NFS */
        0x517B,     /* SMB */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB 2 */
        0x0BD00BD0, /* Lustre */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x00C36400, /* Ceph */
        0x5346414F, /* AFS */
        0x01021997, /* 9p */
        0xAAD7AAEA, /* PanFS */
        0x65735546, /* FUSE: sshfs and others; local ones look the same */
    };
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if ((magic & 0xFFFFFFFF) == network[i])
            return true;
    return false;
}

static bool on_network(const char *path)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder ? 1 : 0] = 0;
    else
        strcpy(folder, ".");
    struct statfs info;
    return statfs(folder, &info) == 0 && kas_store_network_magic((unsigned long)info.f_type);
}

/* Implements the SQL function kas_now(): Unix time. */
static void now(sqlite3_context *context, int count, sqlite3_value **value)
{
    (void)count, (void)value;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    sqlite3_result_double(context, (double)time.tv_sec + 1e-9 * (double)time.tv_nsec);
}

static kas_status read_pragma(kas_store *store, const char *sql, int64_t *out)
{
    kas_sql_stmt *stmt;
    bool row;
    KAS_TRY(kas_sql_prepare(store, &stmt, sql, ""));
    kas_status status = kas_sql_step(stmt, &row);
    *out = status == KAS_OK && row ? kas_sql_int(stmt, 0) : 0;
    kas_sql_finish(stmt);
    return status;
}

static kas_status set_application(kas_store *store, int id)
{
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA application_id = %d", id);
    return kas_sql_run(store, NULL, pragma, "");
}

kas_status kas_sqlite_retire(kas_store *store)
{
    return set_application(store, MOVED_ID);
}

/* One process at a time writes to a file, so numbers are committed in their order. */
#define NUMBER                                                                                     \
    " BEGIN UPDATE changes SET number = number + 1;"                                               \
    " UPDATE work SET changed = (SELECT number FROM changes) WHERE id = NEW.id; END"
static const char *const tables[] = {
    KAS_STUDY_TABLE("INTEGER", "REAL"),
    KAS_WORK_TABLE("INTEGER PRIMARY KEY", "INTEGER", "REAL"),
    KAS_EPOCH_TABLE("INTEGER", "REAL", " REFERENCES work (id)") " WITHOUT ROWID",
    KAS_CHANGES_TABLE,
    "CREATE TRIGGER work_added AFTER INSERT ON work" NUMBER,
    "CREATE TRIGGER work_changed AFTER UPDATE ON work" KAS_IS_CHANGE NUMBER,
    "CREATE TRIGGER work_removed AFTER DELETE ON work BEGIN " KAS_REMOVED " END",
    "CREATE TRIGGER work_moved AFTER UPDATE OF kind ON work BEGIN " KAS_REMOVED " END",
    "CREATE INDEX work_open ON work (kind, k, seed) WHERE " KAS_WORK_OPEN,
};

static kas_status make_schema(kas_store *store)
{
    char pragma[64];
    int64_t there;
    KAS_TRY(read_pragma(store, "SELECT count(*) FROM sqlite_master", &there));
    if (there > 0) /* another process created it, or it is not ours; kas_store_identify decides */
        return KAS_OK;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        KAS_TRY(kas_sql_run(store, NULL, tables[i], ""));
    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", KAS_STORE_SCHEMA);
    KAS_TRY(kas_sql_run(store, NULL, pragma, ""));
    return set_application(store, APPLICATION_ID);
}

kas_status kas_sqlite_identify(kas_store *store)
{
    int64_t application, version;
    KAS_TRY(read_pragma(store, "PRAGMA application_id", &application));
    if (application == MOVED_ID)
        return kas_fail(KAS_STORE,
                        "%s: the study has moved into a database; store.json beside the file says "
                        "which",
                        store->path);
    if (application != APPLICATION_ID)
        return kas_fail(KAS_STORE,
                        "%s: an SQLite data base, but not of kas-gpu (application_id 0x%08llx, "
                        "expected 0x%08x); choose another --study",
                        store->path, (long long)application, APPLICATION_ID);
    KAS_TRY(read_pragma(store, "PRAGMA user_version", &version));
    if (version < 1 || version > KAS_STORE_SCHEMA)
        return kas_fail(KAS_STORE,
                        "%s: schema version %lld, this kas-gpu knows versions 1 to %d; open the "
                        "study with the kas-gpu that made it",
                        store->path, (long long)version, KAS_STORE_SCHEMA);
    store->schema = (int)version;
    return KAS_OK;
}

/* Checks every page. It reads the whole file once for each start of a supervisor: a damaged page
 * should be found now and not by candidate 900. */
static kas_status check_pages(kas_store *store)
{
    kas_sql_stmt *stmt;
    bool row;
    KAS_TRY(kas_sql_prepare(store, &stmt, "PRAGMA quick_check(1)", ""));
    kas_status status = kas_sql_step(stmt, &row);
    char text[256] = "";
    if (status == KAS_OK && row)
        kas_sql_text(stmt, 0, text, sizeof text);
    kas_sql_finish(stmt);
    if (status == KAS_OK && strcmp(text, "ok") != 0)
        status = kas_fail(KAS_STORE,
                          "%s: the data base is damaged (%s); restore it from a backup, or try "
                          "`sqlite3 study.db .recover`",
                          store->path, text);
    return status;
}

/* Switches to WAL. When two processes change a new file's journal mode at once, SQLite does not
 * wait but reports "busy" to one of them immediately. */
static kas_status enter_wal(kas_store *store)
{
    const struct timespec pause = {0, 20000000};
    kas_status status = KAS_OK;
    for (int waited = 0; waited < BUSY_MS; waited += 20) {
        status = kas_sql_run(store, NULL, "PRAGMA journal_mode = WAL", "");
        if (status == KAS_OK || (sqlite3_errcode(store->db) & 0xff) != SQLITE_BUSY)
            break;
        nanosleep(&pause, NULL);
    }
    return status;
}

static kas_status set_journal(kas_store *store)
{
    if (store->exclusive) {
        KAS_TRY(kas_sql_run(store, NULL, "PRAGMA locking_mode = EXCLUSIVE", ""));
        KAS_TRY(kas_sql_run(store, NULL, "PRAGMA journal_mode = DELETE", ""));
        KAS_TRY(kas_sql_run(store, NULL, "PRAGMA synchronous = FULL", ""));
        KAS_TRY(kas_sql_run(store, NULL, "BEGIN EXCLUSIVE", "")); /* takes the lock, and keeps it */
        KAS_TRY(kas_sql_run(store, NULL, "COMMIT", ""));
    } else {
        bool logs;
        KAS_TRY(enter_wal(store));
        KAS_TRY(kas_sql_has_row(
            store, "SELECT 1 FROM pragma_journal_mode WHERE journal_mode = 'wal'", &logs));
        if (logs) {
            KAS_TRY(kas_sql_run(store, NULL, "PRAGMA synchronous = NORMAL", ""));
            kas_sqlite_flush_commits(store);
        } else { /* no memory is shared there, so SQLite keeps its rollback journal, and says nothing */
            KAS_TRY(kas_sql_run(store, NULL, "PRAGMA synchronous = FULL", ""));
        }
    }
    kas_sql_durable(store, true);
    return kas_sql_run(store, NULL, "PRAGMA foreign_keys = ON", "");
}

static kas_status set_up(kas_store *store, kas_store_mode mode)
{
    if (sqlite3_create_function(store->db, "kas_now", 0, SQLITE_UTF8, NULL, now, NULL, NULL) !=
            SQLITE_OK ||
        sqlite3_busy_timeout(store->db, store->exclusive ? 2000 : BUSY_MS) != SQLITE_OK)
        return kas_sqlite_fail(store, "sqlite3_create_function");
    if (mode == KAS_STORE_READ)
        return kas_store_identify(store);
    if (mode == KAS_STORE_WRITE)
        KAS_TRY(
            kas_store_identify(store)); /* before the journal mode of a foreign file is changed */
    KAS_TRY(set_journal(store));
    if (mode == KAS_STORE_CREATE) {
        kas_status status;
        KAS_SQL_TRANSACTION(store, status, make_schema(store));
        KAS_TRY(status);
        KAS_TRY(kas_store_identify(store));
    }
    return check_pages(store);
}

kas_status kas_store_open(const char *path, kas_store_mode mode, kas_store **out)
{
    return kas_store_open_as(path, mode, on_network(path), out);
}

/* Returns whether a file of SQLite's is in WAL mode: its header says so. */
static bool is_logged(const char *path)
{
    enum { READ_VERSION = 19, WAL = 2 };
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    const int version = fseek(file, READ_VERSION, SEEK_SET) == 0 ? fgetc(file) : EOF;
    fclose(file);
    return version == WAL;
}

/* Returns whether a file in WAL mode that nobody has open lies where this process may write nothing. SQLite
 * wants to make a log beside it even to read it, so it is read as one that never changes. */
static bool is_kept_from_us(const char *path)
{
    char log[PATH_MAX], folder[PATH_MAX];
    snprintf(log, sizeof log, "%s-wal", path);
    snprintf(folder, sizeof folder, "%s", path);
    return is_logged(path) && !kas_file_exists(log) && access(dirname(folder), W_OK) != 0;
}

/* Writes the URI of a file that never changes. */
static void put_immutable(const char *path, kas_buf *out)
{
    kas_buf_puts(out, "file:");
    for (const unsigned char *c = (const unsigned char *)path; *c; c++)
        kas_buf_printf(out, isalnum(*c) || strchr("/._-", *c) ? "%c" : "%%%02X", *c);
    kas_buf_puts(out, "?immutable=1");
}

static kas_status open_file(kas_store *store, const char *name, int flags)
{
    if (sqlite3_open_v2(name, &store->db, flags, NULL) == SQLITE_OK)
        return KAS_OK;
    return store->db
               ? kas_fail(KAS_STORE, "%s: cannot be opened: %s (%s)", store->path,
                          sqlite3_errmsg(store->db), strerror(sqlite3_system_errno(store->db)))
               : kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
}

static kas_status open_immutable(kas_store *store)
{
    kas_buf name = {0};
    put_immutable(store->path, &name);
    kas_status status = kas_buf_status(&name);
    if (status == KAS_OK)
        status = open_file(store, kas_buf_text(&name), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    kas_buf_free(&name);
    return status;
}

/* SQLite's own words about it name a pragma. It writes beside the file, too. */
static kas_status check_writable(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    const bool writable =
        (!kas_file_exists(path) || access(path, W_OK) == 0) && access(dirname(folder), W_OK) == 0;
    if (writable || (errno != EACCES && errno != EROFS))
        return KAS_OK;
    return kas_fail(KAS_STORE,
                    "%s: no permission to write it and its folder (%s), so the study can only be "
                    "read; go on with it as its owner, or begin another --study",
                    path, kas_strerror(errno));
}

static kas_status open_store(kas_store *store, kas_store_mode mode)
{
    if (mode == KAS_STORE_READ)
        return is_kept_from_us(store->path) ? open_immutable(store)
                                            : open_file(store, store->path, SQLITE_OPEN_READONLY);
    KAS_TRY(check_writable(store->path));
    return open_file(store, store->path,
                     SQLITE_OPEN_READWRITE | (mode == KAS_STORE_CREATE ? SQLITE_OPEN_CREATE : 0));
}

kas_status kas_store_open_as(const char *path, kas_store_mode mode, bool network, kas_store **out)
{
    *out = NULL;
    if (mode != KAS_STORE_CREATE && !kas_file_exists(path))
        return kas_fail(KAS_STORE, "%s: no such study; `kas-gpu search --study DIR ...` starts one",
                        path);
    kas_store *store = calloc(1, sizeof *store);
    if (!store)
        return kas_fail(KAS_NO_MEMORY, "%s: out of memory", path);
    store->backend = &kas_sqlite;
    store->connections = 1;
    snprintf(store->path, sizeof store->path, "%s", path);
    store->exclusive = mode != KAS_STORE_READ && network;
    kas_status status = open_store(store, mode);
    if (status == KAS_OK)
        status = set_up(store, mode);
    if (status != KAS_OK) {
        kas_store_close(store);
        return status;
    }
    *out = store;
    return KAS_OK;
}

void kas_store_close(kas_store *store)
{
    if (!store)
        return;
    store->backend->close(store);
    free(store);
}

bool kas_store_is_exclusive(const kas_store *store)
{
    return store->exclusive;
}
