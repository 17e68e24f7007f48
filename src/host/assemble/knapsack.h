/* Chooses one option for each layer so that the sum of losses is least within a limit on the sum of
 * costs: the multiple-choice knapsack, solved for all limits at once.
 *
 * Layer after layer, the list of choices of the layers so far that no other choice beats in both
 * sums is extended by every option, and what is beaten is dropped (Nemhauser and Ullmann, "Discrete
 * dynamic programming and capital allocation", 1969).  No extension of a beaten choice is better
 * than the same extension of what beats it, so the last list is the whole frontier.  Costs and
 * losses stay floating point numbers; nothing is scaled to integers.
 *
 * The list can grow exponentially.  Beyond KAS_FRONTIER_MOST choices it is thinned: the range of
 * losses is cut into cells, and of each cell only the cheapest choice is kept, which loses at most
 * the width of a cell against any choice that was dropped.  So for every limit the frontier has a
 * choice whose loss exceeds the least one by at most `gap`, the sum of these widths: 0 where
 * nothing was thinned.
 *
 * Further costs may be limited too.  A choice then beats another only where it is no worse in them
 * either, and one that cannot be completed within their limits is dropped.  These lists are longer
 * and slower to search, so they are thinned beyond KAS_FRONTIER_MOST_LIMITED choices.  Of each cell
 * the least choice in each cost is kept, and the one that takes the least share of what the limits
 * leave free, so that limits which only balanced choices keep are met, too.  That has no bound: `gap`
 * is INFINITY then, and where no choice was found, there may still be one. */
#ifndef KAS_ASSEMBLE_KNAPSACK_H
#define KAS_ASSEMBLE_KNAPSACK_H

#include "host/core/status.h"

enum { KAS_FRONTIER_MOST = 1 << 16, KAS_FRONTIER_MOST_LIMITED = 1 << 12, KAS_FRONTIER_FURTHER = 2 };

/* An option of a layer. One whose cost or loss is not finite cannot be chosen. Negative values are
 * allowed. */
typedef struct kas_option {
    double cost, loss, further[KAS_FRONTIER_FURTHER];
} kas_option;

typedef struct kas_frontier_point {
    double cost, loss;
} kas_frontier_point;

typedef struct kas_frontier {
    int points;
    kas_frontier_point *point; /* [points], by rising cost and falling loss */
    double gap;
    int layers;
    struct kas_frontier_stage *stage; /* [layers] how the lists were made */
} kas_frontier;

/* Finds the frontier over option [layers][options] of the choices whose sums of further costs are
 * within `limit` (NULL: `further` is not read). At most `most` choices are kept (KAS_FRONTIER_MOST;
 * in tests 3 or more, with limits 9 or more). KAS_NOTHING_VALID when a layer has no option,
 * KAS_OVER_BUDGET when no choice was found within the limits: there is none if out->gap is 0. The
 * caller frees *out with kas_frontier_free. */
kas_status kas_frontier_find(const kas_option *option, int layers, int options,
                             const double limit[KAS_FRONTIER_FURTHER], int most, kas_frontier *out);
void kas_frontier_free(kas_frontier *frontier);

/* Returns the last point whose cost is at most `limit`; -1 = none. */
int kas_frontier_within(const kas_frontier *frontier, double limit);
/* Gets which option each layer has at a point. */
void kas_frontier_choice(const kas_frontier *frontier, int point, int *chosen);

#endif
