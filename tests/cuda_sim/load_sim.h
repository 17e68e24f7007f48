/* For test programs: makes the stand-in the CUDA device of this process and finds its controls. */
#ifndef KAS_TESTS_CUDA_SIM_LOAD_SIM_H
#define KAS_TESTS_CUDA_SIM_LOAD_SIM_H

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    void (*make_fail)(const char *function, int nth, int code, bool sticky);
    bool (*failed)(char name[64]);
    int (*live)(void);
    void (*counts)(int *launches, int *matmuls, int *convolutions);
    int (*graphs)(void);
    int (*plans)(void);
    void (*waits)(int *all, int *idle);
    int (*makings)(void);
    void (*refuse)(const char *libraries);
    void (*lose_nan)(const char *libraries);
    void (*reset)(void);
    char path[PATH_MAX];
} sim;

/* A set-up function of cmocka: loads the stand-in, which lies in the build folder's tests/, the
 * folder above this program. Returns -1 on failure. */
static int load_sim(void **state)
{
    (void)state;
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return -1;
    self[length] = '\0';
    char *tests = NULL;
    for (char *at = self; (at = strstr(at, "/tests/")); at++)
        tests = at;
    if (!tests)
        return -1;
    *tests = '\0';
    char name[PATH_MAX + 64]; /* `make asan` has a link there to the file of the plain build */
    snprintf(name, sizeof name, "%s/tests/libkas_cuda_sim.so", self);
    if (!realpath(name, sim.path)) {
        perror(name);
        return -1;
    }
    void *handle = dlopen(sim.path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    *(void **)&sim.make_fail = dlsym(handle, "kas_sim_fail");
    *(void **)&sim.failed = dlsym(handle, "kas_sim_failed");
    *(void **)&sim.live = dlsym(handle, "kas_sim_live");
    *(void **)&sim.counts = dlsym(handle, "kas_sim_counts");
    *(void **)&sim.graphs = dlsym(handle, "kas_sim_graphs");
    *(void **)&sim.plans = dlsym(handle, "kas_sim_plans");
    *(void **)&sim.waits = dlsym(handle, "kas_sim_waits");
    *(void **)&sim.makings = dlsym(handle, "kas_sim_makings");
    *(void **)&sim.refuse = dlsym(handle, "kas_sim_refuse");
    *(void **)&sim.lose_nan = dlsym(handle, "kas_sim_lose_nan");
    *(void **)&sim.reset = dlsym(handle, "kas_sim_reset");
    return sim.make_fail && sim.failed && sim.live && sim.counts && sim.graphs && sim.plans &&
                   sim.waits && sim.makings && sim.refuse && sim.lose_nan && sim.reset
               ? setenv("KAS_CUDA_PLANS", "heuristic", 1) || setenv("KAS_CUDA_LIBS", sim.path, 1)
               : -1;
}

#endif
