#include "host/bench/step_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_bias(const kas_sweep *pass)
{
    return strncmp(pass->what, "bias", 4) == 0;
}

/* Gives the passes of an operation the times of its launches, in order. With `taken`, biases are
 * part of other launches. */
static void give_each(kas_sweep *pass, int passes, bool taken, kas_samples *launch)
{
    for (int i = 0, next = 0; i < passes; i++)
        if (!(taken && is_bias(&pass[i])))
            pass[i].seconds = kas_samples_quantile(&launch[next++], 0.5);
}

static void give_times(kas_sweep *pass, int passes, kas_samples *launch, int launches)
{
    double sum = 0;
    int biases = 0, largest = 0;
    for (int i = 0; i < launches; i++)
        sum += kas_samples_quantile(&launch[i], 0.5);
    for (int i = 0; i < passes; i++) {
        biases += is_bias(&pass[i]);
        largest = pass[i].bytes > pass[largest].bytes ? i : largest;
    }
    if (launches == passes || launches == passes - biases)
        give_each(pass, passes, launches < passes, launch);
    else if (launches > 0)
        pass[largest].seconds = sum;
}

/* Gives all passes their times and returns the time of the rest. Passes of one operation are
 * adjacent, and so are its launches. */
static double give_all_times(kas_planned_bytes *t, const int *mark, kas_samples *launch)
{
    double given = 0;
    for (int i = 0; i < t->passes;) {
        const int operation = t->pass[i].operation, begin = mark[operation];
        int end = i;
        while (end < t->passes && t->pass[end].operation == operation)
            end++;
        give_times(&t->pass[i], end - i, &launch[begin], mark[operation + 1] - begin);
        for (; i < end; i++)
            given += isnan(t->pass[i].seconds) ? 0 : t->pass[i].seconds;
    }
    return given;
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
    if (status == KAS_OK) {
        for (int i = 0; i < launches; i++)
            out->sum += kas_samples_quantile(&launch[i], 0.5);
        out->rest =
            out->sum - give_all_times(planned, training ? m->train_mark : m->infer_mark, launch);
    }
    for (int i = 0; i < launches; i++)
        kas_samples_free(&launch[i]);
    free(launch);
    return status;
}
