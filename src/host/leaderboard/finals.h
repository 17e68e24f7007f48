/* The figures of the final trainings: mean and spread over the seeds, and the paired difference to
 * the unmodified network. Pure functions of the store's contents. */
#ifndef KAS_LEADERBOARD_FINALS_H
#define KAS_LEADERBOARD_FINALS_H

#include "host/leaderboard/objective.h"
#include "host/score/interval.h"

/* A finalist, or the unmodified network. */
typedef struct kas_finalist {
    const kas_work *work;    /* its first final training */
    bool answers;            /* it was named as the answer before the test set was opened */
    int trainings, seeds;    /* in the study; finished ones, which the figures are of */
    kas_interval accuracy;   /* on the test set, over the seeds */
    kas_interval difference; /* to the unmodified network: over the pairs of trainings with the same
                                seed, positive when the kernel is better. With one pair `low` and
                                `high` are of 95% confidence over the test images */
    int pairs;
    double latency;                      /* mean of the trainings' measurements, in seconds */
    double ratio, ratio_low, ratio_high; /* in turns with the unmodified network, median and
                                            quartiles; NaN: it was not timed so */
} kas_finalist;

/* Lists the unmodified network, the answer and then the other finalists, of `out` with room for
 * KAS_FINALISTS_MOST + 1. Returns how many there are; 0 before the final trainings are due. */
int kas_finals_of(const kas_work *work, int count, kas_finalist *out);

/* Returns the answer's first final training, of seed 0, whose weights lie in best/; NULL: none. */
const kas_work *kas_finals_answer(const kas_work *work, int count);

/* Returns whether all final trainings have ended, and those of the answer and of the unmodified
 * network with a result. */
bool kas_finals_done(const kas_work *work, int count);

/* Appends a line for each way in which the ranks of final trainings exchange (kas_work): `words`, the
 * way and, where there are several, whose trainings those are. Nothing where there are no ranks. */
void kas_finals_exchanges(const kas_work *work, int count, const char *words, kas_buf *out);

/* Appends the answer and a table of the final trainings, or nothing before they have finished. */
kas_status kas_finals_text(const kas_search_options *options, const kas_work *work, int count,
                           kas_buf *out);
/* Appends one JSON object a line for each of them (docs/search.md). */
void kas_finals_json(const kas_work *work, int count, kas_buf *out);
/* Appends one of them as a JSON object and a line end. */
void kas_finalist_json(const kas_finalist *f, kas_buf *out);

#endif
