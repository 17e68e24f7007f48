/* What a study searches on, built from its options: data set, network, targets.
 *
 * The supervisor builds it to sample candidates, every worker to evaluate them: the same options
 * and the same data give the same problem. */
#ifndef KAS_STUDY_PROBLEM_H
#define KAS_STUDY_PROBLEM_H

#include "host/data/dataset.h"
#include "host/net/targets.h"
#include "host/store/store.h"
#include "host/study/options.h"
#include "host/space/sample/sampler.h"
#include "host/space/file/assignment.h"

typedef struct kas_problem {
    kas_dataset *dataset;
    kas_net *net;
    kas_target *target;
    int targets;
} kas_problem;

/* kas_problem_close frees, also after a failure. */
kas_status kas_problem_open(const kas_search_options *options, const char *dataset,
                            kas_problem *out);

/* The network for images of that size, and its convolutions that are replaced. What was made is the
 * caller's (kas_net_free, free), also after a failure; both must be NULL before. */
kas_status kas_problem_targets(const kas_search_options *options, int h, int w, int c, int classes,
                               kas_net **net, kas_target **target, int *targets);

/* What every training of a study would stumble over, told before the study is made: a validation
 * share that cannot be had, a batch larger than the training set. */
kas_status kas_problem_check(const kas_problem *problem, const kas_search_options *options);
void kas_problem_close(kas_problem *problem);

kas_budget kas_search_budget(const kas_search_options *options);

/* A candidate as the store and the messages have it, at the targets of a network. */
typedef struct kas_placed {
    kas_assignment kernels;
    kas_fitted fit; /* points to the kernels and the targets */
} kas_placed;
/* Reads the `text` of candidate `name` and solves it within the study's budget. Errors as of
 * kas_assignment_read_json and kas_assignment_fit. kas_placed_free frees; *out stays where it is.
 */
kas_status kas_problem_place(const kas_search_options *options, const char *name, const char *text,
                             const kas_target *target, int targets, kas_placed *out);
void kas_placed_free(kas_placed *placed);

/* Where candidates come from. Candidate k must be the same in every run of the study. */
typedef struct kas_strategy {
    /* Fills attempt, name, kernel (malloc'ed) and costs of the next candidate: 0, 1, 2, ... in
     * order. KAS_NOTHING_VALID when the space is exhausted. */
    kas_status (*next)(void *context, kas_work *out);
    void *context;
} kas_strategy;

/* The random strategy: candidate k is the k-th distinct legal attempt of the sampler. `context` of
 * the strategy is `sampler`. */
kas_status kas_problem_sampler(const kas_problem *problem, const kas_search_options *options,
                               kas_sampler **out);
kas_strategy kas_strategy_random(kas_sampler *sampler);

#endif
