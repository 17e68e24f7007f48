/* The best accuracy so far over device time; of several seeds the median, in a band from the worst
 * to the best. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/report/html/chart.h"
#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/train/stats.h"

enum { GRID = 160, ROOM = 170, LOOKS = 6 };

/* What a study had found after some time; NaN before its first candidate finished. */
static double best_at(const kas_report_view *v, double seconds)
{
    double best = NAN;
    for (int i = 0; i < v->steps && v->step[i].seconds <= seconds; i++)
        best = v->step[i].accuracy;
    return best;
}

typedef struct band {
    double low, median, high;
} band;

/* Returns false while a study of the group has found nothing. */
static bool band_at(const kas_report_view *v, const kas_report_group *g, double seconds, band *out)
{
    double value[KAS_REPORT_STUDIES];
    for (int i = 0; i < g->count; i++) {
        value[i] = best_at(&v[g->study[i]], seconds);
        if (isnan(value[i]))
            return false;
    }
    kas_samples all = {value, g->count};
    *out = (band){kas_samples_quantile(&all, 0), kas_samples_quantile(&all, 0.5),
                  kas_samples_quantile(&all, 1)};
    return true;
}

static double end_of(const kas_report_view *v, const kas_report_group *g)
{
    double end = 0;
    for (int i = 0; i < g->count; i++)
        end = v[g->study[i]].device_seconds > end ? v[g->study[i]].device_seconds : end;
    return end;
}

/* Draws the band as two step lines, there and back. */
static void draw_band(kas_chart *c, const kas_report_view *v, const kas_report_group *g, int look)
{
    const double end = end_of(v, g);
    band b;
    bool begun = false;
    for (int i = 0; i <= GRID; i++)
        if (band_at(v, g, end * i / GRID, &b)) {
            const double x = kas_chart_x(c, end * i / GRID), y = kas_chart_y(c, b.high);
            if (begun)
                kas_buf_printf(c->out, "H%.1fV%.1f", x, y);
            else
                kas_buf_printf(c->out, "<path class=\"band g%d\" d=\"M%.1f %.1f", look, x, y);
            begun = true;
        }
    for (int i = GRID - 1; begun && i >= 0 && band_at(v, g, end * i / GRID, &b); i--)
        kas_buf_printf(c->out, "V%.1fH%.1f", kas_chart_y(c, b.low), kas_chart_x(c, end * i / GRID));
    if (begun)
        kas_buf_puts(c->out, "Z\"/>\n");
}

/* Draws the median, and gives its end for the label. A single study has its exact steps. */
static bool draw_line(kas_chart *c, const kas_report_view *v, const kas_report_group *g, int look,
                      kas_end_label *label)
{
    const double end = end_of(v, g);
    const kas_report_view *only = g->count == 1 ? &v[g->study[0]] : NULL;
    const int most = only ? only->steps : GRID + 1;
    bool begun = false;
    double last = NAN;
    for (int i = 0; i < most; i++) {
        const double seconds = only ? only->step[i].seconds : end * i / GRID;
        band b;
        if (!band_at(v, g, seconds, &b) || b.median == last)
            continue;
        label->y = kas_chart_y(c, last = b.median);
        if (begun)
            kas_buf_printf(c->out, "H%.1fV%.1f", kas_chart_x(c, seconds), label->y);
        else
            kas_buf_printf(c->out, "<path class=\"line g%d\" d=\"M%.1f %.1f", look,
                           kas_chart_x(c, seconds), label->y);
        begun = true;
    }
    label->x = kas_chart_x(c, end);
    if (begun)
        kas_buf_printf(c->out, "H%.1f\"/>\n", label->x);
    return begun;
}

typedef struct extent {
    double seconds, low, high;
    double baseline; /* mean over studies */
} extent;

static extent find_extent(const kas_report_view *v, int count)
{
    extent e = {0, INFINITY, -INFINITY, 0};
    int baselines = 0;
    for (int i = 0; i < count; i++) {
        e.seconds = v[i].device_seconds > e.seconds ? v[i].device_seconds : e.seconds;
        for (int k = 0; k < v[i].steps; k++) {
            e.low = fmin(e.low, v[i].step[k].accuracy);
            e.high = fmax(e.high, v[i].step[k].accuracy);
        }
        if (v[i].baseline) {
            e.baseline += v[i].baseline->measured.accuracy;
            baselines++;
        }
    }
    e.baseline = baselines ? e.baseline / baselines : NAN;
    if (isfinite(e.low)) {
        e.low = fmin(e.low, e.baseline);
        e.high = fmax(e.high, e.baseline);
    }
    return e;
}

static void draw(const kas_report_view *v, const kas_report_group *group, int groups,
                 const extent *e, bool wide, kas_buf *out)
{
    kas_chart c;
    kas_end_label label[LOOKS + 1];
    int labels = 0;
    const kas_axis x = kas_axis_seconds("device time", 0, e->seconds, false),
                   y = kas_axis_percent("best validation top-1 so far", e->low, e->high);
    kas_chart_open(&c, out, wide, &x, &y, wide ? ROOM : ROOM - 64,
                   "The best accuracy so far over the time that the devices worked");
    if (isfinite(e->baseline)) {
        const double level = kas_chart_y(&c, e->baseline);
        kas_buf_printf(out, "<path class=\"guide\" d=\"M%.1f %.1fH%.1f\"/>\n", c.left, level,
                       c.right);
        label[labels] = (kas_end_label){.x = c.right, .y = level, .class = "label base"};
        snprintf(label[labels++].text, sizeof label[0].text, "%s",
                 wide ? "unmodified network" : "unmodified");
    }
    for (int g = 0; g < groups; g++)
        if (group[g].count > 1)
            draw_band(&c, v, &group[g], g % LOOKS);
    for (int g = 0; g < groups; g++) {
        static const char *const classes[LOOKS] = {"label g0", "label g1", "label g2",
                                                   "label g3", "label g4", "label g5"};
        kas_end_label *l = &label[labels];
        if (!draw_line(&c, v, &group[g], g % LOOKS, l) || labels > LOOKS - 1)
            continue;
        l->class = classes[g % LOOKS];
        snprintf(l->text, sizeof l->text, "%.*s", wide ? 24 : 15, group[g].label);
        labels++;
    }
    kas_chart_end_labels(&c, label, labels);
    kas_chart_close(&c);
}

kas_status kas_report_progress(const kas_report_view *v, int count, kas_buf *out)
{
    kas_report_group *group = NULL;
    int groups;
    const extent e = find_extent(v, count);
    if (!(e.seconds > 0) || !isfinite(e.low))
        return KAS_OK;
    const kas_status status = kas_report_groups(v, count, &group, &groups);
    if (status == KAS_OK) {
        kas_html_section(out, "Best so far over device time");
        kas_buf_puts(out, "<figure>\n");
        draw(v, group, groups, &e, true, out);
        draw(v, group, groups, &e, false, out);
        kas_buf_puts(out, "<figcaption>Device time: the time for which candidates trained and "
                          "waited for compilers, added up in the order in which they ended.");
        if (groups < count)
            kas_buf_puts(out, " Studies that differ only in their seed are one line, their median, "
                              "in a band from the worst to the best.");
        kas_buf_puts(out, "</figcaption>\n</figure>\n");
        kas_html_section_end(out);
    }
    free(group);
    return status;
}
