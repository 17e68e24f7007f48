/* The strategy tree: Monte-Carlo tree search (tree.h) over beginnings of kernels
 * (space/sample/beginning.h).
 *
 * A way through the tree is a beginning, which the guided sampler completes.  Every candidate of
 * the study is a visit, also one that was not found in the tree, such as a known kernel: it counts
 * at the end of the way that its primitives make, as far as a sample could go it.  Internal to
 * strategy/. */
#ifndef KAS_STRATEGY_KERNEL_TREE_H
#define KAS_STRATEGY_KERNEL_TREE_H

#include "host/space/name_set.h"
#include "host/space/solve/replacement.h"
#include "host/store/store.h"
#include "host/study/options.h"

typedef struct kas_kernel_tree kas_kernel_tree;

/* Copies the targets; the options must outlive it. KAS_USAGE for options without beginnings. The
 * caller frees *out with kas_kernel_tree_free. */
kas_status kas_kernel_tree_create(const kas_search_options *options,
                                  const kas_sample_options *sample, const kas_target *target,
                                  int targets, kas_kernel_tree **out);
void kas_kernel_tree_free(kas_kernel_tree *tree);

/* Proposes the next candidate and visits its leaf; its name is new in `names`. *attempt is the
 * number of the attempt that gave it. *found is false when the tree is exhausted. The caller frees
 * *out, whose targets are those of the context. */
kas_status kas_kernel_tree_propose(kas_kernel_tree *tree, kas_name_set *names, kas_replacement *out,
                                   char name[KAS_NAME_SIZE], int64_t *attempt, bool *found);

/* Visits the tree with the next candidate, which came from elsewhere. */
kas_status kas_kernel_tree_visit(kas_kernel_tree *tree, const kas_replacement *candidate);

/* Tells that the last visit gave no candidate, because --keep-slower left nothing new of it. The
 * tree learns nothing from it but that it was there. */
kas_status kas_kernel_tree_drop(kas_kernel_tree *tree);

/* Learns the results of all candidates so far, which are of generations before `generation` and
 * have ended. */
kas_status kas_kernel_tree_learn(kas_kernel_tree *tree, const kas_work *items, int count,
                                 int generation);

/* Appends a sentence about the tree. */
void kas_kernel_tree_describe(const kas_kernel_tree *tree, kas_buf *out);

#endif
