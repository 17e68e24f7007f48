/* Measures the latency of a changed network beside the unmodified one, in turns.
 *
 * On a machine that others use the time of a forward pass changes from second to second, but both
 * networks change alike when they run one right after the other. So a turn runs each of them a few
 * times and keeps the shortest run of each, and the ratio of a turn is that of neighbours; results
 * are medians over the turns. */
#ifndef KAS_PREDICT_TURNS_H
#define KAS_PREDICT_TURNS_H

#include "host/model/planned_bytes.h"

typedef struct kas_turns kas_turns;

/* Prepares the unmodified network. `net` must outlive it. The caller frees *out with
 * kas_turns_free. */
kas_status kas_turns_create(kas_device *device, const kas_net *net, int batch,
                            kas_precision precision, const char *cache_dir, kas_turns **out);
void kas_turns_free(kas_turns *turns); /* NULL is allowed */

typedef struct kas_turns_result {
    double seconds, unmodified, ratio; /* of a forward pass; ratio: below 1 is faster */
    int turns;
    /* The launches of the changed network, each with its own time. Points into the programs. */
    kas_planned_bytes planned;
} kas_turns_result;

/* Compiles and loads the programs (NULL: the unmodified network beside itself) and measures
 * `turns` turns, or fewer, at least three, when these take longer than `seconds`. The caller frees
 * out->planned. */
kas_status kas_turns_measure(kas_turns *turns, kas_programs *programs, int count, double seconds,
                             kas_turns_result *out);

#endif
