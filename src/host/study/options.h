/* The options of a study: everything that determines its results, and nothing else.
 *
 * They are written to the study as canonical JSON when it begins (fixed order of fields, numbers in
 * the shortest form that reads back to the same bits). A later command with other options is
 * refused, and the message names the differences. How the work is distributed (number of workers,
 * which GPUs, time limits for hung workers) is not part of the options, because the results do not
 * depend on it. */
#ifndef KAS_STUDY_OPTIONS_H
#define KAS_STUDY_OPTIONS_H

#include <stdint.h>

#include "host/core/buf.h"
#include "host/core/status.h"
#include "host/net/net.h"
#include "host/space/canvas/sample_options.h"
#include "host/train/train.h"

/* The number of images in the forward pass whose latency is measured. */
enum { KAS_LATENCY_BATCH = 32 };

/* Where candidates come from (strategy/strategy.h). */
typedef enum kas_strategy_kind {
    KAS_STRATEGY_RANDOM,
    KAS_STRATEGY_EVOLUTION,
    KAS_STRATEGY_TREE
} kas_strategy_kind;
extern const char *const kas_strategy_names[]; /* NULL-terminated */
/* What a study looks for (leaderboard/objective.h). */
typedef enum kas_objective {
    KAS_OBJECTIVE_ACCURACY, /* the most accurate kernel */
    KAS_OBJECTIVE_LATENCY,  /* the fastest kernel that loses less than max_loss */
    KAS_OBJECTIVE_FRONTIER  /* accuracy and latency; the answer is that of LATENCY, and where there
                               is none that of ACCURACY */
} kas_objective;
extern const char *const kas_objective_names[]; /* NULL-terminated */
enum { KAS_FINALISTS_MOST = 32, KAS_ANCESTORS_MOST = 100000 };
/* The candidates whose schedules are searched before their latency is measured (tune/tune.h): none,
 * the finalists, or all. */
typedef enum kas_tuning { KAS_TUNE_NONE, KAS_TUNE_FRONTIER, KAS_TUNE_ALL } kas_tuning;
extern const char *const kas_tuning_names[]; /* NULL-terminated */

typedef struct kas_search_options {
    char net[KAS_NET_KEPT_NAME];    /* its name; for a network from a file it ends in a part of the
                                    digest */
    const char *network;            /* text of that file (kas_net_keep); "" = the name is enough */
    char scaling[KAS_SCALING_TEXT]; /* of the data set; "" in studies that older versions began */
    char targets[128];              /* the layers to replace (net/targets.h); "" = square */
    uint64_t seed;
    int candidates;            /* the first N that the sampler gives; 0 = until time_limit */
    double time_limit;         /* seconds of wall time in all runs together; 0 = by count */
    kas_recipe recipe;         /* of every candidate, and of the final trainings */
    double flops;              /* limit relative to the replaced convolutions; 0 = no limit */
    double params;             /* likewise */
    kas_sample_options sample; /* sampler; its seed and budget are the fields here; its space
                                  is written as a field of the study */
    double latency;            /* limit relative to the baseline's measured latency; 0 = no limit */
    double validation;         /* share of the training set that the search validates on */
    char prune[16];            /* "curve", "none" or "deterministic" */
    int prune_window;          /* deterministic: candidate k is compared with those before k -
                                  window */
    char init[65];     /* SHA-256 of the weights that every training starts from; "" = random */
    bool init_partial; /* tensors in it that do not fit are left out */
    char device[16];   /* "cpu" or "cuda"; latencies and bits depend on it */
    int threads;       /* of each worker */
    /* The way in which images are read affects no result (train/feed.h), so a later command may
     * stream too, or with other threads. These are the values for commands that do not say. */
    bool stream;      /* leave images in the file even if they fit in memory */
    int read_threads; /* of each training that streams; 0 = as many as it can use */
    /* Strategy and generations. */
    int strategy;       /* kas_strategy_kind */
    int population;     /* of evolution; 0 = not asked for, and so are the next two */
    int tournament;     /* members of the population that compete to be a parent */
    int generation;     /* candidates in a generation, 0 without any; generation 0 of evolution is a
                           population */
    int ancestors;      /* kernels of evolution that evolve before anything is trained, for
                           generation 0 (search/ancestors.h); 0 = none */
    char ancestry[65];  /* SHA-256 of STUDY/ancestors.json, where they are kept; "" = none */
    bool known;         /* the first candidates are the known kernels (kernels/) that fit */
    char from[65];      /* SHA-256 of STUDY/from.json: kernels that come after these; "" = none */
    kas_int_list rungs; /* epochs at which the best third of a generation goes on; empty = all go
                           on; the first may be KAS_RUNG_OF_IMITATION */
    double theta;       /* of the curve rule (train/prune.h) */
    /* Prediction (search/forecast.h). */
    char latency_on[128]; /* machine on which `latency` is a limit; "" = the study's device */
    char machine[65];     /* SHA-256 of STUDY/machine.json; "" = nothing is predicted */
    bool warm_start;      /* candidates begin with the weights of the study's trained baseline */
    int imitate; /* epochs of a candidate in the search, whose kernels have learned to imitate the
                    trained baseline's convolutions before; 0 = it is trained like the baseline */
    double most_missed; /* share of the convolutions' variance that the kernels may miss after
                           imitation, or the candidate is screened out; 0 = any share */
    /* The objective and the end of the search. */
    int objective;      /* kas_objective */
    double max_loss;    /* points of accuracy that may be lost against the unmodified network */
    bool halves;        /* half of the validation images select, the other half confirms; false in
                        studies of before there were halves: all of them select */
    int finalists;      /* candidates that are trained on the whole training set */
    int seeds;          /* of each final training, 1 to KAS_REPEATS_MOST */
    double exploration; /* of the tree: c of strategy/tree.h; 0 = not asked for */
    bool asynchronous;  /* rungs without generations: see leaderboard/rungs.h */
    bool keep_slower;   /* a layer keeps its convolution where a kernel does not fit or is predicted
                           to be slower on `machine` (predict/keep.h) */
    char legality[32];  /* check before a candidate is trained (search/legality.h); "" = none */
    char prefilter[32]; /* "SCORE:K": of K proposals one is trained (search/prefilter.h) */
    int tune;           /* kas_tuning: no candidate's, finalists', or all candidates' */
    int ranks;          /* workers that share each final training (docs/parallel.md) */
    bool sync_batch_norm;  /* of those trainings: see kas_train_options */
    bool capture_exchange; /* the same: see kas_group_options */
} kas_search_options;

