/* Scores: what is said of a network with kernels before it is trained.
 *
 * Each score is a row of one table (kas_score_get): its name, what it needs, and the function that
 * computes it, in a file of its own, which cites where the definition comes from.  docs/scores.md
 * has all of them with their traps.  A larger score is meant to promise more, whatever the score
 * is; latency and FLOPs are no exception, because larger networks are usually more accurate.
 *
 * Scores of one kernel share passes through the network (interpret/interpret.h), which need no
 * compiler. All kernels see the same images, and for one seed the same initial weights in layers
 * that they leave as they are.  Other folders include this header. */
#ifndef KAS_SCORE_UNTRAINED_SCORE_H
#define KAS_SCORE_UNTRAINED_SCORE_H

#include "host/interpret/interpret.h"
#include "host/predict/predict.h"
#include "host/score/untrained/minibatch.h"

typedef enum kas_score_id {
    KAS_SCORE_FISHER,
    KAS_SCORE_FISHER_ALL,
    KAS_SCORE_SNIP,
    KAS_SCORE_GRAD_NORM,
    KAS_SCORE_NASWOT,
    KAS_SCORE_SWAP,
    KAS_SCORE_JACOB_COV,
    KAS_SCORE_ZICO,
    KAS_SCORE_SYNFLOW,
    KAS_SCORE_ZEN,
    KAS_SCORE_MECO,
    KAS_SCORE_IMITATION,
    KAS_SCORE_EXPRESSIVITY,
    KAS_SCORE_PROGRESSIVITY,
    KAS_SCORE_TRAINABILITY,
    KAS_SCORE_PARAMS,
    KAS_SCORE_FLOPS,
    KAS_SCORE_LAYERS,
    KAS_SCORE_LATENCY,
    KAS_SCORE_AZ_NAS,
    KAS_SCORES
} kas_score_id;

enum {
    KAS_SCORE_DATA = 1,             /* images and labels of a data set */
    KAS_SCORE_GRADIENTS = 2,        /* of activations, on those images */
    KAS_SCORE_WEIGHT_GRADIENTS = 4, /* of weights, likewise */
    KAS_SCORE_SIGNS = 8,            /* which ReLUs are active there */
    KAS_SCORE_MACHINE = 16,         /* a machine model */
    KAS_SCORE_RANKS = 32,           /* the ranks of other scores among all kernels */
    KAS_SCORE_FIXED = 64,           /* does not depend on the initial weights */
    KAS_SCORE_OTHER_DATA = 128      /* a second minibatch */
};

/* What is known of a score. Only one that is KAS_SCORED has a value, and a rank. */
typedef enum kas_score_state {
    KAS_SCORE_NOT_ASKED,
    KAS_SCORED,
    KAS_SCORE_NOT_FINITE, /* the network or the score overflows, or the score is undefined */
    KAS_SCORE_BLIND       /* the network has nothing that the score looks at, such as a ReLU */
} kas_score_state;
extern const char *const kas_score_states[]; /* "not-asked", "ok", "not-finite", "blind" */

typedef struct kas_scoring kas_scoring;
typedef struct kas_score {
    const char *name;
    unsigned needs;
    /* Computes the score; what is not finite becomes a state. KAS_UNSUPPORTED: the network has
     * nothing that it looks at. NULL for one of ranks. */
    kas_status (*compute)(kas_scoring *scoring, double *value);
} kas_score;
const kas_score *kas_score_get(int id);

enum { KAS_SCORE_PARTS = 4 };
/* Fills the scores of which a score is made, and returns how many: those that it ranks, or itself
 * alone. */
int kas_score_parts(int id, int part[KAS_SCORE_PARTS]);

/* Reads a list of names with commas; "all" stands for all. KAS_USAGE names an unknown one and those
 * that there are. A score of ranks asks for those that it ranks. */
kas_status kas_scores_parse(const char *list, bool asked[KAS_SCORES]);

/* Returns how many minibatches the scores look at. */
int kas_scores_minibatches(const bool asked[KAS_SCORES]);

/* What is the same for all kernels. */
typedef struct kas_score_setup {
    const kas_net *net;
    const kas_target *target; /* [targets] */
    int targets;
    bool asked[KAS_SCORES];
    int batch;                      /* images of a minibatch */
    uint64_t seed;                  /* of images without data */
    const kas_minibatch *minibatch; /* [KAS_SCORE_MINIBATCHES]; NULL: there is no data set */
    /* Weights of the network that imitation imitates; NULL: they are drawn. */
    const kas_safetensors *trained;
    const kas_predictor *predictor; /* NULL: no machine model */
} kas_score_setup;
/* KAS_USAGE when a score is asked that lacks what it needs. */
kas_status kas_score_check(const kas_score_setup *setup);

enum { KAS_SCORE_MEMORIES = 6 };
/* Of one thread and one setup; zero at first. */
typedef struct kas_score_memory {
    kas_interpret_memory block[KAS_SCORE_MEMORIES];
    kas_normals normals;
    /* The score imitation: the unmodified network on each minibatch, of this seed, the first of
     * these minibatches. NULL: not yet. */
    kas_interpreter *original[KAS_SCORE_MINIBATCHES];
    uint64_t original_seed;
    int original_first;
} kas_score_memory;
void kas_score_memory_free(kas_score_memory *memory);
/* Calls work(context, memory of the thread, item) once for each item, as kas_thread_each does. */
typedef kas_status kas_score_work(void *context, kas_score_memory *memory, int item);
kas_status kas_score_each(int threads, int items, kas_score_work *work, void *context);

typedef struct kas_scored {
    double value[KAS_SCORES]; /* NaN without a value */
    kas_score_state state[KAS_SCORES];
    char layer[KAS_LAYER_NAME]; /* the first whose output is not finite on the images; "" = none */
    double cpu_seconds;
} kas_scored;

/* Computes the scores of a replacement (NULL: the network as it is) on minibatch number `minibatch`
 * (a score of two minibatches takes the other one as well): the mean over `draws` draws of the
 * weights, with the seeds `seed`, `seed` + 1, ... A score has a value when it has one in each draw.
 * KAS_ILLEGAL or KAS_UNSUPPORTED where a kernel cannot be evaluated. */
kas_status kas_score_average(const kas_score_setup *setup, const kas_replacement *replacement,
                             int minibatch, uint64_t seed, int draws, kas_score_memory *memory,
                             kas_scored *out);
/* Fills the scores of ranks, for kernels that were scored alike. */
kas_status kas_score_rank(const kas_score_setup *setup, kas_scored *kernels, int count);

#endif
