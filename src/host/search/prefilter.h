/* What --prefilter SCORE:K asks for: of K proposals of like FLOPs the one with the best score is
 * trained (strategy/buckets.h, docs/search.md, "Prefilter").
 *
 * Scores have the weights and the minibatch of the study's seed and are computed by the process
 * that draws candidates, one for each proposal that passes prediction and legality. */
#ifndef KAS_SEARCH_PREFILTER_H
#define KAS_SEARCH_PREFILTER_H

#include "host/score/untrained/score.h"
#include "host/study/problem.h"

enum { KAS_PREFILTER_MOST = 32, KAS_PREFILTER_BATCH = 16 };

/* Reads "SCORE:K", K from 2 to KAS_PREFILTER_MOST. KAS_USAGE for another text and an unknown score. */
kas_status kas_prefilter_parse(const char *text, int *score, int *proposals);

typedef struct kas_prefilter kas_prefilter;
/* KAS_OK with *out NULL where the options ask for none. KAS_USAGE for a score that lacks what it
 * needs; the predictor may be NULL. Problem and predictor must outlive it; the caller frees *out
 * with kas_prefilter_close. */
kas_status kas_prefilter_open(const kas_search_options *options, const kas_problem *problem,
                              const kas_predictor *predictor, kas_prefilter **out);
void kas_prefilter_close(kas_prefilter *prefilter); /* NULL is allowed */

/* Returns how many scores kas_prefilter_score fills. */
int kas_prefilter_scores(const kas_prefilter *prefilter);
/* Computes the score of a candidate, or those that its score ranks: NaN where it has none, or
 * cannot be evaluated. */
kas_status kas_prefilter_score(kas_prefilter *prefilter, const kas_replacement *replacement,
                               double score[KAS_SCORE_PARTS]);

#endif
