/* The sections of a report: each appends its part of the page. Internal to the folder. */
#ifndef KAS_REPORT_HTML_SECTIONS_H
#define KAS_REPORT_HTML_SECTIONS_H

#include "host/report/html/report.h"
#include "host/report/html/view.h"

enum { KAS_REPORT_KERNELS = 5 }; /* drawn, of one study, at most */

/* How much of a study a page shows. kas_report_html lowers all of them until the page fits. */
typedef struct kas_report_limits {
    int points;    /* of a scatter */
    int curves;    /* training curves */
    int rows;      /* of the leaderboard */
    int ancestors; /* in a family tree */
    int kernels;   /* drawn as graphs; 1 to KAS_REPORT_KERNELS */
    int items;     /* in the data */
} kas_report_limits;

/* Returns the answer's latency relative to the unmodified network's, as the search compares them:
 * measured, or predicted with --latency-on; NaN: not known. */
double kas_report_ratio(const kas_report_view *view);

/* One study. Each of these writes nothing, not even a heading, when there is nothing to show. */
void kas_report_verdict(const kas_report_view *view, kas_buf *out); /* two sentences and a table */
void kas_report_finals(const kas_report_view *view, kas_buf *out);
void kas_report_frontier(const kas_report_view *view, const kas_report_limits *limits,
                         kas_buf *out);
void kas_report_leaders(const kas_report_view *view, const kas_report_limits *limits, kas_buf *out);
kas_status kas_report_curves(const kas_report_view *view, const kas_report_limits *limits,
                             kas_buf *out);
kas_status kas_report_rungs(const kas_report_view *view, kas_buf *out);
kas_status kas_report_family(const kas_report_view *view, const kas_report_limits *limits,
                             kas_buf *out);
/* Lists the candidates whose kernels are drawn, at most limits->kernels; returns how many. */
int kas_report_drawn(const kas_report_view *view, const kas_report_limits *limits,
                     const kas_work *out[KAS_REPORT_KERNELS]);
kas_status kas_report_kernels(const kas_report_view *view, const kas_report_limits *limits,
                              kas_buf *out);
void kas_report_prediction(const kas_report_view *view, const kas_report_limits *limits,
                           kas_buf *out);
kas_status kas_report_ended(const kas_report_view *view, kas_buf *out); /* what failed, and why */
kas_status kas_report_origins(const kas_report_view *view, const char *about, kas_buf *out);

/* One or several studies: the best accuracy so far over device time. */
kas_status kas_report_progress(const kas_report_view *view, int count, kas_buf *out);
/* The verdict on several studies, and their tables. */
kas_status kas_report_comparison(const kas_report_view *view, int count, kas_buf *out);

/* All that was read, as one JSON object (docs/report.md). */
kas_status kas_report_data(const kas_report_view *view, int count, const kas_report_limits *limits,
                           kas_buf *out);

/* Studies that differ only in their seed, and in what affects no result, are one group. */
typedef struct kas_report_group {
    int study[64]; /* indices of its studies */
    int count;
    char label[160]; /* what sets it apart from the other groups */
} kas_report_group;
kas_status kas_report_groups(const kas_report_view *view, int count, kas_report_group **out,
                             int *groups);

/* Whether item i of n is among about `limit` that are spread evenly over all. */
static inline bool kas_report_spread(int i, int n, int limit)
{
    return n <= limit || (long long)i * limit / n != (long long)(i - 1) * limit / n || i == 0;
}

#endif
