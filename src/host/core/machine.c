#include "host/core/machine.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#include "host/core/cgroup.h"

int kas_cores(void)
{
    cpu_set_t set;
    const bool known = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0;
    return (int)fmin(known ? CPU_COUNT(&set) : 1, ceil(kas_cgroup_read("").cores));
}

uint64_t kas_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0,
                   allowed = kas_cgroup_read("").memory;
    return machine > 0 && machine < allowed ? machine : allowed < UINT64_MAX ? allowed : machine;
}
