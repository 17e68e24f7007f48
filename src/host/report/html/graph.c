#include "host/report/html/graph.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/chart.h"
#include "host/report/html/markup.h"

enum { LINE = 16, SIDE = 11, ABOVE = 7 }; /* pixels: height of a line, room around the text */

kas_status kas_graph_make(int nodes, int edges, kas_graph *g)
{
    *g = (kas_graph){.nodes = nodes, .edges = edges};
    g->node = calloc((size_t)nodes + 1, sizeof *g->node);
    g->edge = calloc((size_t)edges + 1, sizeof *g->edge);
    if (g->node && g->edge)
        return KAS_OK;
    kas_graph_free(g);
    return kas_fail(KAS_NO_MEMORY, "out of memory for a picture");
}

void kas_graph_free(kas_graph *g)
{
    free(g->node);
    free(g->edge);
    *g = (kas_graph){0};
}

void kas_graph_line(kas_graph_node *node, const char *format, ...)
{
    va_list args;
    if (node->lines == KAS_GRAPH_LINES)
        return;
    va_start(args, format);
    vsnprintf(node->line[node->lines], sizeof node->line[0], format, args);
    va_end(args);
    node->lines++;
}

static void set_sizes(kas_graph *g)
{
    for (int i = 0; i < g->nodes; i++) {
        kas_graph_node *n = &g->node[i];
        n->width = 0;
        for (int k = 0; k < n->lines; k++) {
            const double width = kas_chart_text_width(n->line[k]);
            n->width = width > n->width ? width : n->width;
        }
        n->width += 2 * SIDE;
        n->height = n->lines * LINE + 2 * ABOVE;
    }
}

/* Whether another edge arrives at the same node on the right of this one. */
static bool is_left(const kas_graph *g, const kas_graph_edge *e)
{
    for (int i = 0; i < g->edges; i++) {
        const kas_graph_edge *other = &g->edge[i];
        if (other->to == e->to && other->x[other->points - 1] > e->x[e->points - 1] + 1)
            return true;
    }
    return false;
}

/* Draws the head in the direction in which the line arrives. */
static void draw_head(const kas_graph_edge *e, kas_buf *out)
{
    const int n = e->points - 1;
    const double x = e->x[n] - e->x[n - 1], y = e->y[n] - e->y[n - 1], size = hypot(x, y);
    const double dx = size > 0 ? x / size : 0, dy = size > 0 ? y / size : 1;
    kas_buf_printf(out, "<path class=\"head\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fz\"/>", e->x[n],
                   e->y[n], e->x[n] - 7 * dx - 3.5 * dy, e->y[n] - 7 * dy + 3.5 * dx,
                   e->x[n] - 7 * dx + 3.5 * dy, e->y[n] - 7 * dy - 3.5 * dx);
}

static void draw_edge(const kas_graph *g, const kas_graph_edge *e, kas_buf *out)
{
    kas_buf_printf(out, "<path class=\"edge\" d=\"M%.1f %.1f", e->x[0], e->y[0]);
    for (int i = 1; i < e->points; i++)
        kas_buf_printf(out, "%s%.1f %.1f", i % 3 == 1 ? "C" : " ", e->x[i], e->y[i]);
    kas_buf_puts(out, "\"/>");
    draw_head(e, out);
    const double x = e->x[e->points - 1], y = e->y[e->points - 1];
    if (e->text) {
        const bool left = is_left(g, e);
        kas_buf_printf(out, "<text class=\"side%s\" x=\"%.1f\" y=\"%.1f\">", left ? " end" : "",
                       left ? x - 6 : x + 6, y - 3);
        kas_html_text(out, e->text);
        kas_buf_puts(out, "</text>");
    }
    kas_buf_puts(out, "\n");
}

static void draw_node(const kas_graph_node *n, kas_buf *out)
{
    kas_buf_printf(out,
                   "<g class=\"node %s\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                   "height=\"%.1f\" rx=\"4\"/>",
                   n->look ? n->look : "", n->x - n->width / 2, n->y - n->height / 2, n->width,
                   n->height);
    for (int k = 0; k < n->lines; k++) {
        kas_buf_printf(out, "<text%s x=\"%.1f\" y=\"%.1f\">", k ? " class=\"more\"" : "", n->x,
                       n->y - n->height / 2 + ABOVE + LINE * (k + 0.75));
        kas_html_text(out, n->line[k]);
        kas_buf_puts(out, "</text>");
    }
    kas_buf_puts(out, "</g>\n");
}

kas_status kas_graph_draw(kas_graph *g, const char *about, kas_buf *out)
{
    bool done = false;
    set_sizes(g);
    KAS_TRY(kas_graph_by_dot(g, &done));
    if (!done)
        KAS_TRY(kas_graph_by_layers(g));
    /* A picture is never scaled up, and a wide one scrolls in its box (style.css). */
    kas_buf_printf(out,
                   "<div class=\"scroll\"><svg class=\"graph\" width=\"%.0f\" height=\"%.0f\" "
                   "viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"",
                   g->width, g->height, g->width, g->height);
    kas_html_text(out, about);
    kas_buf_puts(out, "\">\n");
    for (int i = 0; i < g->edges; i++)
        draw_edge(g, &g->edge[i], out);
    for (int i = 0; i < g->nodes; i++)
        draw_node(&g->node[i], out);
    kas_buf_puts(out, "</svg></div>\n");
    return kas_buf_status(out);
}
