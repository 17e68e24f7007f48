/* The device time of a study: what studies are compared by, and what a search costs.
 *
 * On the CPU it is processor time, because several threads work for an item and other programs
 * share the cores.  On a GPU, and where a worker has several items at once, it is the time for which
 * workers had the item.  Where neither was recorded, because the study is older or each of its
 * workers died, it is the time of the epochs and of waiting for compilers.  The process that draws
 * and scores candidates, ancestors among them, counts as well: on a GPU the time for which it did
 * so, because the devices wait meanwhile.  Other folders include this header. */
#ifndef KAS_LEADERBOARD_SPENT_H
#define KAS_LEADERBOARD_SPENT_H

#include "host/store/store.h"
#include "host/study/options.h"

/* Returns the device time of work that this machine did for a study. */
double kas_spent_device(const kas_search_options *options, kas_elapsed effort);

/* Finds that of an item. */
kas_status kas_spent_item(kas_store *store, const kas_search_options *options, const kas_work *work,
                          double *seconds);

/* Returns whether an item counts: final trainings are no part of the search. */
static inline bool kas_spent_counts(const kas_work *work)
{
    return work->kind <= KAS_WORK_CANDIDATE;
}
/* Finds that of a study: drawing and scoring, and the items that count. */
kas_status kas_spent_study(kas_store *store, const kas_study *study,
                           const kas_search_options *options, const kas_work *work, int count,
                           double *seconds);

#endif
