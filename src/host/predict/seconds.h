/* Times one run of a plan, for measurements that are compared with one another. */
#ifndef KAS_PREDICT_SECONDS_H
#define KAS_PREDICT_SECONDS_H

#include "host/device/device.h"

/* Gets the device's time of one run. On one thread of the CPU it is the processor time: the same
 * where nothing else runs, and without what others do where something does. */
kas_status kas_plan_seconds(kas_device *device, kas_timer *timer, kas_plan *plan, double *seconds);
/* The same right after a run of `sweep`, which leaves nothing of the plan's data in the caches and takes
 * longer than the launch of a plan that was prepared (kas_plan_prepare). */
kas_status kas_plan_seconds_swept(kas_device *device, kas_timer *timer, kas_plan *sweep,
                                  kas_plan *plan, double *seconds);

#endif
