/* What this process may use of the machine: defaults are planned with it, so it is what a batch
 * system or a container leaves, not what the machine has. */
#ifndef KAS_CORE_MACHINE_H
#define KAS_CORE_MACHINE_H

#include <stdint.h>

/* Cores: those of its affinity, as batch systems and taskset set it, at most as many as its control
 * groups give time for, rounded up. At least 1. */
int kas_cores(void);

/* Bytes of memory: the machine's, or the smallest limit of its control groups (cgroup.h).
 * 0: unknown. */
uint64_t kas_memory(void);

#endif
