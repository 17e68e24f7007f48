/* The folder of a study.
 *
 *     STUDY/study.db                 the store
 *     STUDY/kernels/NAME.json        every kernel that finished
 *     STUDY/logs/0007.log            what happened to candidate 7; baseline.log, final.log, ...
 *     STUDY/checkpoints/0007.ckpt    of items under way; deleted when the item ends
 *     STUDY/weights/NAME.safetensors of the candidates on the frontier (keep_weights.c)
 *     STUDY/init.safetensors         the weights that every training starts from, with --init
 *     STUDY/plans/??/*.plan          how the GPU's libraries run each convolution (cuda/tuning.h)
 *     STUDY/best/kernel.json         the winner, with the sizes it has at every target
 *     STUDY/best/weights.safetensors of the final training
 *     STUDY/best/model.json          network, input, recipe, scores: what `export` needs
 *     STUDY/baseline/weights.safetensors
 */
#ifndef KAS_STUDY_STUDY_DIR_H
#define KAS_STUDY_STUDY_DIR_H

#include "host/store/store.h"

enum { KAS_STUDY_PATH = 4096 };
#define KAS_STUDY_INIT "init.safetensors"

/* Makes the folder and those below it. */
kas_status kas_study_dir_make(const char *study);
/* STUDY/relative. KAS_BAD_INPUT when that is too long. */
kas_status kas_study_path(const char *study, const char *relative, char out[KAS_STUDY_PATH]);
kas_status kas_study_log_path(const char *study, const kas_work *work, char out[KAS_STUDY_PATH]);
kas_status kas_study_checkpoint_path(const char *study, const kas_work *work,
                                     char out[KAS_STUDY_PATH]);
/* Where the final weights go; "" for kinds that keep none. */
kas_status kas_study_weights_path(const char *study, const kas_work *work,
                                  char out[KAS_STUDY_PATH]);

/* Deletes the checkpoint of an item that ended; missing is fine. */
void kas_study_drop_checkpoint(const char *study, const kas_work *work);
/* Keeps the checkpoints within `limit` bytes: the oldest go first, never those whose path is in
 * `keep` (NULL-terminated). An item without its checkpoint begins again. *dropped counts. */
kas_status kas_study_trim_checkpoints(const char *study, uint64_t limit, const char *const *keep,
                                      int *dropped);

#endif
