#include "host/check/agree_schedule.h"

#include <stdlib.h>

kas_status kas_agree_schedule(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                              const kas_target *target, const kas_binding *binding,
                              const kas_agree_options *options, kas_agreement *result,
                              bool *same_bits)
{
    kas_agree_options o = *options;
    kas_agreement plain;
    kas_schedule_file *none = calloc(1, sizeof *none); /* prescribes nothing */
    if (!none)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
    o.batch = options->schedule_file->batch;
    o.linear_policy = options->schedule_file->cpu ? KAS_LINEAR_CPU : KAS_LINEAR_GPU;
    kas_status status = kas_agree(device, compiler, kernel, target, binding, 1, &o, result);
    o.schedule_file = none;
    o.directions = 0; /* the reference was checked */
    if (status == KAS_OK)
        status = kas_agree(device, compiler, kernel, target, binding, 1, &o, &plain);
    free(none);
    if (status == KAS_OK)
        *same_bits = plain.digest == result->digest;
    return status;
}
