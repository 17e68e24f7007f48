/* The strategy tree: Monte-Carlo tree search (tree.h) over beginnings of kernels
 * (space/sample/beginning.h).
 *
 * A way through the tree is a beginning, which the guided sampler completes.  Every candidate of
 * the study is a visit, also one that was not found in the tree, such as a known kernel: it counts
 * at the end of the way that its primitives make, as far as a sample could go it.  Internal to
 * strategy/. */
#ifndef KAS_STRATEGY_GROWN_H
#define KAS_STRATEGY_GROWN_H

#include "host/space/name_set.h"
#include "host/space/solve/replacement.h"
#include "host/store/store.h"
#include "host/study/options.h"

typedef struct kas_grown kas_grown;

/* Copies the targets; the options must outlive it. KAS_USAGE for options without beginnings. The
 * caller frees *out with kas_grown_free. */
kas_status kas_grown_create(const kas_search_options *options, const kas_sample_options *sample,
                            const kas_target *target, int targets, kas_grown **out);
void kas_grown_free(kas_grown *grown);

/* Proposes the next candidate and visits its leaf; its name is new in `names`. *attempt is the
 * number of the attempt that gave it. *found is false when the tree is exhausted. The caller frees
 * *out, whose targets are those of the context. */
kas_status kas_grown_propose(kas_grown *grown, kas_name_set *names, kas_replacement *out,
                             char name[KAS_NAME_SIZE], int64_t *attempt, bool *found);

/* Visits the tree with the next candidate, which came from elsewhere. */
kas_status kas_grown_visit(kas_grown *grown, const kas_replacement *candidate);

/* Learns the results of all candidates so far, which are of generations before `generation` and
 * have ended. */
kas_status kas_grown_learn(kas_grown *grown, const kas_work *items, int count, int generation);

/* Appends a sentence about the tree. */
void kas_grown_describe(const kas_grown *grown, kas_buf *out);

#endif
