/* Changes work items: claim, renew, record, finish, release. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/store/owner.h"
#include "host/store/tables.h"
#include "host/store/work_row.h"

static kas_status insert(kas_store *store, const kas_work *work, bool *added)
{
    int changed = 0;
    const bool slow = kas_work_discarded(work->state);
    KAS_TRY(kas_sql_run(
        store, &changed,
        "INSERT INTO work (kind, k, seed, attempt, name, kernel, flops, params,"
        " conv_flops, conv_params, generation, origin, parents, predicted, gains, answers, state,"
        " reason, created, ended)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " kas_now(), ? * kas_now()) ON CONFLICT DO NOTHING",
        "iiiittddddittdtittd", (int64_t)work->kind, work->index, work->seed, work->attempt,
        work->name, work->kernel, work->flops, work->params, work->conv_flops, work->conv_params,
        (int64_t)work->generation, work->origin, work->parents,
        work->predicted > 0 ? work->predicted : NAN, work->gains ? work->gains : "",
        (int64_t)work->answers, kas_work_state_name(slow ? work->state : KAS_WORK_QUEUED),
        slow ? work->reason : "", slow ? 1 : NAN));
    *added = changed == 1;
    return KAS_OK;
}

kas_status kas_store_add(kas_store *store, const kas_work *work, bool *added)
{
    kas_sql_durable(store, true);
    KAS_TRY(insert(store, work, added));
    return *added ? kas_store_tell(store) : KAS_OK;
}

/* On a server each claim has an owner's text of its own: of thousands that run, those of this host are
 * asked for. */
kas_status kas_store_void_leases(kas_store *store)
{
    kas_sql_stmt *stmt;
    bool row = true;
    char gone[KAS_OWNER_SIZE + 16] = "", host[KAS_OWNER_SIZE];
    const double now = kas_monotonic();
    if (store->looked > 0 && now < store->looked + 1)
        return KAS_OK;
    kas_owner_host(host);
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            "SELECT DISTINCT owner FROM work WHERE state = 'running'"
                            " AND substr(owner, 1, length(?)) = ?",
                            "tt", host, host));
    kas_status status = kas_sql_step(stmt, &row);
    while (status == KAS_OK && row && !*gone) {
        const char *owner = kas_sql_chars(stmt, 0);
        if (owner && kas_owner_is_gone(owner))
            snprintf(gone, sizeof gone, "%s", owner);
        status = kas_sql_step(stmt, &row);
    }
    kas_sql_finish(stmt);
    KAS_TRY(status);
    if (!*gone) {
        store->looked = now;
        return KAS_OK;
    }
    KAS_TRY(kas_sql_run(store, NULL,
                        "UPDATE work SET owner = '', lease_until = 0 WHERE owner = ?"
                        " AND state = 'running'",
                        "t", gone));
    return kas_store_void_leases(store); /* there may be more of them */
}

/* The item to be claimed: the first of a kind below a limit, or one by its id. */
typedef struct wanted {
    kas_work_kind kind;
    int64_t limit;
    int64_t id; /* 0: any */
} wanted;

/* On a server an item that another process claims at this moment is passed over. What comes next of
 * an item is a measurement (1: of the baseline and candidates, kinds 0 and 1; in turns, kind 5) or
 * a training (2), of which the last parameter leaves one out. */
#define CLAIM(which, skip)                                                                         \
    "UPDATE work SET state = 'running', lease = lease + 1, owner = ?, lease_until = kas_now() + "  \
    "?,"                                                                                           \
    " started = coalesce(started, kas_now()) WHERE id = (SELECT id FROM work WHERE " which         \
    " AND " KAS_WORK_OPEN " AND (state = 'queued' OR lease_until < kas_now())"                     \
    " AND ? <> CASE WHEN kind = 5 OR (kind < 2 AND latency IS NULL) THEN 1 ELSE 2 END"             \
    " ORDER BY k, seed LIMIT 1" skip ") RETURNING " KAS_WORK_ALL
