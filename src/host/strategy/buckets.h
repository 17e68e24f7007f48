/* Proposals that wait until enough of like cost are there, of which the best by a score is trained
 * (--prefilter).
 *
 * Scores grow with FLOPs and parameters, so only proposals of like FLOPs are compared: those in one
 * bucket, of which there are two for each doubling.  When a bucket has as many as are compared, the
 * one with the best score goes to training and the others are `prefiltered`; all of them get their
 * numbers then, in the order in which they came.  So a list of candidates does not depend on who
 * scores them, and keeps the distribution of FLOPs with which they were drawn.
 *
 * The best by several scores is the one with the best ranks among the members of its bucket
 * (core/rank.h). */
#ifndef KAS_STRATEGY_BUCKETS_H
#define KAS_STRATEGY_BUCKETS_H

#include "host/store/store.h"

enum { KAS_BUCKET_SCORES = 4 };

typedef struct kas_waiting {
    kas_work work;
    double score[KAS_BUCKET_SCORES]; /* NaN: none */
    bool stored;                     /* the study has it, and has decided */
} kas_waiting;

typedef struct kas_buckets {
    int each;             /* proposals of which one is trained; up to 1: nobody waits */
    int scores;           /* of each */
    char score[32];       /* the name of what they make, for reasons */
    kas_waiting *waiting; /* [waits] of all buckets, in the order in which they came */
    int waits;
    kas_work *ready; /* [readies] of the bucket that was full last; `taken` of them are gone */
    int readies, taken;
} kas_buckets; /* zero at first, but for `each`, `scores` and `score` */

/* Adds a proposal and takes what `work` owns, also after a failure. Nobody may be ready. */
kas_status kas_buckets_add(kas_buckets *buckets, kas_work *work,
                           const double score[KAS_BUCKET_SCORES], bool stored);
/* Takes the next one that is ready; returns whether there was one. The caller frees it with
 * kas_work_clear. */
bool kas_buckets_take(kas_buckets *buckets, kas_work *out);
void kas_buckets_free(kas_buckets *buckets);

#endif
