/* A training under way: what train.c, which trains and evaluates, and resume.c, which saves it and goes on
 * from what was saved, share. */
#ifndef KAS_TRAIN_RUN_H
#define KAS_TRAIN_RUN_H

#include "host/core/buf.h"
#include "host/model/model.h"
#include "host/train/chunks.h"
#include "host/train/feed.h"
#include "host/train/stats.h"
#include "host/train/train.h"
#include "host/train/trained_on.h"

typedef struct kas_run {
    const kas_train_options *o;
    kas_device *device;
    kas_model *model;
    kas_feed feed;
    kas_plan *train_plan, *evaluation_plan[2]; /* of the parts of the feed; NULL: not needed */
    kas_plan *average_plan;                    /* runs before an evaluation; NULL: not needed */
    kas_chunks chunks;
    uint8_t digest[32];
    char trained_on[KAS_TRAINED_ON_SIZE];
    uint32_t steps;        /* of an epoch */
    uint64_t step;         /* done or enqueued, of the whole run */
    double earlier;        /* seconds of the unfinished epoch before a resume */
    kas_metrics resumed;   /* sums of the unfinished epoch before a resume */
    kas_epoch *epoch;      /* [recipe.epochs] */
    int epochs;            /* done */
    kas_samples step_time; /* seconds of steps */
    kas_verdict wanted;    /* the last verdict of a callback of this rank */
    kas_verdict verdict;   /* what the ranks agree on */
    const char *diverged;  /* what was not finite; NULL: nothing */
    bool captures;         /* exchanges, as far as on_exchange knows */
    bool left;             /* the last evaluation was stopped before its end */
    kas_loss_scale scale;  /* at the end */
    kas_buf correct;       /* of the last evaluations: see kas_train_result */
} kas_run;

/* Returns what is not finite; NULL: everything is. */
const char *kas_run_not_finite(const kas_metrics *metrics);

/* Gathers what all ranks have in `words`; their sum is the same on all of them. */
kas_status kas_run_sum(const kas_run *r, const kas_chunk_words *words, kas_metrics *sum,
                       kas_verdict *verdict);

/* Saves the run in its checkpoint, if it has one, with the sums that the model has; all ranks call it.
 * `seconds`: of the unfinished epoch. */
kas_status kas_run_save(kas_run *r, double seconds);

/* Gives the model its first parameters, or those of the checkpoint, and the run its place. */
kas_status kas_run_start(kas_run *r);

#endif
