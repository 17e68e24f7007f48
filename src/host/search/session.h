/* Runs a search from start to end: it opens the problem, opens or begins the study, supervises,
 * and publishes.
 *
 * The commands `search` and `resume` differ only in where the options come from; `worker` takes
 * part in what they do.  Other folders include this header. */
#ifndef KAS_SEARCH_SESSION_H
#define KAS_SEARCH_SESSION_H

#include "host/search/devices.h"
#include "host/search/forecast.h"
#include "host/search/pack.h"
#include "host/search/supervisor/supervisor.h"
#include "host/study/code_version.h"
#include "host/study/problem.h"
#include "host/study/study_dir.h"

enum { KAS_AHEAD_CUDA = 4 };

typedef struct kas_session_request {
    const char *study;         /* folder; "" = ./studies/<net>-<data set>-<seed> */
    const char *store;         /* of a study that begins (study/study_store.h); NULL = none given */
    const char *dataset;       /* NULL: the study's */
    kas_search_options search; /* device and threads are filled in; resume ignores it */
    const char *net;           /* a name, or the path of a network file; NULL = search.net */
    const char *init;          /* weights to start from, copied into the study; NULL = random */
    const char *from;          /* a study or folder of kernels to begin with, copied into the study;
                                  NULL = none */
    const char *propose;       /* command that proposes candidates (docs/proposals.md), which no
                                  study keeps; NULL = none */
    bool may_grow;             /* the study may get more candidates, if the options ask for more
                                  than it has */
    int threads;               /* of all workers together; 0 = all cores */
    bool (*interrupted)(void); /* these three: as in kas_ancestors_run */
    void (*progress)(void *context, int scored, int wanted, double best);
    void *context;
    const char *device; /* see kas_devices_find; NULL: the study's */
    int workers;        /* 0 = one a GPU, or one */
    int pack;           /* candidates at once in a worker; 0 = 1 on the CPU, and on a GPU
                                  as many as fill it (pack.h) */
    bool stream;        /* see kas_search_options; false and 0: as the study says */
    int read_threads;
    int ahead;    /* candidates compiled ahead of need; 0 = none, -1 = KAS_AHEAD_CUDA on GPUs and
                     none on the CPU (docs/search.md) */
    int role;     /* kas_work_role */
    bool retrain; /* run final trainings again whose weights are missing */
    double hang_seconds;
    double until;              /* see kas_supervisor_options; 0 = never */
    uint64_t checkpoint_limit; /* bytes */
    uint64_t weights_limit;    /* bytes */
} kas_session_request;

typedef struct kas_session {
    char study[KAS_STUDY_PATH], dataset[KAS_STUDY_PATH];
    kas_search_options search;
    const char *place; /* `store` of the request */
    const char *init;  /* from the request, like may_grow, stream and read_threads */
    kas_buf from;      /* text of STUDY/from.json; empty = none */
    kas_buf ancestors; /* text of STUDY/ancestors.json; empty = none */
    bool may_grow, stream, retrain;
    bool takes_only;    /* kas_session_join */
    bool leaves_finals; /* as in kas_supervisor_options */
    int role;           /* kas_work_role */
    kas_devices devices;
    int workers, pack, ahead, read_threads;
    kas_pack packing; /* how `pack` was chosen; zeros when the user gave it or on a CPU */
    double hang_seconds, until;
    uint64_t checkpoint_limit, weights_limit;
    kas_problem problem;
    kas_search_forecast forecast;
    kas_strategy strategy;
    kas_asking asking; /* of the program of --propose */
    kas_store *store;  /* NULL in a dry run */
    kas_elapsed ancestors_took;
    bool created;                             /* the study began just now */
    char code_version[KAS_CODE_VERSION_SIZE]; /* of this program */
} kas_session;

/* Begins the study, or opens an existing one if it has the same options, data and sampler.
 * With `dry` it compares them too, but keeps no study open and writes nothing. The caller calls kas_session_close, also
 * after a failure. */
kas_status kas_session_begin(const kas_session_request *request, bool dry, kas_session *out);
/* Opens a study with the options with which it was begun. The caller calls kas_session_close, also
 * after a failure. */
kas_status kas_session_resume(const kas_session_request *request, kas_session *out);
/* Takes part in a study without proposing anything; `request` has the store, its name or folder,
 * the data set and the role. Fails with KAS_STORE when the program, the data set or the folder is
 * not that of the study. The caller calls kas_session_close, also after a failure. */
kas_status kas_session_join(const kas_session_request *request, kas_session *out);
void kas_session_close(kas_session *session);

/* Runs the search to its end (kas_supervise) and publishes the winner in STUDY/best, unless it
 * takes part only. */
kas_status kas_session_run(kas_session *session,
                           void (*on_event)(void *context, const kas_event *event), void *context);

#endif
