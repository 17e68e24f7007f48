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
 * The store has the options, the kernels with their gains, and everything that was measured. The
 * folder has the files: weights to begin with and trained ones, checkpoints, logs, plans. All
 * supervisors that train must see one folder; one that only measures needs none of it. */
#ifndef KAS_STUDY_STUDY_STORE_H
#define KAS_STUDY_STUDY_STORE_H

#include "host/store/store.h"
#include "host/study/study_dir.h"

/* Opens the store of a study. Fails as kas_store_open and kas_store_open_server do; where the
 * folder has none, KAS_STORE says what it is. */
kas_status kas_study_open(const char *study, kas_store_mode mode, kas_store **out);
/* Returns whether the folder is that of a study. */
bool kas_study_exists(const char *study);
/* Writes what a path is that is easily taken for a study: a file, or a folder that a search has made
 * and that is none, that of --shrink, whose rounds are studies, or of --no-training. "" for
 * others. */
enum { KAS_STUDY_OTHER = 256 };
void kas_study_describe_other(const char *folder, char out[KAS_STUDY_OTHER]);

/* Opens the store of a study that may begin now: `given` is "@FILE" or a URL without a password, as
 * --store has it, or NULL: KAS_STORE, if it is set and the study has not begun in a file, else a
 * file. The folder must exist. A study that has begun elsewhere is refused. */
kas_status kas_study_begin_store(const char *study, const char *given, kas_store **out);
/* Fails where that would fail, or the study's folder could not be made, as far as can be known
 * without making anything and without asking the database. */
kas_status kas_study_check_begin(const char *study, const char *given);

/* Opens the store of a study for a supervisor that proposes nothing, on any machine. `study` is its
 * folder, or its name in the database of `given` (as above); "" = the only study there. `folder`
 * gets the folder; *here says whether this machine sees it. */
kas_status kas_study_join(const char *given, const char *study, kas_store **out,
                          char folder[KAS_STUDY_PATH], bool *here);

/* Move a study that nobody works on: into a database, and back into a file. What is moved stays
 * whole wherever a move is interrupted, and the same command goes on with it. */
kas_status kas_study_import(const char *study, const char *given);
kas_status kas_study_export(const char *study);

#endif
