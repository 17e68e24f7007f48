/* Limits that control groups set for this process. Containers and batch systems such as Slurm use
 * them; the processor affinity and the size of the machine do not show them.
 *
 * Both versions are read, cgroup v2 (memory.max, cpu.max) and v1 (memory.limit_in_bytes,
 * cpu.cfs_quota_us). The limits are those of the process's own group and of every visible group
 * above it, because a limit of a group binds all groups below it. */
#ifndef KAS_CORE_CGROUP_H
#define KAS_CORE_CGROUP_H

#include <stdint.h>

typedef struct kas_cgroup_limits {
    uint64_t memory; /* bytes; UINT64_MAX = no limit */
    double cores;    /* processor seconds per second; INFINITY = no limit */
} kas_cgroup_limits;

/* Reads ROOT/proc/self/cgroup, ROOT/proc/self/mountinfo and, below ROOT, the groups that they name.
 * `root` is "" except in tests. A file that is missing or cannot be understood sets no limit. */
kas_cgroup_limits kas_cgroup_read(const char *root);

#endif
