#include "host/bench/step_times.h"

#include <stdlib.h>

#include "host/train/stats.h"

enum { WARM_UP = 2 };

/* Measures all times of each launch; `samples` is [launches]. */
static kas_status collect(kas_bench_model *m, kas_tape_mode mode, int repeats, int launches,
                          kas_samples *samples)
{
    double *seconds = calloc((size_t)launches + 1, sizeof *seconds);
    kas_status status = KAS_OK;
    if (!seconds)
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of %d launches", launches);
    for (int run = 0; run < WARM_UP + repeats && status == KAS_OK; run++) {
        status = kas_bench_model_time_steps(m, mode, seconds);
        for (int i = 0; i < launches && run >= WARM_UP && status == KAS_OK; i++)
            status = kas_samples_add(&samples[i], seconds[i]);
    }
    free(seconds);
    return status;
}

/* Gives all passes the medians of their launches. */
static kas_status give(kas_planned_bytes *planned, const int *mark, kas_samples *launch,
                       int launches, kas_bench_times *out)
{
    double *median = calloc((size_t)launches + 1, sizeof *median);
    if (!median)
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of %d launches", launches);
    for (int i = 0; i < launches; i++)
        out->sum += median[i] = kas_samples_quantile(&launch[i], 0.5);
    out->rest = out->sum - kas_planned_bytes_give(planned, mark, median);
    free(median);
    return KAS_OK;
}

kas_status kas_bench_times_measure(kas_bench_model *m, kas_tape_mode mode, int repeats,
                                   kas_planned_bytes *planned, kas_bench_times *out)
{
    const bool training = mode == KAS_TAPE_TRAIN;
    const int launches = kas_plan_steps(training ? m->train : m->infer);
    kas_samples *launch = calloc((size_t)launches + 1, sizeof *launch);
    *out = (kas_bench_times){.repeats = repeats};
    if (!launch)
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of %d launches", launches);
    kas_status status = collect(m, mode, repeats, launches, launch);
    if (status == KAS_OK)
        status = give(planned, training ? m->train_mark : m->infer_mark, launch, launches, out);
    for (int i = 0; i < launches; i++)
        kas_samples_free(&launch[i]);
    free(launch);
    return status;
}
