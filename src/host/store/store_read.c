/* Reads rows of work items and epochs, and converts the names of kinds and states. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/store/work_row.h"

static const char *const kind_names[] = {"baseline",       "candidate",     "final",
                                         "final-baseline", "earlier-final", "turns"};
static const char *const state_names[KAS_WORK_STATES] = {
    "queued",   "running",       "waiting",        "finished",     "pruned",    "over-latency",
    "screened", "diverged",      "out-of-memory",  "crashed",      "hung",      "device-lost",
    "failed",   "machine-fault", "predicted-slow", "not-promoted", "low-score", "prefiltered"};

const char *kas_work_kind_name(kas_work_kind kind)
{
    return kind_names[kind];
}

const char *kas_work_state_name(kas_work_state state)
{
    return state_names[state];
}

bool kas_work_state_parse(const char *name, kas_work_state *out)
{
    for (int i = 0; i < KAS_WORK_STATES; i++)
        if (strcmp(name, state_names[i]) == 0) {
            *out = (kas_work_state)i;
            return true;
        }
    return false;
}

kas_measured kas_measured_unknown(void)
{
    return (kas_measured){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
}

void kas_work_clear(kas_work *work)
{
    free(work->kernel);
    free(work->gains);
    free(work->correct);
    free(work->exchange);
    *work = (kas_work){0};
}

void kas_work_list_free(kas_work *work, int count)
{
    for (int i = 0; i < count; i++)
        kas_work_clear(&work[i]);
    free(work);
}

static kas_measured read_measured(kas_sql_stmt *stmt, int column, int ratio, int missed)
{
    return (kas_measured){.accuracy = kas_sql_double(stmt, column),
                          .latency = kas_sql_double(stmt, column + 1),
                          .latency_iqr = kas_sql_double(stmt, column + 2),
                          .step_seconds = kas_sql_double(stmt, column + 3),
                          .compile_seconds = kas_sql_double(stmt, column + 4),
                          .memory = kas_sql_double(stmt, column + 5),
                          .output_std_min = kas_sql_double(stmt, column + 6),
                          .output_std_max = kas_sql_double(stmt, column + 7),
                          .ratio = kas_sql_double(stmt, ratio),
                          .ratio_low = kas_sql_double(stmt, ratio + 1),
                          .ratio_high = kas_sql_double(stmt, ratio + 2),
                          .missed = kas_sql_double(stmt, missed)};
}

/* Copies a text of any length; NULL for none and for an empty one. */
static kas_status copy_text(kas_store *store, kas_sql_stmt *stmt, int column, char **out)
{
    const char *text = kas_sql_chars(stmt, column);
    if (text && *text && !(*out = strdup(text)))
        return kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
    return KAS_OK;
}

kas_status kas_work_read_row(kas_store *store, kas_sql_stmt *stmt, kas_work *out)
{
    *out = (kas_work){.id = kas_sql_int(stmt, 0),
                      .index = kas_sql_int(stmt, 2),
                      .attempt = kas_sql_int(stmt, 3),
                      .flops = kas_sql_double(stmt, 6),
                      .params = kas_sql_double(stmt, 7),
                      .conv_flops = kas_sql_double(stmt, 8),
                      .conv_params = kas_sql_double(stmt, 9),
                      .lease = (int)kas_sql_int(stmt, 12),
                      .deaths = (int)kas_sql_int(stmt, 13),
                      .epochs = (int)kas_sql_int(stmt, 14),
                      .started = kas_sql_double(stmt, 15),
                      .ended = kas_sql_double(stmt, 16),
                      .measured = read_measured(stmt, 17, 35, 39),
                      .seed = kas_sql_int(stmt, 25),
                      .generation = (int)kas_sql_int(stmt, 26),
                      .rung = (int)kas_sql_int(stmt, 29),
                      .predicted = kas_sql_double(stmt, 30),
                      .answers = kas_sql_int(stmt, 32) != 0,
                      .processor = kas_sql_double(stmt, 34),
                      .leased = kas_sql_double(stmt, KAS_WORK_ALL_COUNT - 1)};
    const int kind = (int)kas_sql_int(stmt, 1);
    char state[32];
    kas_sql_text(stmt, 10, state, sizeof state);
    if (kind < 0 || kind > KAS_WORK_TURNS || !kas_work_state_parse(state, &out->state))
        return kas_fail(KAS_STORE, "%s: work item %lld: unknown kind %d or state \"%s\"",
                        store->path, (long long)out->id, kind, state);
    out->kind = (kas_work_kind)kind;
    kas_sql_text(stmt, 4, out->name, sizeof out->name);
    kas_sql_text(stmt, 11, out->reason, sizeof out->reason);
    kas_sql_text(stmt, 27, out->origin, sizeof out->origin);
    kas_sql_text(stmt, 28, out->parents, sizeof out->parents);
    KAS_TRY(copy_text(store, stmt, 5, &out->kernel));
    KAS_TRY(copy_text(store, stmt, 31, &out->gains));
    KAS_TRY(copy_text(store, stmt, 33, &out->correct));
    return copy_text(store, stmt, 38, &out->exchange);
}

