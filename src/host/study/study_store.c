#include "host/study/study_store.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/json/fields.h"
#include "host/core/sha256.h"
#include "host/study/study_dir.h"

enum { STORE_BYTES = 16384 };
#define STORE_FILE "store.json"

typedef struct location {
    char store[KAS_STORE_URL], study[KAS_STORE_NAME + 5], id[33];
} location;
#define TEXT(member, name_)                                                                        \
    {                                                                                              \
        .key = name_, .type = KAS_FIELD_TEXT, .offset = offsetof(location, member),                \
        .size = sizeof(((location *)0)->member)                                                    \
    }
static const kas_field fields[] = {TEXT(store, "store"), TEXT(study, "study"), TEXT(id, "id")};
enum { FIELDS = sizeof fields / sizeof *fields };

/* Returns the database that the environment names; NULL = none. */
static const char *store_of_environment(void)
{
    const char *set = getenv("KAS_STORE");
    return set && *set ? set : NULL;
}

static bool has_file(const char *study, const char *name)
{
    char path[KAS_STUDY_PATH];
    return kas_study_path(study, name, path) == KAS_OK && kas_file_exists(path);
}

bool kas_study_exists(const char *study)
{
    return has_file(study, STORE_FILE) || has_file(study, "study.db");
}

void kas_study_describe_other(const char *folder, char out[KAS_STUDY_OTHER])
{
    char round[KAS_STUDY_PATH], text[KAS_STUDY_OTHER] = "";
    struct stat info;
    if (stat(folder, &info) == 0 && S_ISREG(info.st_mode))
        snprintf(text, sizeof text, "a file; give the folder of the study, DIR of DIR/study.db");
    else if (kas_study_path(folder, "round-0", round) == KAS_OK && kas_study_exists(round))
        snprintf(text, sizeof text,
                 "the folder of a search with --shrink, whose rounds are studies: give round-0 in "
                 "it, or a later one");
    else if (has_file(folder, KAS_STUDY_UNTRAINED))
        snprintf(text, sizeof text,
                 "the folder of a search with --no-training, which is no study: the kernel files "
                 "that it found are in best/ and legal/");
    memcpy(out, text, sizeof text);
}

/* ---- store.json ------------------------------------------------------------------------------ */

static kas_status read_location(const char *study, location *out)
{
    char path[KAS_STUDY_PATH];
    kas_buf text = {0};
    cJSON *json;
    KAS_TRY(kas_study_path(study, STORE_FILE, path));
    KAS_TRY(kas_file_read(path, STORE_BYTES, &text));
    kas_status status = kas_json_parse(path, kas_buf_text(&text), text.size,
                                       (kas_json_limits){STORE_BYTES, 2}, &json);
    kas_buf_free(&text);
    KAS_TRY(status);
    status = kas_fields_read(fields, FIELDS, json, path, out);
    cJSON_Delete(json);
    return status;
}

/* Writes the file if there is none; of several processes one does. */
static kas_status write_location(const char *study, const location *in, bool *existed)
{
    char path[KAS_STUDY_PATH];
    kas_buf text = {0};
    KAS_TRY(kas_study_path(study, STORE_FILE, path));
    kas_buf_puts(&text, "{");
    kas_fields_write(fields, FIELDS, in, &text);
    kas_buf_puts(&text, "}\n");
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        status = kas_file_write_new(path, text.data, text.size, existed);
    kas_buf_free(&text);
    return status;
}

/* Reads the URL that a file has in its first line. */
static kas_status read_url(const char *path, char out[KAS_STORE_URL])
{
    kas_buf text = {0};
    const kas_status status = kas_file_read(path, KAS_STORE_URL - 1, &text);
    snprintf(out, KAS_STORE_URL, "%.*s", (int)strcspn(kas_buf_text(&text), "\r\n"),
             kas_buf_text(&text));
    kas_buf_free(&text);
    return status == KAS_OK
               ? KAS_OK
               : kas_fail_context(KAS_STORE, "--store: `kas-gpu store start DIR` writes DIR/url");
}

