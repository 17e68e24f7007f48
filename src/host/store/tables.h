/* The tables of a study, for both backends, which have different words for types. Files and servers
 * that earlier versions have converted have the same columns in the same order. Internal to the
 * store. */
#ifndef KAS_STORE_TABLES_H
#define KAS_STORE_TABLES_H

/* Of an item that can be claimed, now or when its lease has ended: SQLite finds the index of them
 * by these very words. */
#define KAS_WORK_OPEN "state IN ('queued', 'running')"

#define KAS_STUDY_TABLE(integer, real)                                                             \
    "CREATE TABLE study (id INTEGER PRIMARY KEY CHECK (id = 1), options TEXT NOT NULL,"            \
    " options_digest TEXT NOT NULL, dataset_digest TEXT NOT NULL, dataset_path TEXT NOT NULL,"     \
    " sampler_version " integer " NOT NULL, seed " integer " NOT NULL, created " real              \
    " NOT NULL, busy_seconds " real                                                                \
    " NOT NULL DEFAULT 0, device TEXT NOT NULL DEFAULT '', code_version TEXT NOT NULL DEFAULT ''," \
    " drawing_seconds " real " NOT NULL DEFAULT 0)"

#define KAS_WORK_TABLE(id, integer, real)                                                          \
    "CREATE TABLE work (id " id ", kind " integer " NOT NULL, k " integer " NOT NULL,"             \
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
    ", ratio_low " real ", ratio_high " real ", changed BIGINT NOT NULL DEFAULT 0,"                \
    " exchange TEXT NOT NULL DEFAULT '', missed DOUBLE PRECISION, leased DOUBLE PRECISION, "       \
    "UNIQUE (kind, k, seed))"

#define KAS_EPOCH_TABLE(integer, real, reference)                                                  \
    "CREATE TABLE epoch (work " integer " NOT NULL" reference ", epoch " integer                   \
    " NOT NULL, train_loss " real ", train_accuracy " real ", validation_loss " real               \
    ", validation_accuracy " real ", seconds " real ", PRIMARY KEY (work, epoch))"

#define KAS_ANSWER_TABLE(integer, real)                                                            \
    "CREATE TABLE IF NOT EXISTS answer (generation " integer                                       \
    " PRIMARY KEY, text TEXT NOT NULL, fault TEXT NOT NULL, asked " real " NOT NULL)"

/* Which items have changed since a reader looked last (store_refresh.c); who holds leases, among many
 * items that are queued. */
#define KAS_CHANGES_TABLE                                                                          \
    "CREATE TABLE changes (number BIGINT NOT NULL, removed BIGINT NOT NULL)",                      \
        "INSERT INTO changes VALUES (0, 0)", "CREATE INDEX work_changed ON work (changed)",        \
        "CREATE INDEX work_running ON work (owner) WHERE state = 'running'"
#define KAS_REMOVED "UPDATE changes SET removed = removed + 1;"
/* What raises an item's number: everything but renewals, which no reader asks for. */
#define KAS_IS_CHANGE                                                                              \
    " WHEN (NEW.changed = OLD.changed"                                                             \
    " AND (NEW.lease <> OLD.lease OR NEW.lease_until = OLD.lease_until))"

#endif
