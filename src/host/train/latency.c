/* Measures the latency of inference. */

#include "host/model/model.h"
#include "host/train/stats.h"
#include "host/train/train.h"

/* Enough repeats for a stable median, few enough for a search; measuring stops when either limit
 * is reached. */
enum { WARM_UP = 3, MIN_REPEATS = 10, MAX_REPEATS = 100 };
static const double most_seconds = 1.0;

/* Measures a plan. The batch holds normal numbers, because zeros and denormals take a different
 * time than images. */
static kas_status measure(kas_device *device, kas_plan *plan, kas_samples *samples)
{
    kas_timer *timer = NULL;
    double seconds, sum = 0;
    kas_status status = KAS_OK;
    KAS_TRY(kas_timer_create(device, &timer));
    for (int i = 0; i < WARM_UP; i++)
        KAS_TRY_GOTO(kas_plan_run(plan), out);
    KAS_TRY_GOTO(kas_device_sync(device), out);
    while (samples->count < MAX_REPEATS && (samples->count < MIN_REPEATS || sum < most_seconds)) {
        KAS_TRY_GOTO(kas_timer_start(timer), out);
        KAS_TRY_GOTO(kas_plan_run(plan), out);
        KAS_TRY_GOTO(kas_timer_stop(timer, &seconds), out);
        KAS_TRY_GOTO(kas_samples_add(samples, seconds), out);
        sum += seconds;
    }
out:
    kas_timer_free(timer);
    return status;
}

kas_status kas_measure_latency(kas_device *device, const kas_net *net, kas_programs *programs,
                               int batch, kas_precision precision, kas_latency *out)
{
    const kas_model_options options = {
        .net = net, .programs = programs, .batch = batch, .precision = precision};
    kas_step_options step = {.mode = KAS_TAPE_INFER};
    kas_model *model = NULL;
    kas_plan *plan = NULL;
    kas_samples samples = {0};
    kas_status status = KAS_OK;
    *out = (kas_latency){0};
    KAS_TRY_GOTO(kas_model_create(device, &options, &model), out);
    KAS_TRY_GOTO(kas_model_init(model, 0), out);
    KAS_TRY_GOTO(kas_model_record(model, &step, &plan), out);
    KAS_TRY_GOTO(kas_model_draw_images(model), out);
    KAS_TRY_GOTO(measure(device, plan, &samples), out);
    out->median = kas_samples_quantile(&samples, 0.5);
    out->iqr = kas_samples_quantile(&samples, 0.75) - kas_samples_quantile(&samples, 0.25);
    out->repeats = samples.count;
out:
    kas_samples_free(&samples);
    kas_plan_free(plan);
    kas_model_free(model);
    return status;
}
