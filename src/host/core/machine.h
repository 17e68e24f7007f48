/* How much of the machine this process may use. Defaults are derived from it, so it is what a batch
 * system or a container grants, which may be less than the machine has. */
#ifndef KAS_CORE_MACHINE_H
#define KAS_CORE_MACHINE_H

#include <stdint.h>

/* Returns the number of cores: those of the process's affinity mask, which batch systems and
 * taskset set, limited by the processor time that its control groups grant, rounded up. At least
 * 1. */
int kas_cores(void);

/* Returns the bytes of memory: those of the machine, or the smallest limit of the process's control
 * groups (cgroup.h). 0 means unknown. */
uint64_t kas_memory(void);

#endif
