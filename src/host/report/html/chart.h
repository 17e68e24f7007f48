/* Charts as SVG: axes with ticks, and labels beside the marks that they name.
 *
 * A page has every chart twice, drawn for a wide and for a narrow screen, and shows one of the two
 * (style.css), so that text is never scaled down to fit a telephone. A section therefore draws in a
 * function that is called once for each:
 *
 *     kas_chart c;
 *     kas_chart_open(&c, out, wide, &x, &y, "what it shows, for readers who do not see it");
 *     ... kas_chart_x(&c, value), kas_chart_y(&c, value) ...
 *     kas_chart_close(&c);
 *
 * Colours and widths of lines are classes of chart.css. */
#ifndef KAS_REPORT_HTML_CHART_H
#define KAS_REPORT_HTML_CHART_H

#include <stdbool.h>

#include "host/core/buf.h"

typedef struct kas_axis {
    char title[96];
    double low, high;   /* of the data */
    double scale;       /* factor from the data to what ticks say: 100 for percent */
    const char *suffix; /* of each tick: "%" */
    bool log;
} kas_axis;

/* Axes that hold the values from low to high with some room around them. Seconds are shown in the
 * unit that suits `high`, which the title then names. */
kas_axis kas_axis_percent(const char *title, double low, double high);
kas_axis kas_axis_seconds(const char *title, double low, double high, bool log);
kas_axis kas_axis_epochs(const char *title, double high); /* from 1 to high */
/* Of ratios; logarithmic where the range is wide. */
kas_axis kas_axis_ratio(const char *title, double low, double high);

typedef struct kas_box {
    double x0, y0, x1, y1;
} kas_box;
enum { KAS_CHART_BOXES = 2048 };
enum { KAS_CHART_WIDE = 860, KAS_CHART_WIDE_HEIGHT = 420 }; /* size of a wide chart */

typedef struct kas_chart {
    kas_buf *out;
    bool wide;
    double width, height;            /* of the picture, in pixels */
    double left, right, top, bottom; /* of the area for data */
    kas_axis x, y;
    /* What labels keep away from. Further marks are forgotten, and labels may then touch them. */
    kas_box box[KAS_CHART_BOXES];
    int boxes;
} kas_chart;

/* `room` is the width in pixels that stays free right of the area, for labels of lines. */
void kas_chart_open(kas_chart *chart, kas_buf *out, bool wide, const kas_axis *x, const kas_axis *y,
                    double room, const char *about);
void kas_chart_close(kas_chart *chart);
double kas_chart_x(const kas_chart *chart, double value);
double kas_chart_y(const kas_chart *chart, double value);

/* Keeps labels away from the mark at (x, y) in the picture. */
void kas_chart_keep_free(kas_chart *chart, double x, double y, double radius);
/* Writes a label beside the mark at (x, y) where it covers no mark and no other label. Where there
 * is no such place it covers some when it is needed; otherwise nothing is written and false is
 * returned. */
bool kas_chart_label(kas_chart *chart, double x, double y, const char *class, const char *text,
                     bool needed);

/* A label at the end of a line. */
typedef struct kas_end_label {
    double x, y; /* the end, in the picture; kas_chart_end_labels changes y */
    const char *class;
    char text[48];
} kas_end_label;
/* Writes the labels right of the ends, moved up and down until none covers another. */
void kas_chart_end_labels(kas_chart *chart, kas_end_label *label, int count);

/* The width of a text in a chart, estimated, in pixels. */
double kas_chart_text_width(const char *text);

#endif
