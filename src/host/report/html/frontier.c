/* The frontier: accuracy against latency, with the unmodified network among the candidates. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/chart.h"
#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"

/* CELL: pixels within which one point stands for all, at least; LABELS: points with names */
enum { CELL = 4, LABELS = 8 };

static bool has_place(const kas_work *w)
{
    return isfinite(w->measured.latency) && w->measured.latency > 0 &&
           isfinite(w->measured.accuracy);
}

typedef struct range {
    double low, high;
} range;

static void include(range *r, double value)
{
    r->low = value < r->low ? value : r->low;
    r->high = value > r->high ? value : r->high;
}

static int find_ranges(const kas_report_view *v, range *latency, range *accuracy)
{
    int placed = 0;
    *latency = *accuracy = (range){INFINITY, -INFINITY};
    for (int i = -1; i < v->finished; i++) {
        const kas_work *w = i < 0 ? v->baseline : v->ranked[i].work;
        if (!w || !has_place(w))
            continue;
        include(latency, w->measured.latency);
        include(accuracy, w->measured.accuracy);
        placed += i >= 0;
    }
    return placed;
}

static void title_of(const kas_work *w, kas_buf *out)
{
    char text[32];
    kas_buf_puts(out, "<title>");
    kas_html_put(out, "%s: %.2f%%, %s", w->name[0] ? w->name : "unmodified network",
                 100 * w->measured.accuracy, kas_human_seconds(w->measured.latency, text));
    kas_buf_puts(out, "</title>");
}

static void put_dot(kas_chart *c, const kas_work *w, const char *class, double radius)
{
    kas_buf_printf(c->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", class,
                   kas_chart_x(c, w->measured.latency), kas_chart_y(c, w->measured.accuracy),
                   radius);
    title_of(w, c->out);
    kas_buf_puts(c->out, "</circle>\n");
}

/* Of the dominated candidates whose points fall into one cell of a grid only the first is drawn. */
typedef struct grid {
    int cell, columns, rows; /* cell: pixels */
    char *taken;             /* [columns * rows] */
} grid;

/* Takes a point's cell; returns whether it was free. */
static bool take_cell(grid *g, double x, double y)
{
    char *cell = &g->taken[(int)y / g->cell * g->columns + (int)x / g->cell];
    const bool was_free = !*cell;
    *cell = 1;
    return was_free;
}

static int draw_grid(kas_chart *c, const kas_report_view *v, grid *g, bool draw)
{
    int taken = 0;
    memset(g->taken, 0, (size_t)(g->columns * g->rows));
    for (int i = 0; i < v->finished; i++) {
        const kas_work *w = v->ranked[i].work;
        if (v->ranked[i].frontier || !has_place(w))
            continue;
        const double x = kas_chart_x(c, w->measured.latency),
                     y = kas_chart_y(c, w->measured.accuracy);
        if (!take_cell(g, x, y))
            continue;
        taken++;
        if (draw) {
            put_dot(c, w, "dot", 3);
            kas_chart_keep_free(c, x, y, 2);
        }
    }
    return taken;
}

/* Draws the dominated candidates on a grid so coarse that there are at most `limit` of them.
 * Returns how many it drew, or -1 when memory is exhausted. */
static int draw_dominated(kas_chart *c, const kas_report_view *v, int limit)
{
    grid g = {.cell = CELL, .taken = malloc((size_t)(c->width + 1) * (size_t)(c->height + 1))};
    if (!g.taken)
        return -1;
    for (;; g.cell += 2) {
        g.columns = (int)c->width / g.cell + 1;
        g.rows = (int)c->height / g.cell + 1;
        if (draw_grid(c, v, &g, false) <= limit)
            break;
    }
    const int drawn = draw_grid(c, v, &g, true);
    free(g.taken);
    return drawn;
}

/* Lists what is on the frontier: accuracy falls, and so does the latency. */
static int list_front(const kas_report_view *v, int limit, const kas_work **out)
{
    int count = 0;
    bool due = v->baseline_on_frontier && has_place(v->baseline);
    for (int i = 0; i < v->finished && count < limit; i++) {
        const kas_work *w = v->ranked[i].work;
        if (!v->ranked[i].frontier || !has_place(w))
            continue;
        if (due && v->baseline->measured.accuracy >= w->measured.accuracy)
            out[count++] = v->baseline;
        due &= !count || out[count - 1] != v->baseline;
        out[count++] = w;
    }
    if (due)
        out[count++] = v->baseline;
    return count;
}

