/* What it takes to make kernels one after another by the steps of the guided sampler: memory that
 * one attempt leaves to the next. For one thread at a time. Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_WORKSHOP_H
#define KAS_SPACE_CANVAS_WORKSHOP_H

#include "host/space/canvas/guided.h"
#include "host/space/solve/replacement.h"

typedef struct kas_workshop {
    kas_sample_options options;
    kas_target *target; /* owned */
    kas_growth *growth; /* owned */
    kas_guided guided;
    kas_solver *solver; /* owned */
} kas_workshop;

/* Copies options and targets. The workshop keeps pointers to itself, so it must not be moved. Call
 * kas_workshop_close also after a failure. KAS_USAGE for options that nothing can meet and for
 * those of other samplers; `what` is the subject of that message, such as "children of kernels". */
kas_status kas_workshop_open(const char *what, const kas_sample_options *options,
                             const kas_target *targets, int count, kas_workshop *out);
void kas_workshop_close(kas_workshop *workshop);

/* Copies the kernel in the growth, which is canonical and was the last that the solver solved. The
 * targets are the workshop's, which must outlive *out; the caller frees it. */
kas_status kas_workshop_take(const kas_workshop *workshop, kas_replacement *out);

#endif
