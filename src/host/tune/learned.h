/* What the timings of one launch say about the machine model: it is wrong in like ways about like
 * schedules. A factor is learned by kernel regression (Nadaraya and Watson): the mean of the errors
 * of timed schedules, on a logarithmic scale, weighted by how near their counts of instructions
 * are, with the default schedule, whose error is 0, and a constant weight for no error at all. Internal to tune. */
#ifndef KAS_TUNE_LEARNED_H
#define KAS_TUNE_LEARNED_H

#include "jit/ir/program.h"

enum { KAS_LEARNED_MOST = 64, KAS_LEARNED_COUNTS = 11 };

typedef struct kas_learned {
    int timings;
    struct {
        double count[KAS_LEARNED_COUNTS], error;
    } timing[KAS_LEARNED_MOST];
} kas_learned;

/* Adds a timing. Both ratios are those of a schedule to the default one. */
void kas_learned_add(kas_learned *learned, const kas_operation *op, double measured,
                     double predicted);
/* Returns by what the predicted time of a schedule is to be multiplied. */
double kas_learned_factor(const kas_learned *learned, const kas_operation *op);

#endif
