/* What a program answered when it was asked for proposals. The table is made by the first answer,
 * so most studies do not have it. */
#include <stdlib.h>
#include <string.h>

#include "host/store/sql.h"

static const char table[] =
    "CREATE TABLE IF NOT EXISTS answer (generation INTEGER PRIMARY KEY, text TEXT NOT NULL,"
    " fault TEXT NOT NULL, asked REAL NOT NULL)";

/* Returns whether a query has a row. */
static kas_status has_row(kas_store *store, const char *sql, bool *row)
{
    sqlite3_stmt *stmt;
    KAS_TRY(kas_sql_prepare(store, &stmt, sql, ""));
    const kas_status status = kas_sql_step(store, stmt, row);
    sqlite3_finalize(stmt);
    return status;
}

static kas_status has_table(kas_store *store, bool *has)
{
    return has_row(store, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'answer'",
                   has);
}

void kas_answer_clear(kas_answer *answer)
{
    free(answer->text);
    free(answer->fault);
    *answer = (kas_answer){0};
}

static kas_status record(kas_store *store, int generation, int64_t first, const kas_answer *answer)
{
    KAS_TRY(kas_sql_run(store, NULL, table, ""));
    return kas_sql_run(store, NULL,
                       "INSERT OR IGNORE INTO answer (generation, text, fault, asked)"
                       " SELECT ?, ?, ?, ? WHERE NOT EXISTS"
                       " (SELECT 1 FROM work WHERE kind = ? AND k >= ?)",
                       "ittdii", (int64_t)generation, answer->text, answer->fault, kas_store_now(),
                       (int64_t)KAS_WORK_CANDIDATE, first);
}

kas_status kas_store_record_answer(kas_store *store, int generation, int64_t first,
                                   const kas_answer *answer)
{
    KAS_TRY(kas_sql_durable(store, true));
    KAS_TRY(kas_sql_begin(store));
    return kas_sql_end(store, record(store, generation, first, answer));
}

static kas_status copy(kas_store *store, sqlite3_stmt *stmt, int column, char **out)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);
    *out = strdup(text ? (const char *)text : "");
    return *out ? KAS_OK : kas_fail(KAS_NO_MEMORY, "%s: out of memory", store->path);
}

kas_status kas_store_find_answer(kas_store *store, int generation, kas_answer *out)
{
    sqlite3_stmt *stmt;
    bool row;
    *out = (kas_answer){0};
    KAS_TRY(has_table(store, &row));
    if (!row)
        return KAS_OK;
    KAS_TRY(kas_sql_prepare(store, &stmt, "SELECT text, fault FROM answer WHERE generation = ?",
                            "i", (int64_t)generation));
    kas_status status = kas_sql_step(store, stmt, &row);
    if (status == KAS_OK && row)
        status = copy(store, stmt, 0, &out->text);
    if (status == KAS_OK && row)
        status = copy(store, stmt, 1, &out->fault);
    sqlite3_finalize(stmt);
    return status;
}

kas_status kas_store_has_answers(kas_store *store, bool *has)
{
    KAS_TRY(has_table(store, has));
    return *has ? has_row(store, "SELECT 1 FROM answer", has) : KAS_OK;
}
