#include "host/predict/seconds.h"

#include "host/core/clock.h"

kas_status kas_plan_seconds(kas_device *device, kas_timer *timer, kas_plan *plan, double *seconds)
{
    const kas_device_info *info = kas_device_get_info(device);
    const double before = kas_processor_seconds();
    KAS_TRY(kas_plan_time(plan, timer, seconds));
    if (info->kind == KAS_DEVICE_CPU && info->threads == 1)
        *seconds = kas_processor_seconds() - before;
    return KAS_OK;
}
