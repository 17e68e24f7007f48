/* Wide lanes: finds the accesses of a kernel that a GPU can make 16 bytes at a time.
 *
 * A *wide* kernel gives each thread a group of neighbouring lanes: as many elements of the
 * program's dtype as 16 bytes hold, 4 or 8. Within a group an index is
 *
 *     the same        p[v / 4]     one scalar load for all
 *     a run           p[v + 8]     one 16-byte access, when every group starts on a multiple of 16
 *                                  bytes: decided from coefficients alone
 *     apart           p[3 * v]     a scalar load for each lane
 *
 * There is one text for both devices: on the CPU a group has one lane (cuda/kernels/wide.h),
 * and the lane loop vectorises as before. Every buffer of a program begins on a multiple of
 * 16 bytes (program.h). */
#ifndef KAS_JIT_SCHEDULE_WIDE_H
#define KAS_JIT_SCHEDULE_WIDE_H

#include "jit/schedule/schedule.h"

/* Returns the lanes of a group. */
static inline int kas_wide(const kas_ir *ir)
{
    return 16 / (int)kas_dtype_size(ir->dtype);
}

typedef enum kas_group_kind { KAS_GROUP_SAME, KAS_GROUP_RUN, KAS_GROUP_APART } kas_group_kind;

typedef struct kas_group {
    kas_group_kind kind;
    bool aligned; /* the first lane's value is a multiple of the group's size */
} kas_group;

/* Returns how `ix` behaves in a group of lanes, when the first lane of each group is a multiple of
 * the group's size. */
kas_group kas_ix_group(const kas_ir *ir, kas_ix ix, int lane);

/* Returns whether a thread can have a group of lanes: what they write are aligned runs. */
bool kas_nest_can_widen(const kas_ir *ir, const kas_nest *nest);

/* Chooses the lanes of a thread: a group, where the kernel's writes and most of what it reads are
 * aligned runs, else 1. */
kas_status kas_nest_width(const kas_ir *ir, const kas_nest *nest, int *width);

/* Computes the bytes that the kernel's lanes access (kas_accessed). */
kas_status kas_nest_accessed(const kas_ir *ir, const kas_nest *nest, kas_accessed *out);

#endif
