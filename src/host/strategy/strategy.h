/* Where the candidates of a study come from.
 *
 * Candidates have numbers from 0, and candidate k is a pure function of the study's options and of
 * the results of earlier generations, as the store has them.  So every run of a study gives the
 * same list, whatever the number of workers, and a process that goes on with a study walks through
 * the list again and finds what the store has.
 *
 *     random      the distinct legal attempts of the sampler, in order. With rungs they come in
 *                 generations; without, no candidate depends on another
 *     evolution   generation 0: kernels that are known, come from elsewhere or have evolved without
 *                 training (first.h), then random ones. Later generations: children of winners
 *                 (select.h, space/evolve/evolve.h)
 *     tree        the same kernels first, then Monte-Carlo tree search over how kernels begin
 *                 (kernel_tree.h, tree.h)
 *
 * A generation has so many candidates that reach training.  Those that are discarded before keep
 * their numbers and come beside them.
 *
 * Half of a generation may come from a program that proposes kernels (proposals.h).  Its answers
 * cannot be repeated, so they are recorded before a candidate is made of them, and what is recorded
 * counts when a study goes on.  Other folders include this header. */
#ifndef KAS_STRATEGY_STRATEGY_H
#define KAS_STRATEGY_STRATEGY_H

#include "host/space/canonical.h"
#include "host/store/store.h"
#include "host/strategy/buckets.h"
#include "host/strategy/first.h"

/* The source of candidates. */
typedef struct kas_strategy {
    /* Fills the next candidate, in the order 0, 1, 2, ...: attempt, name, kernel (malloc'ed),
     * costs, generation, origin, parents, and the forecast with its state. `items` are the store's,
     * sorted as kas_store_list does. *ready is false when the next candidate depends on results
     * that are not there yet: nothing was drawn, and the caller asks again. KAS_NOTHING_VALID when
     * there will never be another candidate. */
    kas_status (*next)(void *context, const kas_work *items, int count, kas_work *out, bool *ready);
    void (*close)(void *context); /* NULL: there is nothing to free */
    void *context;
} kas_strategy;

/* A candidate that was proposed and is not judged yet. */
enum { KAS_COMING_MOST = 20 };
typedef struct kas_coming {
    const char *name;
    const kas_replacement *replacement;
} kas_coming;

/* A forecast made before anything is compiled. */
typedef struct kas_forecast {
    /* Sets work->predicted and, when the candidate is not worth compiling, work->state to
     * KAS_WORK_PREDICTED_SLOW or KAS_WORK_LOW_SCORE and work->reason. It must be a pure function of
     * the study, the candidate, and the candidates before it. It is called once for each new
     * candidate, in their order. */
    kas_status (*judge)(void *context, const kas_replacement *replacement, kas_work *work);
    /* Notes a candidate that the store has and that `judge` once passed; NULL: that need not be
     * known. */
    kas_status (*remember)(void *context, const kas_work *work);
    void *context;
    /* Computes on several cores what `judge` will ask for of candidates that are judged next, at most
     * KAS_COMING_MOST; `together` is how many are worth it. It changes no judgement. NULL: `judge`
     * computes it. */
    kas_status (*prepare)(void *context, const kas_coming *list, int count);
    int together;
    /* Takes a candidate's kernels away from some layers, and gives it its new name; a pure function
     * as well. KAS_ILLEGAL, KAS_UNSUPPORTED or KAS_OVER_BUDGET: nothing is left of it. NULL: every
     * candidate stays as it is. */
    kas_status (*keep)(void *context, kas_replacement *candidate, char name[KAS_NAME_SIZE]);
    /* Computes the `scores` scores by which one of `proposals` new candidates of like FLOPs is
     * trained (buckets.h), of one that `judge` passes; NaN: it has none. A pure function as well;
     * called like `judge`, and once more for the members of a bucket of which the store has a part.
     * Known kernels, those of --from and proposals of a program are trained without. NULL: all are. */
    kas_status (*score)(void *context, const kas_replacement *replacement,
                        double score[KAS_BUCKET_SCORES]);
    int proposals, scores;
    const char *score_name;
} kas_forecast;

/* What a proposer is asked. */
typedef struct kas_question {
    int generation;
    int64_t first;         /* number of the candidate that its first proposal would be */
    int wanted;            /* the most proposals that are taken */
    const kas_work *items; /* [count] of the store */
    int count;
    bool recorded_only; /* the generation has begun: only an answer of before counts */
} kas_question;

/* A program that proposes candidates (docs/proposals.md). */
typedef struct kas_proposer {
    /* Fills the answer for a generation; text NULL: there is none. *ready is false while the
     * program is at work. The caller frees the answer with kas_answer_clear. */
    kas_status (*answer)(void *context, const kas_question *question, kas_answer *out, bool *ready);
    /* Notes what became of a line, or in summary of the answer, unless that was read again. */
    void (*note)(void *context, const kas_question *question, const char *text, bool summary);
    void *context;
} kas_proposer;

/* Opens the strategy that the options name. `targets` and `options` must outlive it; `from` is the
 * text of STUDY/from.json (from.h), which is read here, and "" for none; `forecast` may be NULL.
 * KAS_USAGE for options that the strategy does not take. The caller closes *out with
 * kas_strategy_close. */
kas_status kas_strategy_open(const kas_search_options *options, const kas_target *target,
                             int targets, const char *from, const kas_forecast *forecast,
                             kas_strategy *out);
void kas_strategy_close(kas_strategy *strategy); /* one that is zero is allowed */

/* Has a new strategy begin with the kernels of STUDY/ancestors.json, of which `text` is the text, in
 * the place of the known ones and those of --from. */
kas_status kas_strategy_take_ancestors(kas_strategy *strategy, const char *text);

/* Has a new strategy ask a proposer at the beginning of each generation. Candidates must come in
 * generations. KAS_USAGE where a proposal cannot be checked: with another sampler than the guided
 * one, and another space than canvas. */
kas_status kas_strategy_take_proposals(kas_strategy *strategy, const kas_proposer *proposer);

/* Appends a sentence about the children or the tree of this process, and one about proposals;
 * nothing without any. */
void kas_strategy_describe(const kas_strategy *strategy, kas_buf *out);

#endif
