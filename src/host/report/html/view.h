/* A study as a report sees it: read once, without disturbing a search that is under way. */
#ifndef KAS_REPORT_HTML_VIEW_H
#define KAS_REPORT_HTML_VIEW_H

#include "host/leaderboard/finals.h"
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
    const kas_work *baseline; /* NULL while it has not finished */
    bool baseline_on_frontier;
    /* The candidate that answers the objective, or that leads until there is an answer; NULL = none
     * has finished. `answered`: it was named before the test set was opened. `ended_without`: the
     * study has ended, and no candidate answers. */
    const kas_work *answer;
    bool answered, ended_without;
    kas_finalist final[KAS_FINALISTS_MOST + 1]; /* kas_finals_of */
    int finals;
    /* Device time (leaderboard/spent.h): that of drawing and scoring first, since it is known in all
     * only, then the items in the order in which they ended. */
    double device_seconds;
    kas_report_step *step;
    int steps;
    /* The targets are missing where the data set cannot be opened; `missing` says why. */
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
/* Which known kernel a candidate is, and how it came: "sampled", "known: group_conv", "graft",
 * "proposed by a program", "known: shift_conv, from 05-f3cfe4b8440ddba6" */
void kas_report_origin(const kas_work *work, char out[KAS_ORIGIN_TEXT]);
bool kas_report_is_proposed(const kas_work *work);

/* The final trainings of a kernel, or with `name` NULL of the unmodified network, when at least one
 * has a result; NULL otherwise. */
const kas_finalist *kas_report_final(const kas_report_view *view, const char *name);

#endif
