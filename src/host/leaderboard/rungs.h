/* Rungs: successive halving within a generation (docs/search.md, "Rungs").
 *
 * All candidates of a generation are trained to the first rung. When each of them is there, or has
 * ended before, the best third by the study's objective (kas_objective_select) goes on to the next
 * rung, from its checkpoint, and the others end. Cost stands in place of latency, as for parents. A
 * loss is not known at a rung, so accuracies are compared with that of the best one: successive
 * halving by fronts (Schmucker et al., "Multi-objective Asynchronous Successive Halving", 2021). So
 * a decision depends on the results of the generation alone, never on timing: every run promotes
 * the same candidates.
 *
 * With --asynchronous there are no generations (ASHA: Li et al., "A System for Massively Parallel
 * Hyperparameter Tuning", MLSys 2020). A candidate goes on as soon as it is among the best third of
 * those that have reached its rung so far, so no worker waits for others; which ones go on depends
 * on timing.  Pure functions of the store's contents; other folders include this header. */
#ifndef KAS_LEADERBOARD_RUNGS_H
#define KAS_LEADERBOARD_RUNGS_H

#include "host/core/buf.h"
#include "host/store/store.h"
#include "host/study/options.h"

enum { KAS_RUNGS_ETA = 3 };

/* Returns the number of the last rung, which is the end of the training: 0 without rungs. */
int kas_rungs_last(const kas_search_options *options);
/* Returns the epochs after which a candidate reaches a rung; KAS_RUNG_OF_IMITATION: none. */
int kas_rungs_epochs(const kas_search_options *options, int rung);
/* Writes what a rung with so many epochs is called: "epoch 3", "imitation". Returns `out`. */
enum { KAS_RUNG_NAME = 24 };
const char *kas_rungs_name(int epochs, char out[KAS_RUNG_NAME]);

/* Decides who goes on, when all candidates of a generation wait at a rung or have ended; *count is
 * 0 when nobody waits, or some are still under way. The generation must have all its candidates.
 * The caller frees *out, and the reasons in it point into `reason`. */
kas_status kas_rungs_settle(const kas_search_options *options, const kas_work *work, int items,
                            char reason[128], kas_settled **out, int *count);

/* --asynchronous: finds one candidate that goes on. While new candidates are `coming`, it is the
 * best one at the highest rung where one goes on, and at most a third of those that reached a rung
 * go on, rounded down. Afterwards it is rounded up, so that somebody goes on from every rung, and
 * the lowest rung comes first, so that many are compared at the next one. When nobody comes, nobody
 * is under way and nobody goes on, all that wait end. Results are as of kas_rungs_settle. */
kas_status kas_rungs_promote(kas_store *store, const kas_search_options *options,
                             const kas_work *work, int items, bool coming, char reason[128],
                             kas_settled **out, int *count);

/* What a rung cost, and what its ranks were worth. */
typedef struct kas_rung_report {
    int epochs;
    int reached;      /* candidates that were trained to this rung */
    double seconds;   /* of training between the rung before and this one, all candidates; of an
                         imitation the epoch behind it */
    int compared;     /* candidates that were trained to the end */
    double agreement; /* Kendall's tau b between their accuracies at this rung and at the end; NaN
                         for fewer than 3 */
} kas_rung_report;
/* Reads the epochs of all candidates. `out` has kas_rungs_last + 1 places. */
kas_status kas_rungs_report(kas_store *store, const kas_search_options *options,
                            const kas_work *work, int items, kas_rung_report *out);

#endif
