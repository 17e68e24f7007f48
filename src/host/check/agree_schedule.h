/* Checks that a schedule file changes no value: with its schedules a kernel computes what the
 * float64 reference computes (agree.h), and the very bits that the default schedules give where the
 * order of sums stays. A compiler may round a product and a sum at once in one text and not in
 * another, so bits are compared on a CPU with both rounded apart; on a GPU they are compared as
 * they are. Other folders include this header. */
#ifndef KAS_CHECK_AGREE_SCHEDULE_H
#define KAS_CHECK_AGREE_SCHEDULE_H

#include "host/check/agree.h"
#include "host/space/solve/replacement.h"
#include "jit/schedule/schedule_file.h"

typedef enum kas_schedule_bits {
    KAS_BITS_SAME,       /* as by the default schedules */
    KAS_BITS_OTHER_SUMS, /* other bits, because a schedule adds up in another order */
    KAS_BITS_CONTRACTED, /* other bits on a GPU, whose compiler may be the cause */
    KAS_BITS_WRONG       /* other bits though all sums have the default's order: an error of ours */
} kas_schedule_bits;
extern const char *const kas_schedule_bits_names[]; /* between "bits" and "by the default" */

/* Checks the kernel at target number t. options->schedule_file is the file; its batch, device, phase and
 * precision are used in place of those of the options. Of an inference the kernels
 * of the epilogues are checked with it. With KAS_BITS_WRONG the verdict is failed. */
kas_status kas_agree_schedule(kas_device *device, kas_compiler *compiler,
                              const kas_replacement *replacement, int t,
                              const kas_agree_options *options, kas_agreement *result,
                              kas_schedule_bits *bits);

#endif
