/* Predicted against measured latency. */
#include <math.h>
#include <stdlib.h>

#include "host/core/rank.h"
#include "host/report/html/chart.h"
#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"

typedef struct pair {
    const kas_work *work;
    double predicted, measured, error; /* error: of the prediction, relative */
} pair;

static int by_error(const void *a, const void *b)
{
    const double x = ((const pair *)a)->error, y = ((const pair *)b)->error;
    return (x > y) - (x < y);
}

/* Returns Spearman's correlation; NaN where there is none, or no memory. */
static double correlation_of(const pair *p, int count)
{
    double *both = calloc(2 * (size_t)count, sizeof *both), found = NAN;
    for (int i = 0; both && i < count; i++) {
        both[i] = p[i].predicted;
        both[count + i] = p[i].measured;
    }
    if (both && kas_spearman(count, both, both + count, &found) != KAS_OK)
        found = NAN;
    free(both);
    return found;
}

static int collect(const kas_report_view *v, pair *out)
{
    int count = 0;
    for (int i = 0; i < v->count; i++) {
        const kas_work *w = &v->work[i];
        const double p = w->predicted, m = w->measured.latency;
        if (w->kind <= KAS_WORK_CANDIDATE && isfinite(p) && isfinite(m) && p > 0 && m > 0)
            out[count++] = (pair){w, p, m, fabs(p / m - 1)};
    }
    return count;
}

static void draw(const pair *p, int count, int limit, bool wide, kas_buf *out)
{
    double low = INFINITY, high = 0;
    kas_chart c;
    for (int i = 0; i < count; i++) {
        low = fmin(low, fmin(p[i].predicted, p[i].measured));
        high = fmax(high, fmax(p[i].predicted, p[i].measured));
    }
    const kas_axis x = kas_axis_seconds("predicted latency", low, high, high > 5 * low),
                   y = kas_axis_seconds("measured latency", low, high, high > 5 * low);
    kas_chart_open(&c, out, wide, &x, &y, 0, "Measured latency against predicted latency");
    kas_buf_printf(out, "<path class=\"guide\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", c.left, c.bottom,
                   c.right, c.top);
    for (int i = 0; i < count; i++) {
        if (!kas_report_spread(i, count, limit) && p[i].work->kind != KAS_WORK_BASELINE)
            continue;
        char predicted[32], measured[32];
        kas_buf_printf(out, "<circle class=\"dot%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>",
                       p[i].work->kind == KAS_WORK_BASELINE ? " based" : "",
                       kas_chart_x(&c, p[i].predicted), kas_chart_y(&c, p[i].measured));
        kas_html_put(out, "%s: predicted %s, measured %s",
                     *p[i].work->name ? p[i].work->name : "unmodified network",
                     kas_human_seconds(p[i].predicted, predicted),
                     kas_human_seconds(p[i].measured, measured));
        kas_buf_puts(out, "</title></circle>\n");
        kas_chart_keep_free(&c, kas_chart_x(&c, p[i].predicted), kas_chart_y(&c, p[i].measured), 3);
    }
    for (int i = 0; i < count; i++)
        if (p[i].work->kind == KAS_WORK_BASELINE)
            kas_chart_label(&c, kas_chart_x(&c, p[i].predicted), kas_chart_y(&c, p[i].measured),
                            "label base", "unmodified network", true);
    kas_chart_close(&c);
}

void kas_report_prediction(const kas_report_view *v, const kas_report_limits *limits, kas_buf *out)
{
    pair *p = calloc((size_t)v->count + 1, sizeof *p);
    const int count = p ? collect(v, p) : 0;
    out->failed |= !p;
    if (count > 1) {
        const double correlation = correlation_of(p, count);
        kas_html_section(out, "Predicted against measured latency");
        kas_buf_puts(out, "<figure>\n");
        draw(p, count, limits->points, true, out);
        draw(p, count, limits->points, false, out);
        qsort(p, (size_t)count, sizeof *p, by_error);
        kas_buf_printf(
            out,
            "<figcaption>On the dashes the prediction is right; below them a kernel is "
            "faster than predicted. %d predictions, made before compiling: median error %.0f%%",
            count, 100 * p[count / 2].error);
        if (isfinite(correlation))
            kas_buf_printf(out, ", Spearman's rank correlation %.2f", correlation);
        kas_buf_puts(out, ".");
        if (*v->options.latency_on) /* which need not be the one that measured */
            kas_html_put(out, " Predicted for the machine %s.", v->options.latency_on);
        kas_buf_puts(out, "</figcaption>\n</figure>\n");
        kas_html_section_end(out);
    }
    free(p);
}
