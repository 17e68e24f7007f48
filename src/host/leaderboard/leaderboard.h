/* Writes the results of a study, for people and for programs. */
#ifndef KAS_LEADERBOARD_LEADERBOARD_H
#define KAS_LEADERBOARD_LEADERBOARD_H

#include "host/core/buf.h"
#include "host/store/store.h"

/* A candidate in the order of the leaderboard. */
typedef struct kas_ranked {
    const kas_work *work; /* in the list that was ranked */
    bool frontier;        /* on the accuracy/latency frontier */
} kas_ranked;
/* Lists the candidates: the finished ones, best first, then the others by number. The caller frees
 * *out with free(). */
kas_status kas_leaderboard_rank(const kas_work *work, int count, kas_ranked **out, int *candidates);

/* Appends a table of the finished candidates, the most accurate first, with the unmodified
 * network's line and a star for what is on the accuracy/latency frontier. `limit` is the most lines
 * (0 = all). */
kas_status kas_leaderboard_text(const kas_work *work, int count, int limit, kas_buf *out);

/* Appends one JSON object a line (docs/search.md) for every item, in this order: baseline,
 * candidates by rank and then by number, final trainings; then one for the figures of each finalist
 * (finals.h). */
kas_status kas_leaderboard_json(const kas_work *work, int count, kas_buf *out);

/* Appends item `work` of the list as a JSON object and a line end. `rank` 0 = none. */
void kas_work_json(const kas_work *list, int count, const kas_work *work, int rank, bool frontier,
                   kas_buf *out);

/* Appends an item of the list without a rank, as a line that also has its kernel file, `file`. */
void kas_work_history(const kas_work *list, int count, const kas_work *work, kas_buf *out);

/* Returns the name of the known kernel that an item has (space/known/known.h), however it came;
 * NULL: it has none, or a new one. */
const char *kas_work_known_as(const kas_work *work);
/* Writes how a candidate came, for people, and which known kernel it is: "graft",
 * "known:group_conv", "from:05-f3cfe4b8440ddba6, known:shift_conv". */
enum { KAS_ORIGIN_TEXT = 128 };
const char *kas_work_origin(const kas_work *work, char out[KAS_ORIGIN_TEXT]);

/* Returns the first item of a kind; NULL when there is none. */
const kas_work *kas_work_find(const kas_work *work, int count, kas_work_kind kind);

#endif
