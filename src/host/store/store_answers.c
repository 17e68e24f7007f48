/* What a program answered when it was asked for proposals. The table is made by the first answer,
 * so most files do not have it; a server has it from the start. */
#include <stdlib.h>
#include <string.h>

#include "host/store/sql.h"
#include "host/store/tables.h"

static kas_status has_table(kas_store *store, bool *has)
{
    *has = store->server;
    return *has ? KAS_OK
                : kas_sql_has_row(store,
                                  "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name ="
                                  " 'answer'",
                                  has);
}

void kas_answer_clear(kas_answer *answer)
{
    free(answer->text);
    free(answer->fault);
    *answer = (kas_answer){0};
}

kas_status kas_store_make_answers(kas_store *store)
{
    return store->server ? KAS_OK
                         : kas_sql_run(store, NULL, KAS_ANSWER_TABLE("INTEGER", "REAL"), "");
}

static kas_status record(kas_store *store, int generation, int64_t first, const kas_answer *answer)
{
    KAS_TRY(kas_store_make_answers(store));
    return kas_sql_run(store, NULL,
                       "INSERT INTO answer (generation, text, fault, asked)"
                       " SELECT ?, ?, ?, kas_now() WHERE NOT EXISTS"
                       " (SELECT 1 FROM work WHERE kind = ? AND k >= ?) ON CONFLICT DO NOTHING",
                       "ittii", (int64_t)generation, answer->text, answer->fault,
                       (int64_t)KAS_WORK_CANDIDATE, first);
}

kas_status kas_store_record_answer(kas_store *store, int generation, int64_t first,
                                   const kas_answer *answer)
{
    kas_sql_durable(store, true);
    kas_status status;
    KAS_SQL_TRANSACTION(store, status, record(store, generation, first, answer));
    return status;
}

static kas_status copy(kas_store *store, kas_sql_stmt *stmt, int column, char **out)
{
    const char *text = kas_sql_chars(stmt, column);
    *out = strdup(text ? text : "");
    return *out ? KAS_OK : kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
}

kas_status kas_store_find_answer(kas_store *store, int generation, kas_answer *out)
{
    kas_sql_stmt *stmt;
    bool row;
    *out = (kas_answer){0};
    KAS_TRY(has_table(store, &row));
    if (!row)
        return KAS_OK;
    KAS_TRY(kas_sql_prepare(store, &stmt, "SELECT text, fault FROM answer WHERE generation = ?",
                            "i", (int64_t)generation));
    kas_status status = kas_sql_step(stmt, &row);
    if (status == KAS_OK && row)
        status = copy(store, stmt, 0, &out->text);
    if (status == KAS_OK && row)
        status = copy(store, stmt, 1, &out->fault);
    kas_sql_finish(stmt);
    return status;
}

kas_status kas_store_has_answers(kas_store *store, bool *has)
{
    KAS_TRY(has_table(store, has));
    return *has ? kas_sql_has_row(store, "SELECT 1 FROM answer", has) : KAS_OK;
}
