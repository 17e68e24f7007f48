/* Publishes the results of a study: STUDY/best/kernel.json and STUDY/best/model.json, and the files
 * of STUDY/kernels that are missing.
 *
 * model.json holds everything that is needed to build the network around the kernel again: the
 * network's name, input and classes, which convolutions were replaced, the budgets, which determine
 * the sizes, the recipe, and the scores. `export` reads it. */
#ifndef KAS_LEADERBOARD_PUBLISH_H
#define KAS_LEADERBOARD_PUBLISH_H

#include "host/study/problem.h"

/* Writes the file of a candidate's kernel, with its gains. */
kas_status kas_publish_kernel(const kas_work *work, const char *path);
/* Appends the text of that file. */
kas_status kas_publish_kernel_text(const kas_work *work, kas_buf *out);

/* Writes these files; of a study that wants no finalists those of kernels alone. Fails with
 * KAS_STORE when the final trainings are missing. */
kas_status kas_publish_best(const char *study, kas_store *store, const kas_search_options *options,
                            const char *dataset, const kas_problem *problem);
/* Deletes best/model.json and best/kernel.json unless they are of `kernel`, whose final training is
 * about to replace the weights beside them. Fails with KAS_FAILURE when they cannot be deleted. */
kas_status kas_publish_withdraw(const char *study, const char *kernel);

#endif
