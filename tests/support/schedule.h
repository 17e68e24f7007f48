/* A kernel's nest with its default schedule, for tests of single kernels. */
#ifndef KAS_TESTS_SUPPORT_SCHEDULE_H
#define KAS_TESTS_SUPPORT_SCHEDULE_H

#include "jit/schedule/schedule.h"

static inline kas_status schedule_kernel(kas_ir *ir, int tensor, kas_ex value, kas_nest *out)
{
    kas_schedule schedule;
    KAS_TRY(kas_nest_open(ir, tensor, value, out));
    KAS_TRY(kas_schedule_default(ir, out, &schedule));
    return kas_schedule_apply(ir, &schedule, out);
}

#endif
