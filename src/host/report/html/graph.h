/* Directed graphs without cycles, drawn as SVG: kernels, and families of kernels.
 *
 * Graphviz finds the places of boxes and lines where its program `dot` is installed; a layout of
 * our own does elsewhere. Both only fill in coordinates, so that a picture has the page's colours
 * and letters either way. */
#ifndef KAS_REPORT_HTML_GRAPH_H
#define KAS_REPORT_HTML_GRAPH_H

#include "host/core/buf.h"
#include "host/core/status.h"

enum { KAS_GRAPH_LINES = 4, KAS_GRAPH_POINTS = 61 };

typedef struct kas_graph_node {
    char line[KAS_GRAPH_LINES][80];
    int lines;
    const char *look;           /* class of style.css */
    double x, y, width, height; /* x, y: of the middle */
} kas_graph_node;

typedef struct kas_graph_edge {
    int from, to;
    const char *text; /* at its head; NULL = none */
    /* A chain of cubic Bezier curves: the first point, then three for each curve. */
    double x[KAS_GRAPH_POINTS], y[KAS_GRAPH_POINTS];
    int points;
} kas_graph_edge;

typedef struct kas_graph {
    kas_graph_node *node;
    kas_graph_edge *edge;
    int nodes, edges;
    double width, height; /* of the picture */
} kas_graph;

/* Allocates room for nodes and edges, all zero; the caller sets their texts, looks and ends, and
 * frees the graph with kas_graph_free. */
kas_status kas_graph_make(int nodes, int edges, kas_graph *out);
void kas_graph_free(kas_graph *graph);
/* Appends a line of text to a node, in printf's way; a line too long is cut. */
void kas_graph_line(kas_graph_node *node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Places everything and appends the picture, with `about` for readers who do not see it. */
kas_status kas_graph_draw(kas_graph *graph, const char *about, kas_buf *out);

/* The two ways to place, each for a graph whose nodes have their sizes. kas_graph_by_dot sets *done
 * to false where there is no `dot`, or where it fails. */
kas_status kas_graph_by_dot(kas_graph *graph, bool *done);
kas_status kas_graph_by_layers(kas_graph *graph);

#endif
