/* The training curves that a report shows and keeps in its data. */
#ifndef KAS_REPORT_HTML_CURVES_H
#define KAS_REPORT_HTML_CURVES_H

#include "host/report/html/sections.h"

typedef struct kas_report_curve {
    const kas_work *work;
    kas_epoch *epoch; /* [epochs]; owned */
    int epochs;
    int leader; /* 1 for the best candidate drawn, 2 for the next, ...; 0 = not among the leaders */
} kas_report_curve;

/* Reads the curves of the unmodified network, of the best candidates, and of some of those that
 * finished and that were given up, spread evenly. The caller frees them with
 * kas_report_curves_free. */
kas_status kas_report_curves_read(const kas_report_view *view, int limit, kas_report_curve **out,
                                  int *count);
void kas_report_curves_free(kas_report_curve *curve, int count);

#endif
