/* The files in the folder of a study.
 *
 *     STUDY/study.db                 the store
 *     STUDY/from.json, ancestors.json, machine.json   what the study began with
 *     STUDY/kernels/NAME.json        every kernel that finished
 *     STUDY/logs/0007.log            what happened to candidate 7; baseline.log, ... (item's name)
 *     STUDY/checkpoints/0007.ckpt    of running items; deleted when the item ends
 *     STUDY/weights/NAME.safetensors of the candidates on the frontier (keep_weights.c)
 *     STUDY/init.safetensors         the weights that every training starts from, with --init
 *     STUDY/plans/??/*.plan          how the GPU's libraries run each convolution (cuda/tuning.h)
 *     STUDY/schedules/??/*.schedule  how tuned launches run (jit/tuned.h), with --tune
 *     STUDY/best/kernel.json         the answer, with the sizes it has at every target
 *     STUDY/best/weights.safetensors of its first final training
 *     STUDY/best/model.json          network, input, recipe, scores: what `export` needs
 *     STUDY/baseline/weights.safetensors
 *     STUDY/baseline/search.safetensors   of its training in the search, with --warm-start */
#ifndef KAS_STUDY_STUDY_DIR_H
#define KAS_STUDY_STUDY_DIR_H

#include "host/store/store.h"

enum { KAS_STUDY_PATH = 4096, KAS_ITEM_NAME = 64 };
#define KAS_STUDY_INIT "init.safetensors"
#define KAS_STUDY_FROM "from.json"
#define KAS_STUDY_NETWORK "network.json"
/* What a search without training leaves in a folder that is no study (cli/untrained). */
#define KAS_STUDY_UNTRAINED "untrained.jsonl"

/* Creates the folder and its subfolders. */
kas_status kas_study_dir_make(const char *study);
/* Removes the folders where they are empty: a study could not begin in them. */
void kas_study_dir_remove_empty(const char *study);
/* Writes the path STUDY/relative to `out`. Fails with KAS_BAD_INPUT when it is too long. */
kas_status kas_study_path(const char *study, const char *relative, char out[KAS_STUDY_PATH]);
/* Returns whether an item is a candidate that goes by `text`: its number, or the beginning of its
 * kernel's name. */
bool kas_study_is_candidate(const kas_work *work, const char *text);
/* Writes the name of an item in logs, messages and `kas-gpu log`: "0007" (candidate 7), "baseline",
 * "final-0007-seed1", "final-baseline", "turns-0007". */
void kas_study_item_name(const kas_work *work, char out[KAS_ITEM_NAME]);
kas_status kas_study_log_path(const char *study, const kas_work *work, char out[KAS_STUDY_PATH]);
kas_status kas_study_checkpoint_path(const char *study, const kas_work *work,
                                     char out[KAS_STUDY_PATH]);
/* Writes the path of an item's final weights; "" for items that keep none. Of final trainings those
 * of the answer and of the unmodified network by seed 0 are kept. */
kas_status kas_study_weights_path(const char *study, const kas_work *work,
                                  char out[KAS_STUDY_PATH]);

/* Writes the path of the weights with which imitation lets a candidate begin: that of its
 * checkpoint with ".start" behind it. `out` has KAS_STUDY_PATH bytes; a longer path is cut off. */
void kas_study_start_path(const char *checkpoint, char out[KAS_STUDY_PATH]);

/* Deletes the checkpoint of an item that ended, and the weights of imitation, if they are there. */
void kas_study_drop_checkpoint(const char *study, const kas_work *work);
/* Deletes the oldest checkpoints until the rest has at most `limit` bytes, but never one whose path
 * is in `keep` (NULL-terminated), nor the weights of imitation beside it. An item without its checkpoint begins again. *dropped gets the
 * number of deleted files. */
kas_status kas_study_trim_checkpoints(const char *study, uint64_t limit, const char *const *keep,
                                      int *dropped);

#endif
