/* Fits the costs and shares of a machine model to measured launches.
 *
 * The time of a launch is a maximum of sums of products, so there is no closed form; but there are
 * two dozen positive numbers, and a prediction costs a tenth of a microsecond. So the search is
 * plain: each number in turn is tried a step larger and a step smaller, by a factor, and the better
 * one is kept; when no number moves any more the step is halved. */
#include "host/predict/calibrate.h"

#include <math.h>

/* How much it costs to move a number by a factor of e away from what was known before. */
static const double inertia = 2e-4;
/* The launches of a network, one by one, were disturbed when their sum is so many times as long as
 * the network: then only its own time counts. */
static const double disturbed = 1.2;
/* A network's own time, which is what users ask for, weighs so many times as much as all of its
 * launches. */
static const double whole = 4;
/* Unmodified networks weigh so much of all. */
static const double unmodified = 0.1;
static const double first_step = 2, last_step = 1.01;
enum { ROUNDS = 200 };

static double square(double x)
{
    return x * x;
}

/* Returns the price of a prediction that is off by a factor: about the square of its logarithm,
 * and beyond a third only its size, so that no single launch decides. */
static double price(double factor)
{
    const double third = 1.0 / 3, x = log(factor) / third;
    return 2 * square(third) * (sqrt(1 + square(x)) - 1);
}

static double network_loss(const kas_machine *m, const kas_fit_network *n)
{
    double loss = 0, measured = 0, all = 0;
    for (int i = 0; i < n->planned->passes; i++) {
        const kas_sweep *pass = &n->planned->pass[i];
        const double seconds = kas_predict_pass(m, pass).seconds;
        all += seconds;
        if (!(pass->seconds > 0)) /* it has no time of its own */
            continue;
        loss += pass->seconds * price(seconds / pass->seconds);
        measured += pass->seconds;
    }
    if (!(measured > 0) || measured > disturbed * n->seconds)
        loss = 0;
    else
        loss /= measured;
    return loss + whole * price(all / n->seconds);
}

static bool is_unmodified(const kas_fit_network *n)
{
    for (int i = 0; i < n->planned->passes; i++)
        if (n->planned->pass[i].kernel)
            return false;
    return true;
}

static double *number(kas_machine *m, const kas_field *field)
{
    return (double *)(void *)((char *)m + field->offset);
}

static double total_loss(const kas_machine *m, const kas_machine *before,
                         const kas_fit_network *network, int count)
{
    int fitted, fields;
    double loss = 0, moved = 0;
    const kas_field *field = kas_machine_fields(&fitted, &fields);
    for (int i = 0; i < count; i++)
        loss += network_loss(m, &network[i]) *
                (is_unmodified(&network[i]) ? fmax(1, unmodified * count) : 1);
    for (int i = fitted; i < fields; i++)
        moved += square(log(*number((kas_machine *)(uintptr_t)m, &field[i]) /
                            *number((kas_machine *)(uintptr_t)before, &field[i])));
    return loss / count + inertia * moved;
}

/* Tries a number larger and smaller by `step`; returns whether that was better. */
static bool move(kas_machine *m, const kas_field *field, double step, const kas_machine *before,
                 const kas_fit_network *network, int count, double *least)
{
    double *value = number(m, field);
    const double was = *value;
    for (int way = 0; way < 2; way++) {
        const double to = way ? was / step : was * step;
        *value = to < field->low ? field->low : to > field->high ? field->high : to;
        if (!kas_machine_is_ordered(m))
            continue;
        const double loss = total_loss(m, before, network, count);
        if (loss < *least) {
            *least = loss;
            return true;
        }
    }
    *value = was;
    return false;
}

double kas_machine_fit(kas_machine *machine, const kas_fit_network *network, int count)
{
    const kas_machine before = *machine;
    int fitted, fields;
    const kas_field *field = kas_machine_fields(&fitted, &fields);
    double least = total_loss(machine, &before, network, count), step = first_step;
    for (int round = 0; round < ROUNDS && step > last_step; round++) {
        bool moved = false;
        for (int i = fitted; i < fields; i++)
            moved |= move(machine, &field[i], step, &before, network, count, &least);
        if (!moved)
            step = sqrt(step);
    }
    return least;
}