static kas_status resolve(const location *from, char out[KAS_STORE_URL])
{
    const char *store = *from->store ? from->store : store_of_environment();
    if (!store)
        return kas_fail(KAS_STORE,
                        "study %s: its store was given by KAS_STORE, which is not set; set it to "
                        "the URL of the database, or to @FILE",
                        from->study);
    if (*store == '@')
        return read_url(store + 1, out);
    snprintf(out, KAS_STORE_URL, "%s", store);
    return KAS_OK;
}

static kas_status open_server(const char *study, const location *from, kas_store_mode mode,
                              kas_store **out)
{
    kas_store_place place = {.url = ""};
    KAS_TRY(resolve(from, place.url));
    memcpy(place.study, from->study, sizeof place.study);
    memcpy(place.id, from->id, sizeof place.id);
    if (!realpath(study, place.folder))
        return kas_fail(KAS_STORE, "%s: %s", study, kas_strerror(errno));
    return kas_store_open_server(&place, mode, out);
}

kas_status kas_study_open(const char *study, kas_store_mode mode, kas_store **out)
{
    char path[KAS_STUDY_PATH], other[KAS_STUDY_OTHER] = "";
    location from = {.store = ""};
    *out = NULL;
    if (mode != KAS_STORE_CREATE && !kas_study_exists(study))
        kas_study_describe_other(study, other);
    if (*other)
        return kas_fail(KAS_STORE, "%s: %s", study, other);
    if (!has_file(study, STORE_FILE)) {
        KAS_TRY(kas_study_path(study, "study.db", path));
        return kas_store_open(path, mode, out);
    }
    KAS_TRY(read_location(study, &from));
    return open_server(study, &from, mode, out);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Makes a reference that is good in every folder and has no secret. */
static kas_status make_reference(const char *given, char out[KAS_STORE_URL])
{
    char real[PATH_MAX];
    const char *at = strstr(given, "://");
    const char *end = at ? strchr(at + 3, '@') : NULL;
    if (*given == '@') {
        if (!realpath(given + 1, real))
            return kas_fail(KAS_STORE, "--store %s: %s; `kas-gpu store start DIR` writes DIR/url",
                            given, kas_strerror(errno));
        return snprintf(out, KAS_STORE_URL, "@%s", real) < KAS_STORE_URL
                   ? KAS_OK
                   : kas_fail(KAS_STORE, "--store: path too long");
    }
    if ((end && memchr(at + 3, ':', (size_t)(end - at - 3))) || strstr(given, "password="))
        return kas_fail(KAS_USAGE,
                        "--store: everybody on this machine can read a password in the arguments "
                        "of a process; put the URL into a file that only you can read and give "
                        "--store @FILE, or set KAS_STORE");
    return snprintf(out, KAS_STORE_URL, "%s", given) < KAS_STORE_URL
               ? KAS_OK
               : kas_fail(KAS_STORE, "--store: URL too long");
}

/* The study is named after its folder; the rounds of --shrink after that of all rounds too. */
static kas_status make_name(const char *study, char out[KAS_STORE_NAME + 5])
{
    char real[PATH_MAX];
    if (!realpath(study, real))
        return kas_fail(KAS_STORE, "%s: %s", study, kas_strerror(errno));
    char *name = strrchr(real, '/'), *before = name;
    if (strncmp(name, "/round-", 7) == 0 && name > real) {
        *before = '\n'; /* not found by the next search */
        name = strrchr(real, '/');
        *before = '/';
    }
    if (strlen(name + 1) > KAS_STORE_NAME)
        return kas_fail(KAS_STORE,
                        "--study: the name \"%s\" has more than %d bytes, the most in a "
                        "database; choose a shorter one",
                        name + 1, KAS_STORE_NAME);
    snprintf(out, KAS_STORE_NAME + 5, "%s", name + 1);
    return KAS_OK;
}

static kas_status describe(const char *study, const char *given, location *out)
{
    unsigned char bytes[16];
    *out = (location){.store = ""};
    if (given)
        KAS_TRY(make_reference(given, out->store));
    KAS_TRY(make_name(study, out->study));
    KAS_CHECK_LIBC(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, KAS_STORE);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out->id + 2 * i, 3, "%02x", bytes[i]);
    return KAS_OK;
}

