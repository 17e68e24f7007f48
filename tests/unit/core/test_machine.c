/* What the process may use: limits of control groups in trees made for the purpose, and what this
 * machine says. */
#include "support/test.h"

#include <libgen.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/cgroup.h"
#include "host/core/file/files.h"
#include "host/core/machine.h"
#include "support/folder.h"

#define GIB (UINT64_C(1) << 30)

static void put(const char *path, const char *text)
{
    char whole[512], above[512];
    snprintf(whole, sizeof whole, "%s%s", folder, path);
    snprintf(above, sizeof above, "%s", whole);
    OK(kas_mkdirs(dirname(above)));
    OK(kas_file_write_atomic(whole, text, strlen(text)));
}

static void assert_limits(uint64_t memory, double cores)
{
    const kas_cgroup_limits got = kas_cgroup_read(folder);
    assert_int_equal(got.memory, memory);
    assert_true(got.cores == cores);
}

#define MOUNT_V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

/* A step of a Slurm job: the job's limit, two levels up, binds. */
TEST_WITH(second_version, make_folder, remove_folder)
{
    put("/proc/self/mountinfo", "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n" MOUNT_V2);
    put("/proc/self/cgroup", "0::/slurm/job_7/step_0/task_1\n");
    put("/sys/fs/cgroup/slurm/job_7/step_0/task_1/memory.max", "max\n");
    put("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "8589934592\n");
    put("/sys/fs/cgroup/slurm/job_7/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/slurm/job_7/cpu.max", "250000 100000\n");
    put("/sys/fs/cgroup/slurm/memory.max", "17179869184\n");
    put("/sys/fs/cgroup/slurm/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/other/memory.max", "1024\n");
    assert_limits(4 * GIB, 2.5);
}

/* A container with a group namespace of its own: its group is the root that it sees. */
TEST_WITH(container, make_folder, remove_folder)
{
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_limits(2 * GIB, 0.5);
}

/* One hierarchy a controller; the mount shows the container's part of each. */
TEST_WITH(first_version, make_folder, remove_folder)
{
    put("/proc/self/mountinfo",
        "40 30 0:35 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "41 30 0:36 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "42 30 0:37 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n");
    put("/proc/self/cgroup",
        "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc/inner\n3:cpuset:/docker/abc\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "1\n"); /* not that controller's hierarchy */
    put("/sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n");
    assert_limits(3 * GIB, 3);
}

/* The group lies outside of what is mounted: the topmost that is seen still counts. */
TEST_WITH(group_out_of_sight, make_folder, remove_folder)
{
    put("/proc/self/mountinfo",
        "40 30 0:35 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n" MOUNT_V2);
    put("/proc/self/cgroup", "4:memory:/docker/abcdef\n0::/../other\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/def/memory.limit_in_bytes", "1024\n");
    put("/sys/fs/other/memory.max", "1024\n");
    put("/sys/fs/cgroup/memory.max", "2147483648\n");
    assert_limits(GIB, INFINITY);
}

TEST_WITH(without_limits, make_folder, remove_folder)
{
    assert_limits(UINT64_MAX, INFINITY); /* nothing there at all */
    put("/proc/self/mountinfo", "nonsense - \n\n - cgroup2\n" MOUNT_V2);
    assert_limits(UINT64_MAX, INFINITY);
    put("/proc/self/cgroup", "nonsense\n0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.max", "12GB\n");
    put("/sys/fs/cgroup/memory.max", "-5\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/cpu.max", "100000\n");
    put("/sys/fs/cgroup/cpu.max", "\n");
    assert_limits(UINT64_MAX, INFINITY);
}

TEST(this_machine)
{
    cpu_set_t all, one;
    const kas_cgroup_limits limits = kas_cgroup_read("");
    const uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(kas_memory(), limits.memory < physical ? limits.memory : physical);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(kas_cores(), 1, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(kas_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

RUN_TESTS()
