/* The versions of a program's launches that the tuner times: schedules as programs, compiled. Internal
 * to tune. */
#ifndef KAS_TUNE_VERSIONS_H
#define KAS_TUNE_VERSIONS_H

#include "host/core/buf.h"
#include "host/tune/timing.h"
#include "host/tune/tune.h"
#include "jit/schedule/schedule_file.h"

enum {
    KAS_TUNE_VERSIONS = 13 /* schedules of a launch that are timed; the first is the default */
};

/* A schedule of a launch. */
typedef struct kas_trial {
    char *steps; /* owned; NULL: there is none */
    double predicted;
    kas_module *module; /* that has its code */
} kas_trial;

/* The search of one launch. */
typedef struct kas_tune_search {
    bool open; /* it is searched: nothing is known of it, and it is the first with its record */
    int like;  /* the first launch of the program that has the same record */
    /* The schedules that are timed, by version, the default first, then the one that a search of
     * fewer trials kept; of a known launch trial[0] is the schedule that was kept */
    kas_trial trial[KAS_TUNE_VERSIONS];
    int ranked;   /* the first version that was drawn: 1, or 2 behind an earlier search's */
    int best;     /* the fastest version so far */
    double ratio; /* of its time by the default's */
    bool warned;
} kas_tune_search;

typedef struct kas_tuner {
    kas_device *device;
    const kas_machine *machine;
    const kas_programs *programs;
    int p;
    const kas_tune_options *options;
    kas_tuned *out;
    kas_tune_search *search; /* [launches] */
    kas_program *version[KAS_TUNE_VERSIONS];
    kas_module **module; /* [modules] with the code of all versions */
    int modules;
    kas_tune_stand stand;
    kas_buf head;             /* of schedule files */
    kas_schedule_file *plain; /* with the head and the maps, and no kernel */
} kas_tuner;

/* Lowers the tuner's program again. Schedules are those of `file` (NULL: of the maps alone), and those
 * drawn by `seed` where it is not 0. */
kas_status kas_tune_build(const kas_tuner *t, const char *prefix, uint64_t seed, bool unwritten,
                          const kas_schedule_file *file, kas_program **out);
/* Lowers it, without a text, with these steps of launch i. Returns KAS_ILLEGAL or KAS_BAD_INPUT where
 * they are no schedule of it. */
kas_status kas_tune_build_launch(const kas_tuner *t, int i, const char *steps, kas_program **out);
/* Launch i of a program: of both passes, then epilogues. */
kas_operation *kas_tune_launch(const kas_program *p, int i);
/* Lowers and compiles all versions of the launches that are searched, in one text. Where that does not
 * compile, halves of it are compiled apart, until the schedules that do not compile are found: a warning
 * names their launches, and they are left out. A launch whose default does not compile is no longer
 * searched. */
kas_status kas_tune_compile(kas_tuner *t, const char *cache_dir);

#endif
