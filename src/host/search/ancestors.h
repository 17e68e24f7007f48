/* The ancestors of a study: kernels that evolve before anything is trained, by how well they imitate.
 *
 * The score imitation (score/untrained/imitation.c) stands for the accuracy and the predicted latency
 * for the measured one, so that an ancestor costs a fraction of a second of one core, and no compiler.
 * The first are the known kernels, those of --from and a fifth that the sampler draws; all others are
 * children (space/evolve/evolve.h). A parent is the best of TOURNAMENT drawn from the best so far, in
 * the order of the study's objective (leaderboard/objective.h). A kernel that gives less than half of
 * what the best one gives, or less than a tenth of the convolutions' variance, counts as one that
 * loses too much: it stands behind all others. Of new kernels that are written in different ways and
 * learn the same, the fastest is kept; of those whose scores and latencies lie on the same steps of
 * 5%, the simplest. What is predicted to be slower than --latency allows is not scored and does not
 * count.
 *
 * A pure function of the study's options and data, up to rounding; so a study keeps the result
 * (STUDY/ancestors.json) and its SHA-256. */
#ifndef KAS_SEARCH_ANCESTORS_H
#define KAS_SEARCH_ANCESTORS_H

#include "host/search/forecast.h"
#include "host/study/problem.h"

#define KAS_STUDY_ANCESTORS "ancestors.json"
#define KAS_STUDY_SCORES "ancestors.scores" /* while they evolve: kept_scores.h */

/* How the kernels evolve, which changes nothing of the result. */
typedef struct kas_ancestors_run {
    int threads; /* 0: all cores */
    /* File of scores (kept_scores.h), which is read first and written after every brood; NULL: none */
    const char *kept;
    const char *digest; /* of what determines the scores */
    kas_elapsed
        *effort; /* gets what this run took, and those whose scores were kept; NULL: nobody asks */
    bool (*interrupted)(void); /* asked before every attempt; NULL: never */
    /* Told after every brood how many of how many are scored and which share of the variance the best gives; NULL: nobody. */
    void (*progress)(void *context, int scored, int wanted, double best);
    void *context;
} kas_ancestors_run;

/* Evolves options->ancestors kernels, and appends generation 0 as a text of the form of strategy/from.h, where the name of a kernel
 * is its origin: all of --from that have a score, the known ones that give a tenth of the convolutions' variance, and of the new
 * ones the best, so many that it is a population (KAS_FROM_KERNELS at most), but at least half of one. What imitates best comes
 * first. `from` is the text of STUDY/from.json, or "". Says in one line what was done. KAS_INTERRUPTED when run->interrupted said
 * yes, KAS_NOTHING_VALID when no kernel is left; then `out` is as before. */
kas_status kas_ancestors_evolve(const kas_search_options *options, const kas_problem *problem,
                                kas_search_forecast *forecast, const char *from,
                                const kas_ancestors_run *run, kas_buf *out);

#endif