kas_status kas_store_list(kas_store *store, kas_work **out, int *count)
{
    *out = NULL;
    *count = 0;
    kas_sql_stmt *stmt;
    KAS_TRY(kas_store_identify(store)); /* a newer program may have changed the schema */
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            store->schema < 3    ? KAS_WORK_SELECT_2 " ORDER BY kind, k"
                            : store->schema == 3 ? KAS_WORK_SELECT_3 " ORDER BY kind, k, seed"
                            : store->schema < 6  ? KAS_WORK_SELECT_4 " ORDER BY kind, k, seed"
                            : store->schema < 8  ? KAS_WORK_SELECT_6 " ORDER BY kind, k, seed"
                            : store->schema == 8 ? KAS_WORK_SELECT_8 " ORDER BY kind, k, seed"
                                                 : KAS_WORK_SELECT " ORDER BY kind, k, seed",
                            ""));
    kas_status status = KAS_OK;
    for (bool row = true; status == KAS_OK;) {
        status = kas_sql_step(stmt, &row);
        if (status != KAS_OK || !row)
            break;
        if (!KAS_GROW(*out, *count))
            status = kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
        else
            status = kas_work_read_row(store, stmt, &(*out)[(*count)++]);
    }
    kas_sql_finish(stmt);
    if (status != KAS_OK) {
        kas_work_list_free(*out, *count);
        *out = NULL;
        *count = 0;
    }
    return status;
}

typedef void row_reader(kas_sql_stmt *stmt, void *out);

/* Reads all rows of a statement into a list of `size`-byte elements, and finishes the statement. */
static kas_status read_rows(kas_store *store, kas_sql_stmt *stmt, size_t size, row_reader *read,
                            void **out, int *count)
{
    kas_status status = KAS_OK;
    *out = NULL;
    *count = 0;
    for (bool row = true; status == KAS_OK;) {
        status = kas_sql_step(stmt, &row);
        if (status != KAS_OK || !row)
            break;
        if (kas_grow(out, (size_t)*count, size))
            read(stmt, (char *)*out + size * (size_t)(*count)++);
        else
            status = kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
    }
    kas_sql_finish(stmt);
    if (status != KAS_OK) {
        free(*out);
        *out = NULL;
        *count = 0;
    }
    return status;
}

static void read_epoch(kas_sql_stmt *stmt, void *out)
{
    *(kas_epoch *)out = (kas_epoch){.epoch = (int)kas_sql_int(stmt, 0),
                                    .train_loss = kas_sql_double(stmt, 1),
                                    .train_accuracy = kas_sql_double(stmt, 2),
                                    .validation_loss = kas_sql_double(stmt, 3),
                                    .validation_accuracy = kas_sql_double(stmt, 4),
                                    .seconds = kas_sql_double(stmt, 5)};
}

static kas_status read_epochs(kas_store *store, int64_t id, int from, int to, kas_epoch **out,
                              int *count)
{
    kas_sql_stmt *stmt;
    *out = NULL;
    *count = 0;
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            "SELECT epoch, train_loss, train_accuracy, validation_loss,"
                            " validation_accuracy, seconds FROM epoch"
                            " WHERE work = ? AND epoch BETWEEN ? AND ? ORDER BY epoch",
                            "iii", id, (int64_t)from, (int64_t)to));
    return read_rows(store, stmt, sizeof **out, read_epoch, (void **)out, count);
}

kas_status kas_store_epochs(kas_store *store, int64_t id, kas_epoch **out, int *count)
{
    return read_epochs(store, id, 0, INT_MAX, out, count);
}

kas_status kas_store_imitation(kas_store *store, int64_t id, kas_epoch **out, int *count)
{
    return read_epochs(store, id, KAS_EPOCH_OF_IMITATION, KAS_EPOCH_OF_IMITATION, out, count);
}

static void read_reached(kas_sql_stmt *stmt, void *out)
{
    *(kas_reached *)out = (kas_reached){kas_sql_int(stmt, 0), kas_sql_double(stmt, 1)};
}

kas_status kas_store_reached(kas_store *store, int epoch, kas_reached **out, int *count)
{
    kas_sql_stmt *stmt;
    *out = NULL;
    *count = 0;
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            "SELECT w.id, e.validation_accuracy FROM work w JOIN epoch e"
                            " ON e.work = w.id AND e.epoch = ? WHERE w.kind = ? ORDER BY w.id",
                            "ii", (int64_t)epoch, (int64_t)KAS_WORK_CANDIDATE));
    return read_rows(store, stmt, sizeof **out, read_reached, (void **)out, count);
}

kas_status kas_store_mean_start(kas_store *store, double *seconds)
{
    kas_sql_stmt *stmt;
    bool row;
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            "SELECT avg(ended - started - coalesce((SELECT sum(e.seconds)"
                            " FROM epoch e WHERE e.work = w.id AND e.epoch > 0), 0)) FROM work w"
                            " WHERE lease = 1 AND state IN ('finished', 'pruned')",
                            ""));
    const kas_status status = kas_sql_step(stmt, &row);
    /* The mean of nothing is NaN here. */
    *seconds = status == KAS_OK && row ? fmax(kas_sql_double(stmt, 0), 0) : 0;
    kas_sql_finish(stmt);
    return status;
}