/* Returns how many candidates it drew. */
static int draw_frontier(kas_chart *c, const kas_report_view *v, int limit)
{
    const kas_work **front = calloc((size_t)limit + 2, sizeof *front);
    const int count = front ? list_front(v, limit, front) : 0;
    int drawn = 0;
    for (int i = 0; i < count; i++) {
        const double x = kas_chart_x(c, front[i]->measured.latency),
                     y = kas_chart_y(c, front[i]->measured.accuracy);
        if (i)
            kas_buf_printf(c->out, "V%.1fH%.1f", y, x);
        else
            kas_buf_printf(c->out, "<path class=\"front\" d=\"M%.1f %.1fH%.1f", c->right, y, x);
        kas_chart_keep_free(c, x, y, 5);
    }
    if (count)
        kas_buf_printf(c->out, "V%.1f\"/>\n", c->bottom);
    for (int i = 0; i < count; i++)
        if (front[i] != v->baseline) {
            put_dot(c, front[i], "dot on", 4);
            drawn++;
        }
    c->out->failed |= !front;
    free(front);
    return drawn;
}

static void draw_baseline(kas_chart *c, const kas_work *w)
{
    const double x = kas_chart_x(c, w->measured.latency), y = kas_chart_y(c, w->measured.accuracy);
    kas_buf_printf(
        c->out,
        "<path class=\"guide\" d=\"M%.1f %.1fH%.1fM%.1f %.1fV%.1f\"/><rect class=\"base\" "
        "x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\">",
        c->left, y, c->right, x, c->top, c->bottom, x - 4.5, y - 4.5);
    title_of(w, c->out);
    kas_buf_puts(c->out, "</rect>\n");
    kas_chart_keep_free(c, x, y, 6);
}

static void put_labels(kas_chart *c, const kas_report_view *v)
{
    char text[64];
    int labels = 0;
    if (v->baseline && has_place(v->baseline))
        kas_chart_label(c, kas_chart_x(c, v->baseline->measured.latency),
                        kas_chart_y(c, v->baseline->measured.accuracy), "label base",
                        "unmodified network", true);
    for (int i = 0; i < v->finished && labels < LABELS; i++) {
        const kas_work *w = v->ranked[i].work;
        if (!has_place(w) || !(v->ranked[i].frontier || w == v->answer))
            continue;
        snprintf(text, sizeof text, "%.*s", KAS_SHORT_NAME, w->name);
        const char *known = kas_work_known_as(w);
        if (known)
            snprintf(text, sizeof text, "%.40s", known);
        labels += kas_chart_label(c, kas_chart_x(c, w->measured.latency),
                                  kas_chart_y(c, w->measured.accuracy),
                                  w == v->answer ? "label on strong" : "label on", text, false);
    }
}

static int draw(const kas_report_view *v, const range *latency, const range *accuracy, int limit,
                bool wide, kas_buf *out)
{
    char title[64];
    kas_chart c;
    snprintf(title, sizeof title, "latency of %d images", KAS_LATENCY_BATCH);
    const kas_axis x = kas_axis_seconds(title, latency->low, latency->high,
                                        latency->high > 5 * latency->low),
                   y = kas_axis_percent("validation top-1", accuracy->low, accuracy->high);
    kas_chart_open(&c, out, wide, &x, &y, 0, "Accuracy of the candidates against their latency");
    const int dominated = draw_dominated(&c, v, limit);
    const int front = draw_frontier(&c, v, limit);
    if (v->baseline && has_place(v->baseline))
        draw_baseline(&c, v->baseline);
    if (v->answer && has_place(v->answer)) /* which may lie behind the frontier */
        put_dot(&c, v->answer, "dot on", 5.5);
    put_labels(&c, v);
    kas_chart_close(&c);
    out->failed |= dominated < 0;
    return dominated + front;
}

void kas_report_frontier(const kas_report_view *v, const kas_report_limits *limits, kas_buf *out)
{
    range latency, accuracy;
    const int placed = find_ranges(v, &latency, &accuracy);
    if (!placed)
        return;
    kas_html_section(out, "Accuracy against latency");
    kas_buf_puts(out, "<figure>\n");
    const int drawn = draw(v, &latency, &accuracy, limits->points, true, out);
    draw(v, &latency, &accuracy, limits->points, false, out);
    kas_buf_puts(out,
                 "<figcaption>Further up is more accurate, further left is faster. The line is "
                 "the frontier: what nothing else beats in both.");
    if (v->baseline && has_place(v->baseline))
        kas_buf_puts(out,
                     " Dashes lead from the unmodified network: only what lies left of them or "
                     "above them is of use.");
    if (placed < v->finished)
        kas_buf_printf(out, " %d of %d finished candidates have no measured latency.",
                       v->finished - placed, v->finished);
    if (drawn < placed)
        kas_buf_printf(out, " %d of %d points are drawn, one for each spot.", drawn, placed);
    kas_buf_puts(out, "</figcaption>\n</figure>\n");
    kas_html_section_end(out);
}
