/* The tables of a study as of schema 4, for both backends, which have different words for types.
 * What came later is in store_schema.c. Internal to the store. */
#ifndef KAS_STORE_TABLES_H
#define KAS_STORE_TABLES_H

/* Of an item that can be claimed, now or when its lease has ended: SQLite finds the index of them
 * by these very words. */
#define KAS_WORK_OPEN "state IN ('queued', 'running')"

#define KAS_CODE_VERSION_COLUMN " code_version TEXT NOT NULL DEFAULT ''"

#define KAS_STUDY_TABLE(integer, real)                                                             \
    "CREATE TABLE study (id INTEGER PRIMARY KEY CHECK (id = 1), options TEXT NOT NULL,"            \
    " options_digest TEXT NOT NULL, dataset_digest TEXT NOT NULL, dataset_path TEXT NOT NULL,"     \
    " sampler_version " integer " NOT NULL, seed " integer " NOT NULL, created " real              \
    " NOT NULL, busy_seconds " real                                                                \
    " NOT NULL DEFAULT 0, device TEXT NOT NULL DEFAULT ''," KAS_CODE_VERSION_COLUMN ")"

#define KAS_WORK_TABLE(name, id, integer, real)                                                    \
    "CREATE TABLE " name " (id " id ", kind " integer " NOT NULL, k " integer " NOT NULL,"         \
    " attempt " integer " NOT NULL, name TEXT NOT NULL, kernel TEXT, flops " real ", params " real \
    ", conv_flops " real ", conv_params " real                                                     \
    ", state TEXT NOT NULL DEFAULT 'queued', reason TEXT NOT NULL DEFAULT '', lease " integer      \
    " NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '', lease_until " real                       \
    " NOT NULL DEFAULT 0, deaths " integer " NOT NULL DEFAULT 0, created " real                    \
    " NOT NULL, started " real ", ended " real ", accuracy " real ", latency " real                \
    ", latency_iqr " real ", step_seconds " real ", compile_seconds " real ", memory " real        \
    ", output_std_min " real ", output_std_max " real ", seed " integer                            \
    " NOT NULL DEFAULT 0, generation " integer " NOT NULL DEFAULT 0,"                              \
    " origin TEXT NOT NULL DEFAULT '', parents TEXT NOT NULL DEFAULT '', rung " integer            \
    " NOT NULL DEFAULT 0, predicted " real ", gains TEXT NOT NULL DEFAULT '', answers " integer    \
    " NOT NULL DEFAULT 0, correct TEXT NOT NULL DEFAULT '', processor " real ", ratio " real       \
    ", ratio_low " real ", ratio_high " real ", UNIQUE (kind, k, seed))"

#define KAS_EPOCH_TABLE(name, integer, real, reference)                                            \
    "CREATE TABLE " name " (work " integer " NOT NULL" reference ", epoch " integer                \
    " NOT NULL, train_loss " real ", train_accuracy " real ", validation_loss " real               \
    ", validation_accuracy " real ", seconds " real ", PRIMARY KEY (work, epoch))"

#define KAS_ANSWER_TABLE(integer, real)                                                            \
    "CREATE TABLE IF NOT EXISTS answer (generation " integer                                       \
    " PRIMARY KEY, text TEXT NOT NULL, fault TEXT NOT NULL, asked " real " NOT NULL)"

#endif
