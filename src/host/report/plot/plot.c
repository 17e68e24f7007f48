#include "host/report/plot/plot.h"

#include <math.h>
#include <stdio.h>

#include "host/core/file/files.h"
#include "host/report/html/chart.h"
#include "host/report/html/markup.h"

extern const char kas_chart_style[]; /* chart.css */

enum { COLOURS = 6, MOST_LABELS = 32, MOST_ROOM = 240 };

static int colour_of(int line)
{
    return line % COLOURS;
}

static bool find_range(const kas_plot *p, const double *y, double *low, double *high)
{
    bool any = false;
    *low = *high = 1; /* which is always shown */
    for (int i = 0; i < p->lines * p->points; i++)
        if (isfinite(y[i])) {
            *low = fmin(*low, y[i]);
            *high = fmax(*high, y[i]);
            any = true;
        }
    return any;
}

static void put_points(kas_chart *c, const kas_plot *p, const double *y, int line)
{
    kas_buf_printf(c->out, "<g class=\"band g%d\" style=\"fill-opacity: 1\">\n", colour_of(line));
    for (int i = 0; i < p->points; i++) {
        if (!isfinite(y[i]))
            continue;
        kas_buf_printf(c->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"><title>",
                       kas_chart_x(c, p->x[i]), kas_chart_y(c, y[i]));
        kas_html_put(c->out, "%s, %s: %.4gx", p->point[i], p->line[line], y[i]);
        kas_buf_puts(c->out, "</title></circle>\n");
    }
    kas_buf_puts(c->out, "</g>\n");
}

/* Draws a line; returns its last point, -1 when it has none. */
static int put_line(kas_chart *c, const kas_plot *p, const double *y, int line)
{
    int last = -1;
    for (int i = 0; i < p->points; i++) {
        if (!isfinite(y[i]))
            continue;
        if (last < 0)
            kas_buf_printf(c->out, "<path class=\"line g%d\" d=\"", colour_of(line));
        kas_buf_printf(c->out, "%c%.1f %.1f", last >= 0 && last == i - 1 ? 'L' : 'M',
                       kas_chart_x(c, p->x[i]), kas_chart_y(c, y[i]));
        last = i;
    }
    if (last >= 0)
        kas_buf_puts(c->out, "\"/>\n");
    return last;
}

static void put_lines(kas_chart *c, const kas_plot *p, const double *y)
{
    kas_end_label label[MOST_LABELS];
    char class[MOST_LABELS][16];
    int labels = 0;
    kas_buf_printf(c->out, "<path class=\"guide\" d=\"M%.1f %.1fH%.1f\"/>\n", c->left,
                   kas_chart_y(c, 1), c->right);
    for (int line = 0; line < p->lines; line++) {
        const double *of_line = y + (size_t)line * (size_t)p->points;
        const int last = put_line(c, p, of_line, line);
        if (last < 0)
            continue;
        put_points(c, p, of_line, line);
        if (labels == MOST_LABELS)
            continue;
        snprintf(class[labels], sizeof *class, "label g%d", colour_of(line));
        label[labels] = (kas_end_label){c->right, kas_chart_y(c, of_line[last]), class[labels], ""};
        snprintf(label[labels].text, sizeof label->text, "%.47s", p->line[line]);
        labels++;
    }
    kas_chart_end_labels(c, label, labels);
}

/* Draws a panel below what is there, `*height` pixels. */
static void put_panel(const kas_plot *p, const kas_plot_panel *panel, double *height, kas_buf *out)
{
    kas_chart c;
    double low, high, room = 0;
    if (!find_range(p, panel->y, &low, &high))
        return;
    for (int line = 0; line < p->lines; line++)
        room = fmax(room, kas_chart_text_width(p->line[line]) + 16);
    const kas_axis y = kas_axis_ratio(panel->title, low, high);
    kas_axis x = {.low = p->x[0], .high = p->x[p->points - 1], .scale = 1, .suffix = ""};
    snprintf(x.title, sizeof x.title, "%s", p->x_title);
    x.high += x.high > x.low ? 0 : 1;
    kas_buf_printf(out, "<g transform=\"translate(0 %.0f)\">\n", *height);
    kas_chart_open(&c, out, true, &x, &y, fmin(room, MOST_ROOM), panel->title);
    put_lines(&c, p, panel->y);
    kas_chart_close(&c);
    kas_buf_puts(out, "</g>\n");
    *height += c.height + 16;
}

static kas_status draw_picture(const kas_plot *p, kas_buf *out)
{
    kas_buf panels = {0};
    double height = 0;
    for (int i = 0; p->points > 0 && i < p->panels; i++)
        put_panel(p, &p->panel[i], &height, &panels);
    kas_status status = kas_buf_status(&panels);
    if (status == KAS_OK && height == 0)
        status = kas_fail(KAS_NOTHING_VALID, "%s: there is nothing to draw", p->about);
    if (status == KAS_OK) {
        kas_buf_printf(out,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
                       "role=\"img\" aria-label=\"",
                       KAS_CHART_WIDE, height);
        kas_html_text(out, p->about);
        kas_buf_printf(out,
                       "\">\n<style><![CDATA[\n%s]]></style>\n"
                       "<rect width=\"100%%\" height=\"100%%\" style=\"fill: var(--page)\"/>\n"
                       "%s</svg>\n",
                       kas_chart_style, kas_buf_text(&panels));
        status = kas_buf_status(out);
    }
    kas_buf_free(&panels);
    return status;
}

kas_status kas_plot_write(const kas_plot *p, const char *path)
{
    kas_buf text = {0};
    const kas_status status = draw_picture(p, &text);
    return kas_buf_save(&text, path, status);
}
