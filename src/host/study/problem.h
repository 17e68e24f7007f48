/* The problem that a study searches on: a data set, a network and its targets.
 *
 * The supervisor builds it to sample candidates, and every worker builds it to evaluate them.  The
 * same options and the same data give the same problem. */
#ifndef KAS_STUDY_PROBLEM_H
#define KAS_STUDY_PROBLEM_H

#include "host/data/dataset.h"
#include "host/model/safetensors.h"
#include "host/net/targets.h"
#include "host/store/store.h"
#include "host/study/options.h"
#include "host/space/solve/replacement.h"

typedef struct kas_problem {
    kas_dataset *dataset;
    kas_net *net;
    kas_target *target;
    int targets;
    kas_safetensors init; /* weights of --init, for scores (kas_problem_read_init); else empty */
} kas_problem;

/* kas_problem_close frees, also after a failure. */
kas_status kas_problem_open(const kas_search_options *options, const char *dataset,
                            kas_problem *out);

/* Makes the network for images of that size and finds its convolutions that are replaced. The
 * caller frees both (kas_net_free, free), also after a failure; both must be NULL before. */
kas_status kas_problem_targets(const kas_search_options *options, int h, int w, int c, int classes,
                               kas_net **net, kas_target **target, int *targets);

/* Splits the training set: *index gets the images to train on, then those that select candidates,
 * then those that confirm finalists (none where the study has no halves). The caller frees it with
 * free(). */
kas_status kas_problem_split(const kas_problem *problem, const kas_search_options *options,
                             uint32_t **index, uint32_t *train, uint32_t *select,
                             uint32_t *confirm);

/* Fails, before the study is made, where every training of it would fail: the validation share
 * cannot be had, or the batch is larger than the training set. Warns where one of the images that
 * select is worth as much as may be lost. */
kas_status kas_problem_check(const kas_problem *problem, const kas_search_options *options);
/* Reads the weights with which trainings begin. Scores imitate them. */
kas_status kas_problem_read_init(kas_problem *problem, const char *path);
/* Returns them; NULL: there are none. */
const kas_safetensors *kas_problem_init(const kas_problem *problem);
void kas_problem_close(kas_problem *problem);

kas_budget kas_search_budget(const kas_search_options *options);

/* Reads the `text` and the `gains` (NULL: not calibrated yet) of candidate `name`, as the store and
 * the messages have them, and solves it within the study's budget. Failures are those of
 * kas_assignment_read_json, kas_assignment_fit and kas_gains_parse. kas_replacement_free frees
 * `out`; `target` must outlive it. */
kas_status kas_problem_place(const kas_search_options *options, const char *name, const char *text,
                             const char *gains, const kas_target *target, int targets,
                             kas_replacement *out);

#endif
