/* Inside the store only: a row of table `work` as a kas_work. */
#ifndef KAS_STORE_WORK_ROW_H
#define KAS_STORE_WORK_ROW_H

#include "host/store/sql.h"

/* The columns in the order that kas_work_read_row expects. */
#define KAS_WORK_SELECT                                                                            \
    "SELECT id, kind, k, attempt, name, kernel, flops, params, conv_flops, conv_params, state,"    \
    " reason, lease, deaths, (SELECT count(*) FROM epoch WHERE epoch.work = work.id), created,"    \
    " started, ended, accuracy, latency, latency_iqr, step_seconds, compile_seconds, memory,"      \
    " output_std_min, output_std_max FROM work"

/* kas_work_clear frees *out. */
kas_status kas_work_read_row(kas_store *store, sqlite3_stmt *stmt, kas_work *out);

#endif