#define CLAIM_FIRST(skip) CLAIM("kind = ? AND k < ?", skip)
#define CLAIM_ITEM(skip) CLAIM("id = ?", skip)
#define SKIP " FOR UPDATE SKIP LOCKED"

static kas_status start_claim(kas_store *store, const wanted *want, const char *owner,
                              double seconds, kas_sql_stmt **out)
{
    const int64_t left_out = store->role == KAS_TAKES_TRAINING    ? 1
                             : store->role == KAS_TAKES_MEASURING ? 2
                                                                  : 0;
    if (want->id)
        return kas_sql_prepare(store, out, store->server ? CLAIM_ITEM(SKIP) : CLAIM_ITEM(""),
                               "tdii", owner, seconds, want->id, left_out);
    return kas_sql_prepare(store, out, store->server ? CLAIM_FIRST(SKIP) : CLAIM_FIRST(""), "tdiii",
                           owner, seconds, (int64_t)want->kind,
                           want->limit < 0 ? INT64_MAX : want->limit, left_out);
}

/* Each claim on a server has an owner's text of its own. When the connection is lost, it is unknown
 * whether the claim was made, and it is repeated: what was claimed twice goes back to the queue. */
static kas_status claim_once(kas_store *store, const wanted *want, const char *owner,
                             double seconds, kas_work *out, bool *found)
{
    kas_sql_stmt *stmt;
    bool more = true;
    char own[KAS_OWNER_SIZE + 16];
    snprintf(own, sizeof own, store->server ? "%s|%d" : "%s", owner, store->claims++);
    KAS_TRY(start_claim(store, want, own, seconds, &stmt));
    const bool repeated = store->repeated;
    kas_status status = kas_sql_step(stmt, found);
    if (status == KAS_OK && *found)
        status = kas_work_read_row(store, stmt, out);
    if (status == KAS_OK && *found)
        status = kas_sql_step(stmt, &more); /* to its end, where it is committed */
    kas_sql_finish(stmt);
    if (status == KAS_OK && repeated)
        status = kas_sql_run(store, NULL,
                             "UPDATE work SET state = 'queued', owner = '' WHERE owner = ?"
                             " AND id <> ? AND state = 'running'",
                             "ti", own, *found ? out->id : 0);
    return status;
}

static kas_status claim(kas_store *store, const wanted *want, const char *owner, double seconds,
                        kas_work *out, bool *found)
{
    *out = (kas_work){0};
    *found = false;
    /* A power cut that takes the claim of a candidate from a file takes the claimant too. The
     * attempts of other items may have given their names to files. */
    kas_sql_durable(store, want->kind != KAS_WORK_CANDIDATE);
    KAS_TRY(kas_store_void_leases(store));
    const kas_status status = claim_once(store, want, owner, seconds, out, found);
    if (status != KAS_OK) {
        kas_work_clear(out);
        *found = false;
    }
    return status;
}

kas_status kas_store_claim(kas_store *store, kas_work_kind kind, int64_t index_limit,
                           const char *owner, double lease_seconds, kas_work *out, bool *found)
{
    const wanted want = {.kind = kind, .limit = index_limit};
    return claim(store, &want, owner, lease_seconds, out, found);
}

kas_status kas_store_claim_item(kas_store *store, int64_t id, const char *owner,
                                double lease_seconds, kas_work *out, bool *found)
{
    const wanted want = {.id = id};
    return claim(store, &want, owner, lease_seconds, out, found);
}

#define MINE " WHERE id = ? AND lease = ? AND state = 'running'"

/* Finds out whether a report about an item counted. One that was repeated after a lost connection
 * may have counted the first time: nobody else has claimed the item then. */
static kas_status is_held(kas_store *store, int changed, int64_t id, int lease, bool *held)
{
    *held = changed == 1;
    if (*held || !store->repeated)
        return KAS_OK;
    kas_sql_stmt *stmt;
    KAS_TRY(kas_sql_prepare(store, &stmt, "SELECT 1 FROM work WHERE id = ? AND lease = ?", "ii", id,
                            (int64_t)lease));
    const kas_status status = kas_sql_step(stmt, held);
    kas_sql_finish(stmt);
    return status;
}

