/* Benchmarks of the product itself: what `kas-gpu bench` runs.
 *
 * A suite answers one question about speed, such as "how many kernels a second does one core
 * sample?".  It measures several times, interleaved where two things are compared, and gives the
 * median with the quartiles, because times on a shared machine have a long tail; never the best of
 * several runs.  Each line of JSON says where it was measured: device, threads, version, load.
 *
 * Programs that need more than the product has, such as a peer or files of random bytes, are in the
 * folder bench/ instead.  docs/benchmarks.md has every field. */
#ifndef KAS_BENCH_BENCH_H
#define KAS_BENCH_BENCH_H

#include "host/bench/roofline.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/space/canvas/sample_options.h"
#include "host/train/stats.h"

typedef struct kas_bench_options {
    const char *net; /* NULL = every network that the suite knows; step, models: a list "a,b" */
    int c, h, w;     /* of the images; h 0 = the suite's own size for the network */
    int classes;
    const char *filter;        /* kernel sizes of the targets, as in --targets; NULL = all */
    kas_budget budget;         /* ratios of 0 = the suite's own */
    kas_sample_options sample; /* sampler: all but its budget, numbers of primitives and seed */
    double seconds;            /* sampler: of CPU time for each line; 0 = 2 */
    int repeats;               /* 0 = the suite's own number */
    int batch;                 /* 0 = the suite's own */
    const char *device;        /* as in kas_device_open; NULL = "auto" */
    int threads;               /* CPU device: 0 = all cores; sampler: samplers at once, 0 = 1 */
    const char *kernel;    /* step: kernel file that is compared with the network as it is, or NULL;
                              layers: a kernel file or a folder of them, NULL = "kernels";
                              known: a folder, NULL = "kernels" */
    const char *cache_dir; /* of the JIT; NULL = default */
    const char *dataset;   /* data: file to measure; NULL = files made for it */
    kas_precision precision;      /* step, models, layers, jit */
    bool dry_run;                 /* step: only the passes, counted from the plan, on no device */
    bool passes;                  /* step: every pass over memory with its bytes */
    bool times;                   /* step: and with its time */
    const kas_roofline *roofline; /* what the device can do; NULL = measured by each suite */
    uint64_t seed;
} kas_bench_options;

/* Where results go.  `put` gets whole lines: of JSON as they are measured, or of a table at the end
 * of the suite. */
typedef struct kas_bench_sink {
    bool json;
    void (*put)(void *context, const char *text);
    void *context;
} kas_bench_sink;

typedef struct kas_bench_suite {
    const char *name;
    const char *question; /* one line of 65 characters for the help: what it finds out */
    kas_status (*run)(const kas_bench_options *options, const kas_bench_sink *sink);
    /* About how long that takes on two cores of a server's CPU, from what the options ask for: what
     * people are told before a run, not what is measured. */
    double (*seconds)(const kas_bench_options *options);
} kas_bench_suite;

/* All suites in the order in which they run; ends with NULL. */
const kas_bench_suite *const *kas_bench_suites(void);
const kas_bench_suite *kas_bench_find(const char *name); /* NULL = no such suite */

/* Says how long each of the suites will take, and all together (a message, not a result). */
void kas_bench_announce(const kas_bench_suite *const *suite, int count,
                        const kas_bench_options *options);

/* Runs them all.  One that cannot run on this machine (KAS_UNSUPPORTED, KAS_NO_MEMORY, KAS_DEVICE)
 * says so and counts as left out; any other failure is returned, when the others have run too. */
kas_status kas_bench_run_all(const kas_bench_suite *const *suite, int count,
                             const kas_bench_options *options, const kas_bench_sink *sink);

/* ---- shared by the suites -------------------------------------------------------------------- */

/* CPU seconds of the calling thread so far: other programs disturb them only through caches and
 * clock rates. */
kas_status kas_bench_thread_seconds(double *seconds);

/* How many networks a list names; NULL: `usual`. */
int kas_bench_count_nets(const char *list, int usual);

/* The next network of a list as --net takes it, "a,b:small=1,depth=2,./c.json"; false at its end.
 * An argument has a "=" and no ":", so that its comma does not end the network.  KAS_BENCH_NET
 * characters at most; what is longer is cut, and no network has that name. */
enum { KAS_BENCH_NET = 4096 };
bool kas_bench_next_net(const char **list, char net[KAS_BENCH_NET]);

/* Begins a line of JSON: kind, suite, version, device, architecture, threads, and the machine's
 * load average of the last minute, which tells a reader how much to trust a time (null where it is
 * not known). */
void kas_bench_line_begin(kas_buf *line, const char *suite, const kas_device_info *info);
/* Fields NAME (the median), NAME_q1, NAME_q3. */
void kas_bench_line_spread(kas_buf *line, const char *name, kas_samples *samples);
/* Ends the line and hands it to the sink, which gets nothing when memory was exhausted. */
kas_status kas_bench_line_put(kas_buf *line, const kas_bench_sink *sink);
/* Writes a table for people behind its title; nothing when the sink wants JSON. */
kas_status kas_bench_table_put(const kas_table *table, const char *title,
                               const kas_bench_sink *sink);

#endif
