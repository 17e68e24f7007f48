/* Reads and changes the study's one row. */
#include <stdlib.h>
#include <string.h>

#include "host/core/sha256.h"
#include "host/store/sql.h"

void kas_study_clear(kas_study *study)
{
    free(study->options);
    *study = (kas_study){0};
}

kas_status kas_store_has_study(kas_store *store, bool *out)
{
    return kas_sql_has_row(store, "SELECT 1 FROM study", out);
}

kas_status kas_store_check_schema(kas_store *store)
{
    KAS_TRY(kas_store_identify(store));
    return store->schema == KAS_STORE_SCHEMA
               ? KAS_OK
               : kas_fail(KAS_STORE,
                          "%s: schema version %d; this kas-gpu reads it, and goes on only with "
                          "studies of version %d; go on with the kas-gpu that made it",
                          store->path, store->schema, KAS_STORE_SCHEMA);
}

static kas_status begin_now(kas_store *store, const kas_study *study, bool *created)
{
    bool exists;
    KAS_TRY(kas_store_has_study(store, &exists));
    *created = !exists;
    if (exists)
        return KAS_OK;
    KAS_TRY(kas_store_check_schema(store));
    return kas_sql_run(
        store, NULL,
        "INSERT INTO study (id, options, options_digest, dataset_digest, dataset_path,"
        " sampler_version, code_version, seed, busy_seconds, drawing_seconds, created)"
        " VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, kas_now())",
        "ttttitidd", study->options, study->options_digest, study->dataset_digest,
        study->dataset_path, (int64_t)study->sampler_version, study->code_version,
        (int64_t)study->seed, study->busy_seconds, study->drawing_seconds);
}

kas_status kas_store_begin_study(kas_store *store, const kas_study *study, bool *created)
{
    kas_sql_durable(store, true);
    kas_status status;
    KAS_SQL_TRANSACTION(store, status, begin_now(store, study, created));
    return status;
}

static kas_status read_study(kas_store *store, kas_sql_stmt *stmt, kas_study *out)
{
    bool row;
    KAS_TRY(kas_sql_step(stmt, &row));
    if (!row)
        return kas_fail(KAS_STORE,
                        "%s: no study in it: the search ended before it began; run `kas-gpu "
                        "search` with this --study again",
                        store->path);
    const char *options = kas_sql_chars(stmt, 0);
    out->options = options ? strdup(options) : NULL;
    if (!out->options)
        return kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
    kas_sql_text(stmt, 1, out->options_digest, sizeof out->options_digest);
    kas_sql_text(stmt, 2, out->dataset_digest, sizeof out->dataset_digest);
    kas_sql_text(stmt, 3, out->dataset_path, sizeof out->dataset_path);
    out->sampler_version = (int)kas_sql_int(stmt, 4);
    out->seed = (uint64_t)kas_sql_int(stmt, 5);
    out->created = kas_sql_double(stmt, 6);
    out->busy_seconds = kas_sql_double(stmt, 7);
    kas_sql_text(stmt, 8, out->device, sizeof out->device);
    kas_sql_text(stmt, 9, out->code_version, sizeof out->code_version);
    out->drawing_seconds = kas_sql_double(stmt, 10);
    return KAS_OK;
}

kas_status kas_store_get_study(kas_store *store, kas_study *out)
{
#define COLUMNS                                                                                    \
    "SELECT options, options_digest, dataset_digest, dataset_path, sampler_version, seed,"         \
    " created, busy_seconds, device, "
    *out = (kas_study){0};
    kas_sql_stmt *stmt;
    KAS_TRY(kas_store_identify(store)); /* a newer program may have changed the schema */
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            store->schema == 1  ? COLUMNS "'', 0 FROM study"
                            : store->schema < 9 ? COLUMNS "code_version, 0 FROM study"
                                                : COLUMNS
                                "code_version, drawing_seconds FROM study",
                            ""));
#undef COLUMNS
    kas_status status = read_study(store, stmt, out);
    kas_sql_finish(stmt);
    return status;
}

static kas_status set_options(kas_store *store, const char *options)
{
    char digest[65];
    kas_sha256_hex(options, strlen(options), digest);
    return kas_sql_run(store, NULL, "UPDATE study SET options = ?, options_digest = ?", "tt",
                       options, digest);
}

kas_status kas_store_retire_finals(kas_store *store)
{
    KAS_TRY(kas_sql_run(store, NULL,
                        "UPDATE work SET kind = ? WHERE kind = ? AND state = 'finished'", "ii",
                        (int64_t)KAS_WORK_EARLIER_FINAL, (int64_t)KAS_WORK_FINAL));
    KAS_TRY(kas_sql_run(store, NULL,
                        "DELETE FROM epoch WHERE work IN (SELECT id FROM work WHERE kind = ?"
                        " OR (kind = ? AND state <> 'finished'))",
                        "ii", (int64_t)KAS_WORK_FINAL, (int64_t)KAS_WORK_FINAL_BASELINE));
    return kas_sql_run(store, NULL,
                       "DELETE FROM work WHERE kind = ? OR (kind = ? AND state <> 'finished')",
                       "ii", (int64_t)KAS_WORK_FINAL, (int64_t)KAS_WORK_FINAL_BASELINE);
}

static kas_status revise_now(kas_store *store, kas_study_revision *revise, void *context)
{
    kas_study present;
    kas_study_change change = {0};
    KAS_TRY(kas_store_get_study(store, &present));
    kas_status status = revise(context, &present, &change);
    kas_study_clear(&present);
    if (status == KAS_OK)
        status = kas_store_check_schema(store);
    if (status == KAS_OK && change.options)
        status = set_options(store, change.options);
    if (status == KAS_OK && change.grows)
        status = kas_store_retire_finals(store);
    free(change.options);
    return status;
}

kas_status kas_store_revise(kas_store *store, kas_study_revision *revise, void *context)
{
    kas_sql_durable(store, true);
    kas_status status;
    KAS_SQL_TRANSACTION(store, status, revise_now(store, revise, context));
    return status;
}

kas_status kas_store_add_busy(kas_store *store, double seconds, double drawing)
{
    kas_sql_durable(store, false);
    return kas_sql_run(store, NULL,
                       "UPDATE study SET busy_seconds = busy_seconds + ?,"
                       " drawing_seconds = drawing_seconds + ?",
                       "dd", seconds, drawing);
}

kas_status kas_store_set_device(kas_store *store, const char *device)
{
    kas_sql_durable(store, true);
    return kas_sql_run(store, NULL, "UPDATE study SET device = ? WHERE device = ''", "t", device);
}

kas_status kas_store_set_dataset_path(kas_store *store, const char *path)
{
    kas_sql_durable(store, true);
    return kas_sql_run(store, NULL, "UPDATE study SET dataset_path = ?", "t", path);
}
