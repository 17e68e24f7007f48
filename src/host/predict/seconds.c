#include "host/predict/seconds.h"

#include "host/core/clock.h"

static bool is_one_thread(const kas_device *device)
{
    const kas_device_info *info = kas_device_get_info(device);
    return info->kind == KAS_DEVICE_CPU && info->threads == 1;
}

kas_status kas_plan_seconds(kas_device *device, kas_timer *timer, kas_plan *plan, double *seconds)
{
    const double before = kas_processor_seconds();
    KAS_TRY(kas_plan_time(plan, timer, seconds));
    if (is_one_thread(device))
        *seconds = kas_processor_seconds() - before;
    return KAS_OK;
}

kas_status kas_plan_seconds_swept(kas_device *device, kas_timer *timer, kas_plan *sweep,
                                  kas_plan *plan, double *seconds)
{
    KAS_TRY(kas_plan_run(sweep));
    const double before = kas_processor_seconds();
    KAS_TRY(kas_timer_start(timer));
    KAS_TRY(kas_plan_run(plan));
    KAS_TRY(kas_timer_stop(timer, seconds));
    if (is_one_thread(device))
        *seconds = kas_processor_seconds() - before;
    return KAS_OK;
}
