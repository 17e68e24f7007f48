/* What it takes to make kernels one after another: memory that one attempt leaves to the next. For
 * one thread at a time. Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_WORKSHOP_H
#define KAS_SPACE_CANVAS_WORKSHOP_H

#include "host/space/canvas/guided.h"
#include "host/space/solve/replacement.h"

typedef struct kas_workshop {
    kas_sample_options options;
    kas_target *target; /* owned: [count] */
    int count;
    kas_growth *growth; /* owned */
    kas_guided guided;  /* empty for NAS-PTE's space, whose kernels are not grown */
    kas_solver *solver; /* owned */
} kas_workshop;

/* Copies options and targets. The workshop keeps pointers to itself, so it must not be moved. Call
 * kas_workshop_close also after a failure. KAS_USAGE for options that nothing can meet. */
kas_status kas_workshop_open(const kas_sample_options *options, const kas_target *targets,
                             int count, kas_workshop *out);
/* The same for what only the guided sampler's steps can make. KAS_USAGE also for NAS-PTE's space;
 * `what` is the subject of that message, such as "children of kernels". */
kas_status kas_workshop_open_guided(const char *what, const kas_sample_options *options,
                                    const kas_target *targets, int count, kas_workshop *out);
void kas_workshop_close(kas_workshop *workshop);

/* Makes the complete kernel in the growth canonical and solves its sizes. *why says whether it has
 * sizes within the budget. */
kas_status kas_workshop_complete(kas_workshop *workshop, kas_reject *why);

/* Copies the kernel in the growth, which is canonical and was the last that the solver solved. The
 * targets are the workshop's, which must outlive *out; the caller frees it. */
kas_status kas_workshop_take(const kas_workshop *workshop, kas_replacement *out);

#endif