/* The same, of a report after which others may find something to do. */
static kas_status is_told(kas_store *store, int changed, int64_t id, int lease, bool *held)
{
    KAS_TRY(is_held(store, changed, id, lease, held));
    return *held ? kas_store_tell(store) : KAS_OK;
}

kas_status kas_store_renew(kas_store *store, int64_t id, int lease, double lease_seconds,
                           bool *held)
{
    int changed = 0;
    kas_sql_durable(store, false);
    KAS_TRY(kas_sql_run(store, &changed, "UPDATE work SET lease_until = kas_now() + ?" MINE, "dii",
                        lease_seconds, id, (int64_t)lease));
    return is_held(store, changed, id, lease, held);
}

kas_status kas_store_record_epoch(kas_store *store, int64_t id, int lease, const kas_epoch *epoch,
                                  bool *held)
{
    int changed = 0;
    kas_sql_durable(store, false);
    KAS_TRY(kas_sql_run(store, &changed,
                        "INSERT INTO epoch (work, epoch, train_loss, train_accuracy,"
                        " validation_loss, validation_accuracy, seconds)"
                        " SELECT id, ?, ?, ?, ?, ?, ? FROM work" MINE
                        " ON CONFLICT (work, epoch) DO UPDATE SET train_loss = excluded.train_loss,"
                        " train_accuracy = excluded.train_accuracy,"
                        " validation_loss = excluded.validation_loss,"
                        " validation_accuracy = excluded.validation_accuracy,"
                        " seconds = excluded.seconds",
                        "idddddii", (int64_t)epoch->epoch, epoch->train_loss, epoch->train_accuracy,
                        epoch->validation_loss, epoch->validation_accuracy, epoch->seconds, id,
                        (int64_t)lease));
    return is_held(store, changed, id, lease, held);
}

#define SET_MEASURED                                                                               \
    "accuracy = coalesce(?, accuracy), latency = coalesce(?, latency),"                            \
    " latency_iqr = coalesce(?, latency_iqr), step_seconds = coalesce(?, step_seconds),"           \
    " compile_seconds = coalesce(?, compile_seconds), memory = coalesce(?, memory),"               \
    " output_std_min = coalesce(?, output_std_min),"                                               \
    " output_std_max = coalesce(?, output_std_max), ratio = coalesce(?, ratio),"                   \
    " ratio_low = coalesce(?, ratio_low), ratio_high = coalesce(?, ratio_high),"                   \
    " missed = coalesce(?, missed)"
#define MEASURED_TYPES "dddddddddddd"
#define MEASURED(m)                                                                                \
    (m)->accuracy, (m)->latency, (m)->latency_iqr, (m)->step_seconds, (m)->compile_seconds,        \
        (m)->memory, (m)->output_std_min, (m)->output_std_max, (m)->ratio, (m)->ratio_low,         \
        (m)->ratio_high, (m)->missed

kas_status kas_store_record_measured(kas_store *store, int64_t id, int lease,
                                     const kas_measured *measured, bool *held)
{
    int changed = 0;
    kas_sql_durable(store, true);
    KAS_TRY(kas_sql_run(store, &changed, "UPDATE work SET " SET_MEASURED MINE, MEASURED_TYPES "ii",
                        MEASURED(measured), id, (int64_t)lease));
    return is_held(store, changed, id, lease, held);
}

/* `sql` sets a column to a text. */
static kas_status record_text(kas_store *store, const char *sql, const char *text, int64_t id,
                              int lease, bool *held)
{
    int changed = 0;
    kas_sql_durable(store, true);
    KAS_TRY(kas_sql_run(store, &changed, sql, "tii", text, id, (int64_t)lease));
    return is_held(store, changed, id, lease, held);
}

kas_status kas_store_record_gains(kas_store *store, int64_t id, int lease, const char *gains,
                                  bool *held)
{
    return record_text(store, "UPDATE work SET gains = ?" MINE, gains, id, lease, held);
}

kas_status kas_store_record_correct(kas_store *store, int64_t id, int lease, const char *correct,
                                    bool *held)
{
    return record_text(store, "UPDATE work SET correct = ?" MINE, correct, id, lease, held);
}