/* Fails where a study that has begun is in another store. *begun: it has begun in one. */
static kas_status check_choice(const char *study, const char *given, bool *begun)
{
    location chosen, present;
    const bool file = has_file(study, "study.db");
    *begun = file || has_file(study, STORE_FILE);
    if (has_file(study, STORE_FILE)) {
        KAS_TRY(read_location(study, &present));
        if (given)
            KAS_TRY(make_reference(given, chosen.store));
        return !given || strcmp(chosen.store, present.store) == 0
                   ? KAS_OK
                   : kas_fail(KAS_STORE,
                              "%s: the study is in another store (%s); leave --store out, or "
                              "correct %s/" STORE_FILE " if the server has moved",
                              study, *present.store ? present.store : "that of KAS_STORE", study);
    }
    if (given && file)
        return kas_fail(KAS_STORE,
                        "%s: the study has begun in the file study.db; leave --store out, or move "
                        "it: kas-gpu store import %s --store %s",
                        study, study, given);
    return KAS_OK;
}

/* *made: there was no choice before. */
static kas_status choose_store(const char *study, const char *given, bool *made)
{
    bool begun, existed;
    location chosen;
    const char *set = store_of_environment();
    *made = false;
    KAS_TRY(check_choice(study, given, &begun));
    if (begun || (!given && !set))
        return KAS_OK;
    /* A reference to a file is kept; a URL in the environment may have a password, and is not. */
    KAS_TRY(describe(study, given ? given : *set == '@' ? set : NULL, &chosen));
    KAS_TRY(write_location(study, &chosen, &existed));
    *made = !existed;
    return KAS_OK;
}

kas_status kas_study_check_begin(const char *study, const char *given)
{
    struct stat info;
    bool begun;
    location chosen = {.store = ""};
    char url[KAS_STORE_URL];
    if (stat(study, &info) == 0 && !S_ISDIR(info.st_mode))
        return kas_fail(KAS_FAILURE, "%s: exists and is not a folder", study);
    KAS_TRY(check_choice(study, given, &begun));
    if (begun || (!given && !store_of_environment()))
        return KAS_OK;
    if (given)
        KAS_TRY(make_reference(given, chosen.store));
    KAS_TRY(resolve(&chosen, url));
    return kas_store_check_url(url);
}

kas_status kas_study_begin_store(const char *study, const char *given, kas_store **out)
{
    char path[KAS_STUDY_PATH];
    bool made;
    *out = NULL;
    KAS_TRY(kas_study_path(study, STORE_FILE, path));
    KAS_TRY(choose_store(study, given, &made));
    const kas_status status = kas_study_open(study, KAS_STORE_CREATE, out);
    if (status != KAS_OK && made)
        unlink(path); /* the next command may give another */
    return status;
}

kas_status kas_study_join(const char *given, const char *study, kas_store **out,
                          char folder[KAS_STUDY_PATH], bool *here)
{
    location from = {.store = ""}, there;
    kas_store_place place = {.url = ""};
    const char *set = store_of_environment();
    *out = NULL;
    *here = *study && kas_study_exists(study);
    snprintf(folder, KAS_STUDY_PATH, "%s", study);
    if (*here)
        return kas_study_open(study, KAS_STORE_WRITE, out);
    if (!given && !set)
        return kas_fail(*study ? KAS_STORE : KAS_USAGE,
                        "%s: no study; give its folder as --study, or --store with the URL of its "
                        "database",
                        *study ? study : "--study");
    if (given)
        KAS_TRY(make_reference(given, from.store));
    KAS_TRY(resolve(&from, place.url));
    if (strlen(study) > KAS_STORE_NAME)
        return kas_fail(KAS_STORE, "--study %s: neither a folder nor a name of at most %d bytes",
                        study, KAS_STORE_NAME);
    snprintf(place.study, sizeof place.study, "%s", study);
    KAS_TRY(kas_store_open_server(&place, KAS_STORE_WRITE, out));
    snprintf(folder, KAS_STUDY_PATH, "%s", kas_store_get_place(*out)->folder);
    *here = has_file(folder, STORE_FILE) && read_location(folder, &there) == KAS_OK &&
            strcmp(there.id, kas_store_get_place(*out)->id) == 0;
    return KAS_OK;
}

