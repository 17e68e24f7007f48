/* The benchmarks of `kas-gpu bench`.
 *
 * A suite answers one question about speed, such as "how many kernels a second does one core
 * sample?".  It measures several times, interleaved where two things are compared, and reports the
 * median with the quartiles, because times on a shared machine have a long tail. It never reports
 * the best of several runs. Each line of JSON says where it was measured: device, threads,
 * version, load.
 *
 * Benchmarks that need more than the product, such as another framework or files of random bytes,
 * are in the folder bench/. docs/benchmarks.md describes every field. */
#ifndef KAS_BENCH_BENCH_H
#define KAS_BENCH_BENCH_H

#include "host/predict/keep.h"
#include "host/predict/machine.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/space/attempt.h"
#include "host/space/canvas/sample_options.h"
#include "host/train/stats.h"

typedef struct kas_bench_options {
    const char *net; /* NULL = every network that the suite knows; step, models: a list "a,b" */
    int c, h, w;     /* of the images; h 0 = the suite's own size for the network */
    int classes;
    const char *filter;         /* the layers to replace, as in --targets; NULL = square */
    kas_budget budget;          /* ratios of 0 = the suite's own */
    kas_sample_options sample;  /* sampler: budget, numbers of primitives and seed in it are
                                  ignored */
    double seconds;             /* sampler: of CPU time for each line; 0 = 2 */
    int repeats;                /* 0 = the suite's own number */
    int batch;                  /* 0 = the suite's own */
    const char *device;         /* as in kas_device_open; NULL = "auto" */
    int threads;                /* CPU device: 0 = all cores; sampler: samplers at once, 0 = 1 */
    const char *kernel;         /* step: kernel file to compare with the unmodified network, or
                                  NULL; layers: a kernel file or a folder of them, NULL =
                                  "kernels"; known: a folder, NULL = "kernels"; predicted: a
                                  kernel file or a folder of them, NULL = none */
    const char *cache_dir;      /* of the JIT; NULL = default */
    const char *dataset;        /* data: file to measure; NULL = generated files */
    kas_precision precision;    /* step, models, layers, jit, predicted */
    bool dry_run;               /* step: only the passes, counted from the plan, without a device */
    bool passes;                /* step: report every pass over memory with its bytes */
    bool times;                 /* step: report the time of every pass too */
    const kas_machine *machine; /* its bandwidth and rate are the device's; NULL = each suite
                                   measures them. predicted: the machine, NULL = h100 */
    uint64_t seed;
    kas_keep keep; /* step, predicted: of the kernels */
    bool tuned;    /* layers: kernels have the schedules that were tuned on the device */
} kas_bench_options;

/* The receiver of results. `put` gets whole lines: of JSON as they are measured, or of a table at
 * the end of the suite. */
typedef struct kas_bench_sink {
    bool json;
    void (*put)(void *context, const char *text);
    void *context;
} kas_bench_sink;

typedef struct kas_bench_suite {
    const char *name;
    const char *question; /* what the suite finds out: one line of at most 65 characters for the
                             help */
    kas_status (*run)(const kas_bench_options *options, const kas_bench_sink *sink);
    /* Estimates how long the suite takes with these options on two cores of a server's CPU. Users
     * are told the estimate before a run. */
    double (*seconds)(const kas_bench_options *options);
} kas_bench_suite;

/* All suites in the order in which they run; ends with NULL. */
const kas_bench_suite *const *kas_bench_suites(void);
const kas_bench_suite *kas_bench_find(const char *name); /* NULL = no such suite */

/* Prints, as a message, how long each suite will take, and all of them together. */
void kas_bench_announce(const kas_bench_suite *const *suite, int count,
                        const kas_bench_options *options);

/* Runs all the suites. A suite that cannot run on this machine (KAS_UNSUPPORTED, KAS_NO_MEMORY,
 * KAS_DEVICE) says so and is left out. Any other failure is returned after the other suites
 * have run. */
kas_status kas_bench_run_all(const kas_bench_suite *const *suite, int count,
                             const kas_bench_options *options, const kas_bench_sink *sink);

/* ---- shared by the suites -------------------------------------------------------------------- */

/* Returns how many networks a list names; `usual` when it is NULL. */
int kas_bench_count_nets(const char *list, int usual);

/* Gets the next network of a list as --net takes it, such as "a,b:small=1,depth=2,./c.json";
 * returns false at its end. A part with "=" and without ":" is an argument, so the comma in front
 * of it does not end the network. A name longer than KAS_BENCH_NET characters is cut, and then no
 * network has it. */
enum { KAS_BENCH_NET = 4096 };
bool kas_bench_next_net(const char **list, char net[KAS_BENCH_NET]);
/* Builds a network for the images of the options, or for squares of `side` pixels. */
kas_status kas_bench_net(const kas_bench_options *o, const char *name, int side, kas_net **out);
/* Returns the budget of the options: half of the FLOPs and all of the parameters where it names none. */
kas_budget kas_bench_budget(const kas_bench_options *o);

/* Calls `each` for a kernel file, or for the kernel files (*.json) of a folder in the order of
 * their names, until it fails. */
kas_status kas_bench_kernel_files(const char *path,
                                  kas_status (*each)(void *context, const char *file),
                                  void *context);

/* Begins a line of JSON with kind, suite, version, device, architecture, threads, and the machine's
 * load average of the last minute, which tells a reader how much to trust a time (null where it is
 * not known). */
void kas_bench_line_begin(kas_buf *line, const char *suite, const kas_device_info *info);
/* Adds the fields NAME (the median), NAME_q1 and NAME_q3. */
void kas_bench_line_spread(kas_buf *line, const char *name, kas_samples *samples);
/* Adds the field "rejected": how many tries were rejected for each reason. */
void kas_bench_line_rejected(kas_buf *line, const uint64_t rejected[KAS_REJECT_COUNT]);
/* Ends the line and gives it to the sink, unless memory was exhausted. */
kas_status kas_bench_line_put(kas_buf *line, const kas_bench_sink *sink);
/* Writes a table behind its title; does nothing when the sink takes JSON. */
kas_status kas_bench_table_put(const kas_table *table, const char *title,
                               const kas_bench_sink *sink);

#endif
