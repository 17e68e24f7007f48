/* Measures the latency of a changed network beside the unmodified one, in turns.
 *
 * The unmodified network runs before and after each turn of the changed one and is the witness: it
 * always does the same, so when it takes longer than its fastest run, something else ran on the
 * machine, and the turn between is no measurement. Such turns are repeated, up to a bound. A run is
 * the shortest of a few, the ratio of a turn is that of neighbours, and results are medians over
 * the quiet turns. The changed network's own times never decide whether they count. */
#ifndef KAS_PREDICT_TURNS_H
#define KAS_PREDICT_TURNS_H

#include "host/model/planned_bytes.h"

typedef struct kas_turns kas_turns;

/* Prepares the unmodified network. `net` must outlive it. The caller frees *out with
 * kas_turns_free. */
kas_status kas_turns_create(kas_device *device, const kas_net *net, int batch,
                            kas_precision precision, const char *cache_dir, kas_turns **out);
void kas_turns_free(kas_turns *turns); /* NULL is allowed */

enum { KAS_LEAST_TURNS = 3 };

/* Returns whether the unmodified network ran undisturbed: within 5% of its fastest run. */
static inline bool kas_turns_is_quiet(double unmodified, double fastest)
{
    return unmodified <= 1.05 * fastest;
}

typedef struct kas_turns_result {
    /* Of a forward pass. unmodified: by the slower witness of each turn, by which it is judged; ratio: to
     * the mean of both witnesses, below 1 is faster */
    double seconds, unmodified, ratio;
    double ratio_low, ratio_high; /* quartiles over the turns */
    int turns;                    /* that count */
    bool disturbed; /* fewer than KAS_LEAST_TURNS were quiet; then all of them count */
    /* The launches of the changed network, each with its own time. Points into the programs. */
    kas_planned_bytes planned;
} kas_turns_result;

/* Judges `turns` turns by their witnesses: witness[i] ran before turn i, witness[i + 1] after it.
 * Writes everything of *out but `planned`. */
kas_status kas_turns_judge(const double *witness, const double *ours, int turns, double fastest,
                           kas_turns_result *out);

/* Compiles and loads the programs (NULL: the unmodified network beside itself) and makes their network
 * ready to run. That is work of the host, during which nobody else needs to wait; kas_turns_measure does
 * it where it was not done before. The programs must outlive the measurement. */
kas_status kas_turns_prepare(kas_turns *turns, kas_programs *programs);

/* Takes turns with the network of the programs until `count` of them were quiet, or all took `seconds`, or there were four times as many; at least
 * KAS_LEAST_TURNS. While fewer than KAS_LEAST_TURNS are quiet it goes on for up to four times as
 * long. The caller frees out->planned. */
kas_status kas_turns_measure(kas_turns *turns, kas_programs *programs, int count, double seconds,
                             kas_turns_result *out);

#endif