/* ---- moving ---------------------------------------------------------------------------------- */

typedef struct moved {
    const char *study;
    location to;
    char file[KAS_STUDY_PATH], fresh[KAS_STUDY_PATH]; /* study.db, and a new one */
} moved;

static kas_status open_database(void *context, kas_store **out)
{
    const moved *m = context;
    return open_server(m->study, &m->to, KAS_STORE_CREATE, out);
}

static kas_status name_database(void *context)
{
    const moved *m = context;
    bool existed;
    return write_location(m->study, &m->to, &existed);
}

/* The id follows from the study, so that an import that was interrupted finds what it began. */
static kas_status set_id(kas_store *store, location *to)
{
    kas_study study;
    char text[256], digest[65];
    KAS_TRY(kas_store_get_study(store, &study));
    snprintf(text, sizeof text, "%s %s %.17g", study.options_digest, study.dataset_digest,
             study.created);
    kas_study_clear(&study);
    kas_sha256_hex(text, strlen(text), digest);
    snprintf(to->id, sizeof to->id, "%.32s", digest);
    return KAS_OK;
}

kas_status kas_study_import(const char *study, const char *given)
{
    kas_store *from;
    moved m = {.study = study};
    char kept[KAS_STUDY_PATH];
    if (has_file(study, STORE_FILE))
        return kas_fail(KAS_STORE, "%s: the study is in a database already", study);
    if (!given && !store_of_environment())
        return kas_fail(KAS_USAGE,
                        "%s: no database is named; give --store with its URL or @FILE, such as "
                        "@DIR/url of `kas-gpu store start DIR`, or set KAS_STORE",
                        study);
    KAS_TRY(kas_study_path(study, "study.db", m.file));
    KAS_TRY(kas_study_path(study, "study.db.moved", kept));
    KAS_TRY(describe(study, given, &m.to));
    KAS_TRY(kas_store_open(m.file, KAS_STORE_WRITE, &from));
    kas_status status = set_id(from, &m.to);
    if (status == KAS_OK)
        status = kas_store_move(from, &(kas_store_mover){open_database, name_database, &m});
    kas_store_close(from);
    KAS_TRY(status);
    KAS_CHECK_LIBC(rename(m.file, kept) == 0, KAS_STORE);
    return KAS_OK;
}

/* Removes a file that an interrupted export has left. */
static kas_status open_file(void *context, kas_store **out)
{
    const moved *m = context;
    const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char path[KAS_STUDY_PATH + 16];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s%s", m->fresh, ends[i]);
        unlink(path);
    }
    return kas_store_open(m->fresh, KAS_STORE_CREATE, out);
}

static kas_status name_file(void *context)
{
    const moved *m = context;
    char path[KAS_STUDY_PATH];
    KAS_TRY(kas_study_path(m->study, STORE_FILE, path));
    KAS_CHECK_LIBC(rename(m->fresh, m->file) == 0, KAS_STORE);
    KAS_CHECK_LIBC(unlink(path) == 0 || errno == ENOENT, KAS_STORE);
    return KAS_OK;
}

kas_status kas_study_export(const char *study)
{
    kas_store *from;
    moved m = {.study = study};
    if (!has_file(study, STORE_FILE))
        return kas_fail(KAS_STORE,
                        "%s: the study is in no database: there is no " STORE_FILE " in the folder",
                        study);
    KAS_TRY(kas_study_path(study, "study.db", m.file));
    KAS_TRY(kas_study_path(study, "study.db.new", m.fresh));
    KAS_TRY(kas_study_open(study, KAS_STORE_WRITE, &from));
    const kas_status status = kas_store_move(from, &(kas_store_mover){open_file, name_file, &m});
    kas_store_close(from);
    return status;
}