kas_status kas_store_record_exchange(kas_store *store, int64_t id, int lease, const char *exchange,
                                     bool *held)
{
    return record_text(store, "UPDATE work SET exchange = ?" MINE, exchange, id, lease, held);
}

kas_status kas_store_add_elapsed(kas_store *store, int64_t id, int lease, kas_elapsed effort,
                                 bool *held)
{
    int changed = 0;
    kas_sql_durable(store, true);
    KAS_TRY(kas_sql_run(store, &changed,
                        "UPDATE work SET"
                        " processor = coalesce(coalesce(processor, 0) + ?, processor),"
                        " leased = coalesce(coalesce(leased, 0) + ?, leased)" MINE,
                        "ddii", effort.processor, effort.wall, id, (int64_t)lease));
    return is_held(store, changed, id, lease, held);
}

kas_status kas_store_pause(kas_store *store, int64_t id, int lease, const kas_measured *measured,
                           bool *held)
{
    int changed = 0;
    kas_sql_durable(store, true);
    KAS_TRY(kas_sql_run(store, &changed,
                        "UPDATE work SET state = 'waiting', owner = ''," SET_MEASURED MINE,
                        MEASURED_TYPES "ii", MEASURED(measured), id, (int64_t)lease));
    return is_told(store, changed, id, lease, held);
}

static kas_status settle(kas_store *store, const kas_settled *list, int count)
{
    for (int i = 0; i < count; i++) {
        const kas_settled *one = &list[i];
        const bool up = one->promoted;
        KAS_TRY(kas_sql_run(
            store, NULL,
            "UPDATE work SET state = ?, rung = rung + ?, reason = ?, ended = ? * kas_now()"
            " WHERE id = ? AND rung = ? AND state = 'waiting'",
            "titdii", up ? "queued" : "not-promoted", (int64_t)up,
            up || !one->reason ? "" : one->reason, up ? NAN : 1, one->id, (int64_t)one->rung));
    }
    return KAS_OK;
}

kas_status kas_store_settle(kas_store *store, const kas_settled *list, int count)
{
    kas_sql_durable(store, true);
    kas_status status;
    KAS_SQL_TRANSACTION(store, status, settle(store, list, count));
    return status == KAS_OK ? kas_store_tell(store) : status;
}

kas_status kas_store_finish(kas_store *store, int64_t id, int lease, kas_work_state state,
                            const char *reason, const kas_measured *measured, bool *held)
{
    if (!kas_work_ended(state))
        return kas_fail(KAS_FAILURE, "work item %lld: \"%s\" is not a final state", (long long)id,
                        kas_work_state_name(state));
    int changed = 0;
    kas_sql_durable(store, true);
    KAS_TRY(kas_sql_run(
        store, &changed,
        "UPDATE work SET state = ?, reason = ?, ended = kas_now(), owner = ''," SET_MEASURED MINE,
        "tt" MEASURED_TYPES "ii", kas_work_state_name(state), reason ? reason : "",
        MEASURED(measured), id, (int64_t)lease));
    return is_told(store, changed, id, lease, held);
}

kas_status kas_store_release(kas_store *store, int64_t id, int lease, bool failed, bool *held)
{
    int changed = 0;
    kas_sql_durable(store, true);
    KAS_TRY(kas_sql_run(store, &changed,
                        "UPDATE work SET state = 'queued', owner = '', deaths = deaths + ?" MINE,
                        "iii", (int64_t)failed, id, (int64_t)lease));
    return is_told(store, changed, id, lease, held);
}

kas_status kas_store_clear_faults(kas_store *store)
{
    kas_sql_durable(store, true);
    KAS_TRY(kas_store_void_leases(store));
    return kas_sql_run(store, NULL,
                       "UPDATE work SET deaths = 0 WHERE deaths <> 0 AND (state IN ('queued',"
                       " 'waiting') OR (state = 'running' AND lease_until < kas_now()))",
                       "");
}

