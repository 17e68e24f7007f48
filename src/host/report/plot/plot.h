/* Writes a picture of lines as an SVG file that stands alone: panels one below the other, in each a
 * line for each of several names over the same points, and a dashed line where a ratio is 1. It has
 * the style of a report (chart.css), dark screens included. Other folders include this
 * header. */
#ifndef KAS_REPORT_PLOT_PLOT_H
#define KAS_REPORT_PLOT_PLOT_H

#include "host/core/buf.h"
#include "host/core/status.h"

typedef struct kas_plot_panel {
    const char *title; /* of the vertical axis */
    const double *y;   /* [lines][points] ratios; NaN: the line has a gap there */
} kas_plot_panel;

typedef struct kas_plot {
    const char *about, *x_title; /* about: for readers who do not see it */
    int points, lines, panels;
    const double *x;          /* [points] ascending */
    const char *const *point; /* [points] names, shown where the pointer is */
    const char *const *line;  /* [lines] names */
    const kas_plot_panel *panel;
} kas_plot;

/* Writes the picture into a file. A panel without any number is left out; KAS_NOTHING_VALID when
 * none has one. */
kas_status kas_plot_write(const kas_plot *plot, const char *path);

#endif
