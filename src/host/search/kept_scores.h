/* The scores that ancestors have had in a run that was stopped, so that the same command need not find them again.
 *
 * A text file: a line with the digest of what determines the scores, and the seconds that all runs
 * together took (on the clock, of processors); then a line "NAME LATENCY SCORE" for every kernel that was judged, in the
 * order of judging. The evolution itself is repeated, which takes little time. Scores behind a damaged line are found again. */
#ifndef KAS_SEARCH_KEPT_SCORES_H
#define KAS_SEARCH_KEPT_SCORES_H

#include <stdbool.h>

#include "host/core/buf.h"
#include "host/core/clock.h"
#include "host/space/canonical.h"

typedef struct kas_kept_score {
    char name[KAS_NAME_SIZE];
    double latency, score; /* NaN: not scored */
} kas_kept_score;

typedef struct kas_kept_scores {
    const char *path;     /* of the caller; NULL: nothing is kept */
    kas_kept_score *list; /* [count] of the earlier run, by name */
    int count;
    kas_elapsed effort; /* of the earlier runs */
    char digest[65];
    kas_buf text; /* of the file behind its first line, with what was added */
} kas_kept_scores;

/* Opens the scores of the digest; a file of another digest, or one that cannot be read, counts as none. The caller frees *out with kas_kept_scores_free, also
 * after a failure, which is KAS_NO_MEMORY. */
kas_status kas_kept_scores_open(const char *path, const char *digest, kas_kept_scores *out);
void kas_kept_scores_free(kas_kept_scores *scores);
/* Returns what the earlier run found for a kernel; NULL: nothing. */
const kas_kept_score *kas_kept_scores_find(const kas_kept_scores *scores, const char *name);
/* Adds what was found for a kernel, unless the earlier run had found it. */
void kas_kept_scores_add(kas_kept_scores *scores, const char *name, double latency, double score);
/* Writes the file, atomically; `effort` is that of all runs. Fails with KAS_FAILURE, or with KAS_NO_MEMORY when an addition found none. */
kas_status kas_kept_scores_save(const kas_kept_scores *scores, kas_elapsed effort);

#endif