/* Returns the defaults of everything except the recipe and the options that the machine determines
 * (device, threads). */
kas_search_options kas_search_options_default(void);

/* The first rung may be an imitation: kernels imitate the trained baseline's convolutions, and the
 * network is trained for one epoch. What goes on is trained from random weights, so at this rung it
 * has no epochs of the study's training. */
enum { KAS_RUNG_OF_IMITATION = 0 };
bool kas_search_rung_imitates(const kas_search_options *options, int rung);

/* Returns whether candidates begin with weights of the trained baseline at a rung. */
bool kas_search_warm(const kas_search_options *options, int rung);

/* Returns the recipe by which the search trains a candidate or anything else. With `imitate` that
 * of candidates has so many epochs, the warm-up is as much shorter, and a rate that falls in steps
 * falls by the cosine. */
kas_recipe kas_search_recipe(const kas_search_options *options, bool candidate);

/* Returns whether candidates come in generations, each of which may depend on the results of those
 * before: with evolution, with the tree, with rungs that are not asynchronous, and where a size is
 * given. */
bool kas_search_in_generations(const kas_search_options *options);

/* Chooses the sizes of generations that are 0, and checks strategy and rungs. KAS_USAGE names the
 * option. */
kas_status kas_search_generations(kas_search_options *options);

/* Returns the rungs that --rungs auto means, the default of evolution and the tree: a 27th, a ninth
 * and a third of a candidate's epochs, as far as these are whole epochs, and the last one. */
kas_int_list kas_search_rungs(const kas_search_options *options);

/* Returns whether the first rung is before a third of the epochs, where the order says little about that
 * at the end. What begins with trained weights is judged by few epochs, and rightly so. */
bool kas_search_judges_early(const kas_search_options *options);

/* Return what --ancestors and --legality are with a strategy, and --latency with an objective, unless
 * they are given; 0 and "" are none. */
int kas_search_ancestors(int strategy);
const char *kas_search_legality(int strategy);
double kas_search_latency(int objective);

/* Appends the options as one line of canonical JSON. */
void kas_search_options_write(const kas_search_options *options, kas_buf *out);
/* Appends the command line of `kas-gpu search` that begins or continues such a study: the options
 * that differ from the defaults, each on a line of its own. Of the network, if it is from a file, of
 * --init and of --from it names the study's own copies. --threads is left out: the study has the
 * number of each worker, and the option is shared by all. */
void kas_search_options_command(const kas_search_options *options, const char *dataset,
                                const char *study, kas_buf *out);
/* Reads the options; `where` is for messages. Every field must be there, and no other may be. */
kas_status kas_search_options_read(const char *where, const char *text, kas_search_options *out);

/* Returns KAS_OK when `given` means the same as `stored`. Otherwise it fails with KAS_USAGE and
 * names every option that differs, with both values. threads 0, device "", KAS_PER_LAYER_AUTO, and
 * sizes of generations that are 0 in `given` mean "as stored". */
kas_status kas_search_options_same(const char *study, const kas_search_options *stored,
                                   const kas_search_options *given);

#endif
