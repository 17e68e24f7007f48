/* What the control groups that this process is in allow it: the limits of containers and of batch
 * systems such as Slurm, which affinity and the size of the machine do not show.
 *
 * Both kinds are read, cgroup v2 (memory.max, cpu.max) and v1 (memory.limit_in_bytes,
 * cpu.cfs_quota_us), at the group itself and at every group above it that can be seen: a limit
 * binds all below it. */
#ifndef KAS_CORE_CGROUP_H
#define KAS_CORE_CGROUP_H

#include <stdint.h>

typedef struct kas_cgroup_limits {
    uint64_t memory; /* bytes; UINT64_MAX = none */
    double cores;    /* processor time by time; INFINITY = none */
} kas_cgroup_limits;

/* Reads ROOT/proc/self/cgroup and mountinfo, and the groups where those say, below ROOT: "" but in
 * tests. What is missing or cannot be understood limits nothing. */
kas_cgroup_limits kas_cgroup_read(const char *root);

#endif
