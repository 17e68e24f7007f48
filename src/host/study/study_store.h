/* Where the store of a study is: in its folder (STUDY/study.db), or in a PostgreSQL database.
 *
 * Of a study in a database the folder has STUDY/store.json, written when the study begins and never
 * changed but by `store export` and `store import`:
 *
 *     store   how to reach the database: "@/path/of/url", a URL without a password, or "" for what
 *             KAS_STORE says
 *     study   the study's name there: the last part of the folder's path
 *     id      a random text that the database has too, so that a folder of the same name is not
 *             taken for this one
 *
 * Everything else of a study stays in the folder, which all supervisors of the study must see. */
#ifndef KAS_STUDY_STUDY_STORE_H
#define KAS_STUDY_STUDY_STORE_H

#include "host/store/store.h"

/* Opens the store of a study. Fails as kas_store_open and kas_store_open_server do. */
kas_status kas_study_open(const char *study, kas_store_mode mode, kas_store **out);
/* Returns whether the folder is that of a study. */
bool kas_study_exists(const char *study);

/* Opens the store of a study that may begin now: `given` is "@FILE" or a URL without a password, as
 * --store has it, or NULL: KAS_STORE, if it is set and the study has not begun in a file, else a
 * file. The folder must exist. A study that has begun elsewhere is refused. */
kas_status kas_study_begin_store(const char *study, const char *given, kas_store **out);

/* Move a study that nobody works on: into a database, and back into a file. What is moved stays whole
 * wherever a move is interrupted, and the same command goes on with it. */
kas_status kas_study_import(const char *study, const char *given);
kas_status kas_study_export(const char *study);

#endif
