/* A study as a report sees it: read once, without disturbing a search that is under way. */
#ifndef KAS_REPORT_HTML_VIEW_H
#define KAS_REPORT_HTML_VIEW_H

#include "host/leaderboard/leaderboard.h"
#include "host/net/net.h"
#include "host/store/store.h"
#include "host/study/options.h"

/* The best accuracy so far rises to `accuracy` when the study has used `seconds` of device time. */
typedef struct kas_report_step {
    double seconds, accuracy;
} kas_report_step;

typedef struct kas_report_view {
    char folder[4096]; /* as it was given */
    char title[256];   /* the last part of that path */
    kas_store *store;
    kas_study study;
    kas_search_options options;
    kas_work *work;
    int count;
    kas_ranked *ranked; /* [candidates], best first; the finished ones come first */
    int candidates, finished;
    const kas_work *baseline, *best; /* NULL = none yet; both have finished */
    const kas_work *answer;          /* the kernel in STUDY/best, or else `best`; NULL = none */
    /* The time for which items held a worker, added up in the order in which they ended: for
     * compiling, screening, latency and training. */
    double device_seconds;
    kas_report_step *step;
    int steps;
    /* The data set's part is missing where the data set cannot be opened; `missing` says why. */
    int validation_images; /* 0 = unknown */
    kas_net *net;
    kas_target *target;
    int targets;
    char missing[512];
} kas_report_view;

/* Reads a study. Failures are those of kas_store_open and of the readers of options and items. The
 * caller calls kas_report_view_close, also after a failure. */
kas_status kas_report_view_open(const char *folder, kas_report_view *out);
void kas_report_view_close(kas_report_view *view);

/* The candidate with this name; NULL when the study has none. */
const kas_work *kas_report_find(const kas_report_view *view, const char *name);
/* Half of the 95% interval of an accuracy that was measured on `images` images: what the choice of
 * images alone explains. NaN where their number is unknown. */
double kas_report_sampling_error(double accuracy, int images);

/* How a candidate came, in words: "sampled", "known: group_conv", "graft". */
void kas_report_origin(const kas_work *work, char out[96]);
bool kas_report_is_known(const kas_work *work);

/* The accuracies on the test set of all final trainings of a kernel; `name` NULL: of the unmodified
 * network. */
typedef struct kas_report_scores {
    int count;
    double mean, low, high;
} kas_report_scores;
kas_report_scores kas_report_test(const kas_report_view *view, const char *name);

#endif
