/* One work item on its way through a worker (evaluate.c): solved, calibrated, measured (latency.c)
 * and trained (training.c). Used in this folder only. */
#ifndef KAS_SEARCH_WORKER_EVALUATION_H
#define KAS_SEARCH_WORKER_EVALUATION_H

#include "host/search/worker/programs.h"
#include "host/search/worker/worker.h"
#include "host/study/problem.h"
#include "host/study/study_dir.h"

/* What the slots of a worker share, and only read. */
typedef struct kas_evaluation_shared {
    kas_search_options options;
    char spec[32]; /* of the device */
    kas_problem problem;
    uint32_t *index, train_count, validation_count, confirm_count; /* kas_problem_split */
} kas_evaluation_shared;

/* A slot. */
typedef struct kas_evaluation_slot {
    const kas_evaluation_shared *shared;
    kas_device *device;
} kas_evaluation_slot;

/* One item on its way; callbacks of the trainer find everything here. */
typedef struct kas_evaluation {
    kas_evaluation_slot *mine;
    kas_slot *slot;
    const kas_task *task;
    kas_replacement *replacement; /* NULL = the network as it is */
    kas_programs programs;        /* of the present stage */
    char start[KAS_STUDY_PATH];   /* weights that imitation has made; "" = it takes no part */
    bool unjudged; /* the supervisor went away before it answered for the last epoch */
    kas_outcome *out;
} kas_evaluation;

/* Lowers the candidate for what follows, in place of the programs that it has. `tuned`: a folder of
 * tuned schedules (jit/tuned.h); NULL: the default ones. */
kas_status kas_evaluation_build(kas_evaluation *r, kas_stage stage, const char *tuned);
/* Says what comes next; false when the supervisor wants an end: the outcome is then "stopped". */
bool kas_evaluation_enter(kas_evaluation *r, const char *phase);
/* Adds to what the item waited for compilers, in seconds. */
void kas_evaluation_waited(kas_evaluation *r, double seconds);
/* Waits until the neighbours of a slot are quiet; for callbacks. */
void kas_evaluation_be_alone(void *slot);

/* Measures the latency of a candidate. *go_on is false when the outcome is decided. */
kas_status kas_evaluation_measure(kas_evaluation *r, bool *go_on);
/* Measures that of a finalist once more: it was chosen for the one that it has. */
kas_status kas_evaluation_take_turns(kas_evaluation *r);
/* Trains the item, after its kernels have learned to imitate where the study asks for that. */
kas_status kas_evaluation_train(kas_evaluation *r);
/* Returns the status that says whether the item or the machine is at fault. */
kas_status kas_evaluation_blame(kas_evaluation *r, kas_status status);

#endif
