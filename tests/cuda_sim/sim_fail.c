/* Failures on demand, counts, random numbers. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

int sim_sticky, sim_live, sim_launches, sim_matmuls, sim_convolutions, sim_graphs, sim_plans,
    sim_waits, sim_idle_waits;
static int makings;

static struct {
    bool read; /* the environment was read */
    char function[64];
    int remaining, code; /* 0 remaining: none */
    bool sticky, hangs, delays, kills, happened;
    char failed_in[64];
    char refused[64], loses_nan[64];
    uint64_t random;
} sim;

void sim_broken(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("cuda_sim: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

/* Reads NAME:NTH[:CODE[:once|sticky|hang|delay|kill]]. */
static void read_failure(const char *text)
{
    char function[64], kind[16] = "once";
    int nth = 0, code = 0;
    if (sscanf(text, "%63[^:]:%d:%d:%15s", function, &nth, &code, kind) < 2 || nth < 1 ||
        (strcmp(kind, "once") != 0 && strcmp(kind, "sticky") != 0 && strcmp(kind, "hang") != 0 &&
         strcmp(kind, "delay") != 0 && strcmp(kind, "kill") != 0))
        sim_broken("KAS_SIM_FAIL=%s: expected FUNCTION:NTH[:CODE[:once|sticky|hang|delay|kill]]",
                   text);
    kas_sim_fail(function, nth, code, strcmp(kind, "sticky") == 0);
    sim.hangs = strcmp(kind, "hang") == 0;
    sim.delays = strcmp(kind, "delay") == 0;
    sim.kills = strcmp(kind, "kill") == 0;
}

static void read_environment(void)
{
    if (sim.read)
        return;
    sim.read = true;
    const char *fail = getenv("KAS_SIM_FAIL"), *refuse = getenv("KAS_SIM_REFUSE"),
               *seed = getenv("KAS_SIM_SEED"), *nan = getenv("KAS_SIM_LOSE_NAN");
    sim.random = (seed ? strtoull(seed, NULL, 10) : 1) * 0x9E3779B97F4A7C15u + 1;
    if (fail && *fail)
        read_failure(fail);
    if (refuse)
        kas_sim_refuse(refuse);
    if (nan)
        kas_sim_lose_nan(nan);
}

uint32_t sim_random(uint32_t below)
{
    read_environment();
    sim.random = sim.random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(sim.random >> 33) % below;
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

int sim_enter(void)
{
    pthread_mutex_lock(&lock);
    return 1;
}

void sim_leave(int *held)
{
    (void)held;
    pthread_mutex_unlock(&lock);
}

/* Returns whether the failure is this process's: not if another process, which then made the file,
 * had it already. */
static bool may_fail(void)
{
    const char *once = getenv("KAS_SIM_FAIL_ONCE");
    if (!once)
        return true;
    const int file = open(once, O_CREAT | O_EXCL | O_WRONLY, 0666);
    if (file >= 0)
        close(file);
    return file >= 0;
}

static void count(const char *name)
{
    static const char *const
        waiting[] = {"cuStreamSynchronize", "cuEventSynchronize", "cuMemFree_v2", "cuMemFreeHost",
                     "cuModuleUnload"},
        *const making[] = {"cuMemAlloc_v2",  "cuMemHostAlloc",   "cuStreamCreate",
                           "cuEventCreate",  "cuModuleLoadData", "cuGraphInstantiateWithFlags",
                           "cublasLtCreate", "cudnnCreate",      "cudnnBackendCreateDescriptor"};
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
        sim_waits += strcmp(name, waiting[i]) == 0;
    for (size_t i = 0; i < sizeof making / sizeof *making; i++)
        makings += strcmp(name, making[i]) == 0;
}

/* Returns whether the failure is of this function: "nccl*" is of all that begin so. */
static bool is_meant(const char *name)
{
    const char *star = strchr(sim.function, '*');
    return star ? strncmp(sim.function, name, (size_t)(star - sim.function)) == 0
                : strcmp(sim.function, name) == 0;
}

/* Counts a call and returns the code of a failure that is its own, else 0. */
static int plant(const char *name, int fitting)
{
    if (!sim.remaining || !is_meant(name) || --sim.remaining > 0 || !may_fail())
        return 0;
    sim.happened = true;
    snprintf(sim.failed_in, sizeof sim.failed_in, "%s%s", sim_capturing() ? "captured " : "", name);
    if (sim.kills)
        raise(SIGKILL);
    while (sim.hangs) /* until the process is killed */
        pause();
    if (sim.delays) {
        usleep(1000u * (unsigned)sim.code);
        return 0;
    }
    const int code = sim.code ? sim.code : fitting;
    if (sim.sticky)
        sim_sticky = code;
    return code;
}

int sim_call(const char *name, int fitting, int dead)
{
    SIM_LOCKED();
    read_environment();
    count(name);
    if (sim_sticky && dead)
        return dead;
    const int code = plant(name, fitting);
    if (!code)
        sim_some_progress();
    return code;
}

int sim_planted(const char *name, int fitting)
{
    if (strcmp(sim.function, name) != 0 || pthread_mutex_trylock(&lock) != 0)
        return 0;
    const int code = plant(name, fitting);
    pthread_mutex_unlock(&lock);
    return code;
}

bool sim_refuses(const char *library)
{
    read_environment();
    return strstr(sim.refused, library) != NULL;
}

bool sim_loses_nan(const char *library)
{
    read_environment();
    return strstr(sim.loses_nan, library) != NULL;
}

void kas_sim_fail(const char *function, int nth, int code, bool sticky)
{
    sim.read = sim.read || !function;
    snprintf(sim.function, sizeof sim.function, "%s", function ? function : "");
    sim.remaining = function ? nth : 0;
    sim.code = code;
    sim.sticky = sticky;
    sim.hangs = sim.delays = sim.kills = sim.happened = false;
}

bool kas_sim_failed(char name[64])
{
    snprintf(name, 64, "%s", sim.happened ? sim.failed_in : "");
    return sim.happened;
}

int kas_sim_live(void)
{
    return sim_live;
}

void kas_sim_counts(int *launches, int *matmuls, int *convolutions)
{
    *launches = sim_launches;
    *matmuls = sim_matmuls;
    *convolutions = sim_convolutions;
}

void kas_sim_waits(int *all, int *idle)
{
    *all = sim_waits;
    *idle = sim_idle_waits;
}

int kas_sim_makings(void)
{
    return makings;
}

int kas_sim_graphs(void)
{
    return sim_graphs;
}

int kas_sim_plans(void)
{
    return sim_plans;
}

void kas_sim_refuse(const char *libraries)
{
    snprintf(sim.refused, sizeof sim.refused, "%s", libraries);
}

void kas_sim_lose_nan(const char *libraries)
{
    snprintf(sim.loses_nan, sizeof sim.loses_nan, "%s", libraries);
}

void kas_sim_reset(void)
{
    sim_driver_reset();
    kas_sim_fail(NULL, 0, 0, false);
    sim_sticky = sim_launches = sim_matmuls = sim_convolutions = sim_graphs = sim_plans = 0;
    sim_waits = sim_idle_waits = makings = 0;
    sim.refused[0] = sim.loses_nan[0] = '\0';
}
