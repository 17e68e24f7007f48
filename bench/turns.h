/* Two ways of doing the same, timed by turns in one process: what one suffers from others on the
 * machine the other suffers too, and the ratio of neighbours is what counts. */
#ifndef KAS_BENCH_TURNS_H
#define KAS_BENCH_TURNS_H

#include <string.h>

#include "host/bench/bench.h"
#include "host/core/clock.h"
#include "host/report/line.h"
#include "host/train/stats.h"

enum { TURNS_WAYS = 2, TURNS_WARM_UP = 2 /* rounds that are not counted */ };

/* Ratios: the first way by the second.  Processor time is that of the whole process; it is
 * disturbed less than time, and says nothing of a GPU. */
typedef struct turns {
    kas_samples seconds[TURNS_WAYS], ratio, processor_ratio;
} turns;

/* One run of a way, and its seconds on the device. */
typedef kas_status turns_run(void *context, int way, double *seconds);

static inline void turns_free(turns *t)
{
    for (int w = 0; w < TURNS_WAYS; w++)
        kas_samples_free(&t->seconds[w]);
    kas_samples_free(&t->ratio);
    kas_samples_free(&t->processor_ratio);
}

/* Each way is first in every other round. */
static inline kas_status turns_round(int round, turns_run *run, void *context,
                                     double seconds[TURNS_WAYS], double processor[TURNS_WAYS])
{
    for (int k = 0; k < TURNS_WAYS; k++) {
        const int way = (k + round) % TURNS_WAYS;
        const double before = kas_processor_seconds();
        KAS_TRY(run(context, way, &seconds[way]));
        processor[way] = kas_processor_seconds() - before;
    }
    return KAS_OK;
}

static inline kas_status turns_take(turns *t, int rounds, turns_run *run, void *context)
{
    for (int i = 0; i < TURNS_WARM_UP + rounds; i++) {
        double seconds[TURNS_WAYS], processor[TURNS_WAYS];
        KAS_TRY(turns_round(i, run, context, seconds, processor));
        if (i < TURNS_WARM_UP)
            continue;
        for (int w = 0; w < TURNS_WAYS; w++)
            KAS_TRY(kas_samples_add(&t->seconds[w], seconds[w]));
        KAS_TRY(kas_samples_add(&t->ratio, seconds[0] / seconds[1]));
        KAS_TRY(kas_samples_add(&t->processor_ratio, processor[0] / processor[1]));
    }
    return KAS_OK;
}

/* Fields seconds_WAY of both, ratio and processor_ratio: medians and quartiles. */
static inline void turns_put(kas_buf *line, turns *t, const char *const way[TURNS_WAYS])
{
    for (int w = 0; w < TURNS_WAYS; w++) {
        char field[64];
        snprintf(field, sizeof field, "seconds_%s", way[w]);
        kas_bench_line_spread(line, field, &t->seconds[w]);
    }
    kas_bench_line_spread(line, "ratio", &t->ratio);
    kas_bench_line_spread(line, "processor_ratio", &t->processor_ratio);
}

/* Reads what --number says. */
static inline kas_status turns_number(const char *word, kas_dtype *out)
{
    static const char *const names[KAS_DTYPES] = {"fp32", "bf16", "fp16"};
    for (int i = 0; i < KAS_DTYPES; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = (kas_dtype)i;
            return KAS_OK;
        }
    return kas_fail(KAS_USAGE, "--number %s: expected fp32, bf16 or fp16", word);
}

/* Ends a line, prints and frees it. */
static inline kas_status turns_print(kas_buf *line)
{
    kas_line_end(line);
    const kas_status status = kas_buf_status(line);
    if (status == KAS_OK)
        printf("%s", kas_buf_text(line));
    fflush(stdout);
    kas_buf_free(line);
    return status;
}

#endif
