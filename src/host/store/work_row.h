/* Reads a row of the table `work` as a kas_work. Internal to the store. */
#ifndef KAS_STORE_WORK_ROW_H
#define KAS_STORE_WORK_ROW_H

#include "host/store/sql.h"

/* Select the columns in the order that kas_work_read_row expects: from a file of the present
 * schema, and from those of older ones, with what their rows mean in the present one. */
#define KAS_WORK_ALL                                                                               \
    KAS_WORK_COLUMNS KAS_WORK_COLUMNS_3 KAS_WORK_COLUMNS_4 ", exchange, missed, leased"
enum { KAS_WORK_ALL_COUNT = 41 };
#define KAS_WORK_SELECT "SELECT " KAS_WORK_ALL " FROM work"
#define KAS_WORK_SELECT_8                                                                          \
    "SELECT " KAS_WORK_COLUMNS KAS_WORK_COLUMNS_3 KAS_WORK_COLUMNS_4                               \
    ", exchange, missed, NULL FROM work"
#define KAS_WORK_SELECT_6                                                                          \
    "SELECT " KAS_WORK_COLUMNS KAS_WORK_COLUMNS_3 KAS_WORK_COLUMNS_4                               \
    ", exchange, NULL, NULL FROM work"
#define KAS_WORK_SELECT_4                                                                          \
    "SELECT " KAS_WORK_COLUMNS KAS_WORK_COLUMNS_3 KAS_WORK_COLUMNS_4 ", '', NULL, NULL FROM work"
#define KAS_WORK_SELECT_3                                                                          \
    "SELECT " KAS_WORK_COLUMNS KAS_WORK_COLUMNS_3                                                  \
    ", NULL, NULL, NULL, NULL, '', NULL, NULL FROM work"
#define KAS_WORK_SELECT_2                                                                          \
    "SELECT " KAS_WORK_COLUMNS ", 0, 0, '', '', 0, NULL, '', kind IN (2, 4), '', NULL, NULL, "     \
    "NULL, NULL, '', NULL, NULL FROM work"
#define KAS_WORK_COLUMNS_4 ", processor, ratio, ratio_low, ratio_high"
#define KAS_WORK_COLUMNS_3                                                                         \
    ", seed, generation, origin, parents, rung, predicted, gains, answers, correct"
#define KAS_WORK_COLUMNS                                                                           \
    "id, kind, k, attempt, name, kernel, flops, params, conv_flops, conv_params, state,"           \
    " reason, lease, deaths, (SELECT count(*) FROM epoch WHERE epoch.work = work.id"               \
    " AND epoch.epoch >= 0), started,"                                                             \
    " ended, accuracy, latency, latency_iqr, step_seconds, compile_seconds, memory,"               \
    " output_std_min, output_std_max"

/* Reads the current row of `stmt`. The caller frees *out with kas_work_clear. */
kas_status kas_work_read_row(kas_store *store, kas_sql_stmt *stmt, kas_work *out);

#endif
