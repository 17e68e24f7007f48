#include "host/tune/learned.h"

#include <math.h>

/* Counts that differ by this factor are half as near, roughly; and the weight of no error. */
static const double near = 0.7, doubt = 0.3;

static void count(const kas_operation *op, double out[KAS_LEARNED_COUNTS])
{
    const kas_effort *e = &op->effort;
    const double blocks = (double)op->grid[0] * op->grid[1] * op->grid[2];
    const double of[KAS_LEARNED_COUNTS] = {
        e->lanes,   e->turns,     e->arithmetic + e->functions, e->loads,     e->gathers,
        e->reduced, e->divisions, e->shared + e->alone,         e->scattered, blocks,
        op->width};
    for (int i = 0; i < KAS_LEARNED_COUNTS; i++)
        out[i] = log1p(of[i]);
}

void kas_learned_add(kas_learned *learned, const kas_operation *op, double measured,
                     double predicted)
{
    if (learned->timings == KAS_LEARNED_MOST || !(measured > 0) || !(predicted > 0))
        return;
    count(op, learned->timing[learned->timings].count);
    learned->timing[learned->timings++].error = log(measured / predicted);
}

double kas_learned_factor(const kas_learned *learned, const kas_operation *op)
{
    double own[KAS_LEARNED_COUNTS], weights = doubt, sum = 0;
    count(op, own);
    for (int i = 0; i < learned->timings; i++) {
        double distance = 0;
        for (int k = 0; k < KAS_LEARNED_COUNTS; k++)
            distance += pow(own[k] - learned->timing[i].count[k], 2);
        const double weight = exp(-distance / (2 * near * near));
        weights += weight;
        sum += weight * learned->timing[i].error;
    }
    return exp(sum / weights);
}
