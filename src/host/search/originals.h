/* The candidates of a search that are no copies: copies compute what an earlier one computes, under
 * another name. Names of kernels are canonical, but no set of rules knows every identity: x - (x - y)
 * is y, and a group of what only element-wise primitives read changes nothing. Of 35 trained children
 * of a search seven were copies.
 *
 * Kernels that compute the same learn the same, so they imitate a convolution equally well: the scores
 * `imitation` of copies agree to 2e-8, those of different kernels differ by 1e-4 and more. So a
 * candidate with as many weights and the same score as an earlier one is its copy. */
#ifndef KAS_SEARCH_ORIGINALS_H
#define KAS_SEARCH_ORIGINALS_H

#include "host/score/untrained/score.h"
#include "host/store/store.h"

typedef struct kas_original {
    char name[sizeof((kas_work *)0)->name];
    double params, score;
    char *kernel; /* of one that waits for its score; owned */
} kas_original;

/* Candidates that passed, and those of the store that were not scored in this process. Zero is empty;
 * kas_originals_free frees the lists. */
typedef struct kas_originals {
    kas_original *scored, *waiting;
    int scored_count, waiting_count;
} kas_originals;
void kas_originals_free(kas_originals *originals);

/* Adds a candidate with its score. */
kas_status kas_originals_add(kas_originals *originals, const kas_work *work, double score);
/* Adds a candidate whose score will be computed when another one must be compared with it. */
kas_status kas_originals_wait(kas_originals *originals, const kas_work *work);
/* Scores what waits and has as many weights as a new candidate, on all cores: only these can be what
 * it copies. `score` gets the text of a kernel; NaN: it has no score. */
typedef kas_status kas_originals_score(void *context, const char *name, const char *kernel,
                                       kas_score_memory *memory, double *score);
kas_status kas_originals_settle(kas_originals *originals, const kas_work *work,
                                kas_originals_score *score, void *context);

/* Returns the name of the earlier candidate that computes the same; NULL: none. */
const char *kas_originals_of(const kas_originals *originals, const kas_work *work, double score);

#endif
