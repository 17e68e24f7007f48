/* The objective of a study: which candidates are better than others, which are trained to the end,
 * and which one is the answer (docs/search.md). Pure functions of the study's options and of the
 * store's contents; other folders include this header. */
#ifndef KAS_LEADERBOARD_OBJECTIVE_H
#define KAS_LEADERBOARD_OBJECTIVE_H

#include "host/leaderboard/losses.h"
#include "host/leaderboard/pareto.h"
#include "host/score/correct.h"
#include "host/store/store.h"
#include "host/study/options.h"

/* Sorts points by what the objective asks for, the best first: order[0] is the index of the best.
 *
 *     accuracy   by accuracy, then by cost
 *     latency    points whose loss is below max_loss by cost; behind them the others by loss
 *     frontier   points whose loss is below max_loss by front, in a front by crowding distance, the
 *                largest first, then by accuracy; behind them the others by loss
 *
 * The loss limits the frontier too (constrained domination: Deb et al. 2002, section VI).  Without
 * it the ends of a front come first, and the cheap end is whatever costs least: a kernel that has
 * learned nothing is dominated by none that costs more, and its crowding distance is infinite, so
 * it would be the second choice of every tournament.
 *
 * A point without an accuracy comes last; ties go to the smaller number. The unmodified network may
 * be one of the points, with a negative number: candidates that it dominates then come behind its
 * front. */
kas_status kas_objective_order(int objective, double max_loss, const kas_point *point, int count,
                               int *order);

/* Sorts candidates that were trained alike, for the selection of parents and of those that go on from
 * a rung. After a cheap verdict hardly any candidate is within max_loss; the others would then be
 * sorted by their loss alone, and what they cost would play no part. So the limit goes down to what
 * is in reach of the best candidate: less than KAS_REACH_POINTS points behind it, and less than one
 * KAS_REACH_SHAREth of its accuracy, since early in a training five points are nearly everything.
 *
 *     accuracy   as above
 *     latency    points within max_loss by cost; then those in reach by front, as with frontier
 *     frontier   points within max_loss or in reach by front
 *
 * and behind them the others by loss. A loss may be unknown; then only accuracies count. */
enum { KAS_REACH_POINTS = 5, KAS_REACH_SHARE = 5 };
kas_status kas_objective_select(const kas_search_options *options, const kas_point *point,
                                int count, int *order);

/* Makes the point of a work item whose cost the caller knows. `baseline`: NULL or not ended, and
 * the loss is unknown. */
kas_point kas_objective_point(const kas_work *work, const kas_work *baseline, double cost);

/* How a study ends. Only finished candidates take part; finalists were measured within --latency,
 * or predicted so with --latency-on.
 *
 * A kernel is within the loss when it was measured faster than the unmodified network and loses
 * less than max_loss on each half of the validation images, where the paired difference and one
 * standard error together count as lost. The half that selects chooses; the half that confirms is
 * asked only about the KAS_CONFIRMED_LEAST fastest that are within the loss on the first one, or about
 * as many as there are finalists, if these are more:
 *
 *     accuracy   finalists: the most accurate; the answer: the most accurate of them on the
 *                confirming half
 *     latency    finalists: by turns the fastest within the loss and the most accurate; the answer:
 *                the fastest within the loss. Without one there are no finalists and no answer
 *     frontier   as latency; without one within the loss as accuracy
 *
 * A study that wants no finalists (--finalists 0) has no answer either.
 *
 * Where there is no answer, the nearest kernel is named: of those that fail either by their latency
 * or by their loss, and not by both, the one that fails by the least, where a point of accuracy
 * counts like a hundredth of the unmodified network's latency; where all fail by both, the one with
 * the smallest sum. The half that selects says by how much a kernel fails, since all candidates are
 * compared. With accuracy only --latency counts.
 *
 * Ties in accuracy go to fewer FLOPs, then to the smaller number.
 *
 * Where a finalist was timed in turns with the unmodified network, that ratio takes the place of
 * the one of the search, whose latencies were measured at different moments. So it can turn out not
 * to be the fastest, or not faster than the unmodified network; the next one is a finalist then.
 * The answer is final when all finalists were timed. */
enum { KAS_CONFIRMED_LEAST = 4 };
typedef struct kas_ending {
    const kas_work *finalist[KAS_FINALISTS_MOST];
    int finalists;
    const kas_work *answer;  /* one of the finalists; NULL: there is none */
    const kas_work *nearest; /* NULL: no candidate has finished */
    bool within;             /* the answer is within the loss */
} kas_ending;
kas_ending kas_ending_of(const kas_search_options *options, const kas_work *work, int count);

/* Returns whether a study has ended and has no answer: all candidates that its options ask for have
 * ended, and none of them answers. `busy_seconds` is the time that all runs took, which ends a study
 * with --time. */
bool kas_ending_without_answer(const kas_search_options *options, double busy_seconds,
                               const kas_work *work, int count);

/* Writes why such a study has no answer, as a clause: "no kernel that finished is within --latency
 * 1". Returns `out`. */
enum { KAS_ENDING_MISSING = 128 };
const char *kas_ending_missing(const kas_search_options *options, const kas_work *nearest,
                               char out[KAS_ENDING_MISSING]);

/* Returns the item in which candidate `index` was timed in turns; NULL: there is none. */
const kas_work *kas_objective_turns(const kas_work *work, int count, int64_t index);

/* Returns the latency of a candidate in that of the unmodified network: predicted with
 * --latency-on, else in turns if it was timed so, else from the search's measurements; NaN:
 * unknown. */
double kas_objective_ratio(const kas_search_options *options, const kas_work *work, int count,
                           const kas_work *w);

/* Compares two finished candidates, as for qsort, the better one first: the more accurate, then the
 * one with fewer FLOPs, then the one with the smaller number. */
int kas_objective_compare(const kas_work *a, const kas_work *b);

/* Returns the candidate that leads at present: the answer, or else the nearest; NULL: none. */
const kas_work *kas_objective_leader(const kas_search_options *options, const kas_work *work,
                                     int count);

/* The same for a caller that asks after every change: `losses` are kept between the calls. Work
 * items must have their ids, as those of a store do. */
const kas_work *kas_objective_leader_kept(const kas_search_options *options, const kas_work *work,
                                          int count, kas_losses *losses);

/* Returns the points that a candidate or final training loses on a part of its images
 * (score/correct.h), with the standard error; NaN: unknown. */
kas_paired kas_objective_lost(const kas_work *work, const kas_work *baseline, int part);

#endif
