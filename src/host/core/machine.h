/* Finds out how much of the machine this process may use. A batch system or a container may grant
 * less than the machine has, and defaults must respect that. */
#ifndef KAS_CORE_MACHINE_H
#define KAS_CORE_MACHINE_H

#include <stdint.h>

/* Returns the number of cores: those of the process's affinity mask, which batch systems and
 * taskset set, limited by the processor time that its control groups grant, rounded up. At
 * least 1. */
int kas_cores(void);

/* Returns the bytes of memory: those of the machine, or the smallest limit of the process's control
 * groups (cgroup.h). 0 means unknown. */
uint64_t kas_memory(void);

#endif
