/* Rejects candidates by a score before anything is compiled (docs/search.md, "Legality"): those whose
 * score is below that of the unmodified network, or below a share of it. By the Fisher potential this
 * is the legality check of NAS-PTE (Turner, Crowley and O'Boyle 2021, section 5.2).
 *
 * Both are scored with the weights and the minibatch of the study's seed (score/untrained/score.h),
 * in the process that draws candidates. Scores are float32, so another kind of processor may decide
 * otherwise about a candidate on the edge; the study keeps the decision that was made. */
#ifndef KAS_SEARCH_LEGALITY_H
#define KAS_SEARCH_LEGALITY_H

#include "host/score/untrained/score.h"
#include "host/space/canonical.h"
#include "host/store/store.h"
#include "host/study/problem.h"

/* Images of the minibatch of a search that trains. */
enum { KAS_LEGALITY_BATCH = 16 };

/* Reads "SCORE" or "SCORE:TOLERANCE", where SCORE is fisher or imitation, of which no network has one
 * below 0, and the tolerance is a share of the unmodified network's, 0 to 1, by which a candidate may
 * be below it. KAS_USAGE says what is allowed. */
kas_status kas_legality_parse(const char *text, int *score, double *tolerance);

typedef struct kas_legality kas_legality;
/* Scores the unmodified network on a minibatch of `batch` images, KAS_SCORE_LEAST_BATCH or more.
 * KAS_OK with *out NULL where the options ask for no check. The problem must outlive it; the caller
 * frees *out with kas_legality_close. */
kas_status kas_legality_open(const kas_search_options *options, const kas_problem *problem,
                             int batch, kas_legality **out);
void kas_legality_close(kas_legality *legality); /* NULL is allowed */

/* Returns the score of the unmodified network, and the least that is allowed. */
double kas_legality_original(const kas_legality *legality);
double kas_legality_least(const kas_legality *legality);
/* Computes the score of a replacement, which is not finite where an activation is not. Threads
 * may call it at once, each with memory of its own. KAS_ILLEGAL or KAS_UNSUPPORTED where a kernel
 * cannot be evaluated. */
kas_status kas_legality_score(const kas_legality *legality, const kas_replacement *replacement,
                              kas_score_memory *memory, double *score);

/* Computes the score of a candidate before it is judged, and keeps it by the candidate's name.
 * Several threads may do so at once, each with a `thread` and a `place` of its own below
 * KAS_LEGALITY_PREPARED. */
enum { KAS_LEGALITY_PREPARED = 32 };
kas_status kas_legality_prepare(kas_legality *legality, const char *name,
                                const kas_replacement *replacement, int thread, int place);

/* Sets work->state to KAS_WORK_LOW_SCORE, and work->reason, if the candidate is rejected: its
 * score is below what is allowed, or is no finite number, or, with evolution and the score imitation, it
 * computes what an earlier candidate computes (originals.h), which was judged or remembered. One that cannot be
 * evaluated passes: a worker will say why. */
kas_status kas_legality_judge(kas_legality *legality, const kas_replacement *replacement,
                              kas_work *work);
/* Remembers a candidate that the store has and that passed. */
kas_status kas_legality_remember(kas_legality *legality, const kas_work *work);

#endif
