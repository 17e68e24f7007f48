/* What the parts of the tuner share: records of tuned launches (jit/tuned.h) as it writes and finds
 * them, and its progress. Internal to tune. */
#ifndef KAS_TUNE_RECORD_H
#define KAS_TUNE_RECORD_H

#include "host/tune/tune.h"

/* Looks a record up, first among the pins, where it is put if it was in the folder. launch->known
 * says whether there is one of so many trials or more (of a pin's trials nobody asks), and *steps gets
 * its steps; the caller frees them. Of a record with fewer trials only *steps is taken. */
kas_status kas_tune_find(const kas_tune_options *options, const char *record, int trials,
                         kas_tuned_launch *launch, char **steps);
/* Keeps what was found in so many trials. `head`: of the schedule file; `steps`: NULL where the
 * default stays. A folder that cannot be written costs time only; pins must be written. */
kas_status kas_tune_keep(const kas_tune_options *options, const char *record, int trials,
                         const char *head, const kas_tuned_launch *launch, const char *steps);
/* Gives a launch what was found for one with the same record. */
void kas_tune_share(kas_tuned_launch *launch, const kas_tuned_launch *from);
/* Returns KAS_NO_MEMORY with a message. */
kas_status kas_tune_no_memory(void);
/* Says what is being done, to options->progress. */
void kas_tune_tell(const kas_tune_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
