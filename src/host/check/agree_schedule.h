/* Checks that a schedule file changes no value: with its schedules a kernel computes what the
 * float64 reference computes (agree.h), and perhaps the very bits that the default schedules give.
 * Steps that keep the order of sums keep the bits, too, as far as a compiler contracts products and
 * sums alike. Other folders include this header. */
#ifndef KAS_CHECK_AGREE_SCHEDULE_H
#define KAS_CHECK_AGREE_SCHEDULE_H

#include "host/check/agree.h"
#include "jit/schedule/schedule_file.h"

/* Checks a kernel at one target. options->schedule_file is the file; batch and device of the file
 * are used in place of those of the options. *same_bits gets whether all outputs have the bits that
 * they have by default. */
kas_status kas_agree_schedule(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                              const kas_target *target, const kas_binding *binding,
                              const kas_agree_options *options, kas_agreement *result,
                              bool *same_bits);

#endif
