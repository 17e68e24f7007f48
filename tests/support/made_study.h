/* Studies that no search has made, for tests of what reads them: as many candidates as a test asks
 * for, in every state, with generations, parents, rungs and predictions. */
#ifndef KAS_SUPPORT_MADE_STUDY_H
#define KAS_SUPPORT_MADE_STUDY_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/status.h"

typedef struct made_study {
    int candidates;
    int asked;              /* candidates of the study's options; 0: as many */
    int epochs;             /* of a whole training */
    uint64_t seed;          /* accuracies depend on it */
    bool evolved;           /* later candidates are children of earlier ones, and better */
    bool under_way;         /* the last two candidates run, and there are no final trainings */
    bool unanswered;        /* it looks for a kernel within --max-loss, and has ended without one */
    const char *latency_on; /* the machine of predictions; NULL: the study's device */
    /* A text that stands wherever a text of a file may: in the data set's path, the device's name,
     * reasons, origins and kernels. NULL: ordinary ones. */
    const char *text;
} made_study;

/* Makes the folder with its study.db. Kernels are those of kernels/. */
kas_status make_study(const char *folder, const made_study *how);

#endif