static kas_status requeue(kas_store *store, const kas_work *work)
{
    int changed = 0;
    KAS_TRY(kas_sql_run(store, NULL,
                        "DELETE FROM epoch WHERE epoch >= 0 AND work IN"
                        " (SELECT id FROM work WHERE id = ? AND state != 'running')",
                        "i", work->id));
    KAS_TRY(kas_sql_run(store, &changed,
                        "UPDATE work SET state = 'queued', reason = '', owner = '', deaths = 0,"
                        " started = NULL, ended = NULL WHERE id = ? AND state != 'running'",
                        "i", work->id));
    return changed && work->kind == KAS_WORK_CANDIDATE ? kas_store_retire_finals(store) : KAS_OK;
}

kas_status kas_store_requeue(kas_store *store, const kas_work *work)
{
    kas_sql_durable(store, true);
    kas_status status;
    KAS_SQL_TRANSACTION(store, status, requeue(store, work));
    return status == KAS_OK ? kas_store_tell(store) : status;
}

/* ---- final trainings ------------------------------------------------------------------------- */

/* Returns whether best/ has the weights of candidate `index`: those of the last answer. */
static kas_status has_best_weights(kas_store *store, int64_t index, bool *has)
{
    kas_sql_stmt *stmt;
    bool row;
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            "SELECT k FROM work WHERE kind = ? AND answers <> 0 AND seed = 0"
                            " AND ended IS NOT NULL ORDER BY ended DESC LIMIT 1",
                            "i", (int64_t)KAS_WORK_EARLIER_FINAL));
    const kas_status status = kas_sql_step(stmt, &row);
    *has = status == KAS_OK && row && kas_sql_int(stmt, 0) == index;
    kas_sql_finish(stmt);
    return status;
}

static kas_status find_earlier(kas_store *store, const kas_work *work, int64_t *id)
{
    kas_sql_stmt *stmt;
    bool row;
    KAS_TRY(kas_sql_prepare(store, &stmt,
                            "SELECT id FROM work WHERE kind = ? AND k = ? AND seed = ?", "iii",
                            (int64_t)KAS_WORK_EARLIER_FINAL, work->index, work->seed));
    const kas_status status = kas_sql_step(stmt, &row);
    *id = status == KAS_OK && row ? kas_sql_int(stmt, 0) : 0;
    kas_sql_finish(stmt);
    return status;
}

static kas_status add_final(kas_store *store, const kas_work *work, bool has_weights)
{
    bool added;
    int64_t id = 0;
    if (work->kind == KAS_WORK_FINAL)
        KAS_TRY(find_earlier(store, work, &id));
    if (!id)
        return insert(store, work, &added);
    KAS_TRY(kas_sql_run(store, NULL, "UPDATE work SET kind = ?, answers = ? WHERE id = ?", "iii",
                        (int64_t)KAS_WORK_FINAL, (int64_t)work->answers, id));
    const kas_work again = {.id = id, .kind = KAS_WORK_FINAL};
    return work->answers && work->seed == 0 && !has_weights ? requeue(store, &again) : KAS_OK;
}

static kas_status add_finals(kas_store *store, const char *options_digest, const kas_work *list,
                             int count, bool *added)
{
    bool has_weights = false;
    kas_study study;
    KAS_TRY(kas_store_get_study(store, &study));
    *added = strcmp(study.options_digest, options_digest) == 0;
    kas_study_clear(&study);
    if (!*added)
        return KAS_OK;
    for (int i = 0; i < count; i++) /* before the first of them is restored */
        if (list[i].answers && list[i].seed == 0)
            KAS_TRY(has_best_weights(store, list[i].index, &has_weights));
    for (int i = 0; i < count; i++)
        KAS_TRY(add_final(store, &list[i], has_weights));
    return KAS_OK;
}

kas_status kas_store_add_finals(kas_store *store, const char *options_digest, const kas_work *list,
                                int count, bool *added)
{
    kas_sql_durable(store, true);
    kas_status status;
    KAS_SQL_TRANSACTION(store, status, add_finals(store, options_digest, list, count, added));
    return status == KAS_OK && *added ? kas_store_tell(store) : status;
}
