/* Places a graph in layers, after Sugiyama, Tagawa and Toda (1981): each node lies one layer below
 * the deepest of those that lead to it; an edge over several layers gets a bend in each of them;
 * the order within the layers is swept up and down by the mean places of neighbours, and the order
 * with the fewest crossings is kept; last, the boxes of each layer move as near to the middle of
 * their neighbours as the others of the layer let them. */
#include "host/report/html/graph.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 22, LAYER_GAP = 34, MARGIN = 2, SWEEPS = 12, BEND_WIDTH = 4 };

/* A place in a layer: a node, or the bend of an edge. */
typedef struct vertex {
    int layer;
    double width, x;
    double key; /* that the layer is sorted by */
} vertex;

typedef struct plan {
    kas_graph *graph;
    vertex *v; /* [count]: first the nodes, then the bends, edge by edge */
    int count, layers;
    int (*link)[2]; /* [links] from one layer to the next, upper end first */
    int links;
    int *first_bend;    /* [edges] index into v; the bends of an edge follow each other */
    int *order;         /* [count] vertices, layer by layer, from left to right */
    int *begin;         /* [layers + 1] where each layer begins in `order` */
    int *best;          /* [count] the order with the fewest crossings so far */
    int *place;         /* [count] of a vertex within its layer */
    double *wish, *sum; /* [count] work space */
} plan;

/* Nodes need not be sorted; as many rounds as there are nodes are enough without a cycle. */
static int find_layers(const kas_graph *g, vertex *v)
{
    int layers = 1;
    bool changed = true;
    for (int round = 0; changed && round <= g->nodes; round++) {
        changed = false;
        for (int i = 0; i < g->edges; i++) {
            const int below = v[g->edge[i].from].layer + 1;
            if (v[g->edge[i].to].layer < below && below < g->nodes) {
                v[g->edge[i].to].layer = below;
                layers = layers > below + 1 ? layers : below + 1;
                changed = true;
            }
        }
    }
    return layers;
}

static int bends_of(const plan *p, int e)
{
    const int bends = p->v[p->graph->edge[e].to].layer - p->v[p->graph->edge[e].from].layer - 1;
    return bends > 0 ? bends : 0;
}

static void add_edge(plan *p, int e)
{
    const kas_graph_edge *edge = &p->graph->edge[e];
    int above = edge->from;
    p->first_bend[e] = p->count;
    for (int i = 0, n = bends_of(p, e); i < n; i++) {
        p->v[p->count] = (vertex){.layer = p->v[above].layer + 1, .width = BEND_WIDTH};
        p->link[p->links][0] = above;
        p->link[p->links++][1] = p->count;
        above = p->count++;
    }
    p->link[p->links][0] = above;
    p->link[p->links++][1] = edge->to;
}

static void release(plan *p)
{
    free(p->v);
    free(p->link);
    free(p->first_bend);
    free(p->order);
    free(p->begin);
    free(p->best);
    free(p->place);
    free(p->wish);
    free(p->sum);
}

static kas_status make(kas_graph *g, plan *p)
{
    *p = (plan){.graph = g};
    size_t most = (size_t)g->nodes + (size_t)g->edges * (size_t)(g->nodes + 1) + 1;
    p->v = calloc(most, sizeof *p->v);
    p->link = calloc(most, sizeof *p->link);
    p->order = calloc(most, sizeof *p->order);
    p->best = calloc(most, sizeof *p->best);
    p->place = calloc(most, sizeof *p->place);
    p->wish = calloc(most, sizeof *p->wish);
    p->sum = calloc(most, sizeof *p->sum);
    p->first_bend = calloc((size_t)g->edges + 1, sizeof *p->first_bend);
    p->begin = calloc((size_t)g->nodes + 2, sizeof *p->begin);
    if (!p->v || !p->link || !p->order || !p->best || !p->place || !p->wish || !p->sum ||
        !p->first_bend || !p->begin)
        return kas_fail(KAS_NO_MEMORY, "out of memory for a picture");
    p->layers = find_layers(g, p->v);
    for (int i = 0; i < g->nodes; i++)
        p->v[i].width = g->node[i].width;
    p->count = g->nodes;
    for (int e = 0; e < g->edges; e++)
        add_edge(p, e);
    int at = 0;
    for (int layer = 0; layer < p->layers; layer++) {
        p->begin[layer] = at;
        for (int i = 0; i < p->count; i++)
            if (p->v[i].layer == layer)
                p->order[at++] = i;
    }
    p->begin[p->layers] = at;
    return KAS_OK;
}

/* ---- the order within layers ---- */

static void number_places(plan *p)
{
    for (int layer = 0; layer < p->layers; layer++)
        for (int i = p->begin[layer]; i < p->begin[layer + 1]; i++)
            p->place[p->order[i]] = i - p->begin[layer];
}

static long crossings(const plan *p)
{
    long count = 0;
    for (int a = 0; a < p->links; a++)
        for (int b = a + 1; b < p->links; b++) {
            const int *s = p->link[a], *t = p->link[b];
            if (p->v[s[0]].layer == p->v[t[0]].layer)
                count += (p->place[s[0]] - p->place[t[0]]) * (p->place[s[1]] - p->place[t[1]]) < 0;
        }
    return count;
}

/* Sorts by insertion, which is stable: vertices without a wish to move keep their order. */
static void sort_layer(plan *p, int layer)
{
    int *o = p->order + p->begin[layer];
    const int n = p->begin[layer + 1] - p->begin[layer];
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && p->v[o[k - 1]].key > p->v[o[k]].key; k--) {
            const int swap = o[k];
            o[k] = o[k - 1];
            o[k - 1] = swap;
        }
}

/* Sorts a layer by the mean place of its neighbours above (side 0) or below (side 1). */
static void sweep_layer(plan *p, int layer, int side)
{
    for (int i = p->begin[layer]; i < p->begin[layer + 1]; i++) {
        double sum = 0;
        int count = 0;
        for (int l = 0; l < p->links; l++)
            if (p->link[l][!side] == p->order[i]) {
                sum += p->place[p->link[l][side]];
                count++;
            }
        p->v[p->order[i]].key = count ? sum / count : p->place[p->order[i]];
    }
    sort_layer(p, layer);
    number_places(p);
}

static void find_order(plan *p)
{
    const size_t bytes = (size_t)p->count * sizeof *p->order;
    number_places(p);
    long fewest = crossings(p);
    memcpy(p->best, p->order, bytes);
    for (int sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
        const int down = sweep % 2 == 0;
        for (int i = 1; i < p->layers; i++)
            sweep_layer(p, down ? i : p->layers - 1 - i, !down);
        const long now = crossings(p);
        if (now < fewest) {
            fewest = now;
            memcpy(p->best, p->order, bytes);
        }
    }
    memcpy(p->order, p->best, bytes);
    number_places(p);
}

/* ---- the places from left to right ---- */

/* The distance between the middles of neighbours in a layer. */
static double apart(const plan *p, int left, int right)
{
    return (p->v[left].width + p->v[right].width) / 2 + GAP;
}

/* Moves the vertices of a layer so that the squares of the distances to their wishes have the least
 * sum and none overlaps its neighbour: with the widths taken away this is isotonic regression,
 * which merges runs that are out of order into their mean. */
static void settle(plan *p, int layer)
{
    const int *o = p->order + p->begin[layer], n = p->begin[layer + 1] - p->begin[layer];
    double offset = 0;
    int runs = 0, *size = p->best; /* free since find_order */
    for (int i = 0; i < n; i++) {
        offset += i ? apart(p, o[i - 1], o[i]) : 0;
        p->sum[runs] = p->wish[o[i]] - offset;
        size[runs++] = 1;
        while (runs > 1 && p->sum[runs - 2] * size[runs - 1] > p->sum[runs - 1] * size[runs - 2]) {
            p->sum[runs - 2] += p->sum[runs - 1];
            size[runs - 2] += size[runs - 1];
            runs--;
        }
    }
    offset = 0;
    for (int run = 0, i = 0; run < runs; run++)
        for (int k = 0; k < size[run]; k++, i++) {
            offset += i ? apart(p, o[i - 1], o[i]) : 0;
            p->v[o[i]].x = p->sum[run] / size[run] + offset;
        }
}

/* Wishes each vertex of a layer in the middle of its neighbours on the sides that are asked for. */
static void wish(plan *p, int layer, bool above, bool below)
{
    for (int i = p->begin[layer]; i < p->begin[layer + 1]; i++) {
        const int self = p->order[i];
        double sum = 0;
        int count = 0;
        for (int l = 0; l < p->links; l++) {
            const int *s = p->link[l];
            const int other = above && s[1] == self ? s[0] : below && s[0] == self ? s[1] : -1;
            sum += other >= 0 ? p->v[other].x : 0;
            count += other >= 0;
        }
        p->wish[self] = count ? sum / count : p->v[self].x;
    }
}

static void find_x(plan *p)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        const bool last = sweep + 2 >= SWEEPS;
        for (int i = 0; i < p->layers; i++) {
            const int layer = sweep % 2 ? p->layers - 1 - i : i;
            wish(p, layer, last || sweep % 2 == 0, last || sweep % 2 == 1);
            settle(p, layer);
        }
    }
    double left = 1e9, right = -1e9;
    for (int i = 0; i < p->count; i++) {
        const vertex *v = &p->v[i];
        left = v->x - v->width / 2 < left ? v->x - v->width / 2 : left;
        right = v->x + v->width / 2 > right ? v->x + v->width / 2 : right;
    }
    for (int i = 0; i < p->count; i++)
        p->v[i].x += MARGIN - left;
    p->graph->width = right - left + 2 * MARGIN;
}

/* ---- coordinates of the picture ---- */

static void set_nodes(plan *p, double *middle)
{
    double y = MARGIN;
    for (int layer = 0; layer < p->layers; layer++) {
        double height = 0;
        for (int i = 0; i < p->graph->nodes; i++)
            if (p->v[i].layer == layer && p->graph->node[i].height > height)
                height = p->graph->node[i].height;
        middle[layer] = y + height / 2;
        y += height + LAYER_GAP;
    }
    p->graph->height = y - LAYER_GAP + MARGIN;
    for (int i = 0; i < p->graph->nodes; i++) {
        p->graph->node[i].x = p->v[i].x;
        p->graph->node[i].y = middle[p->v[i].layer];
    }
}

/* Adds a curve that leaves and arrives upright. */
static void bend_to(kas_graph_edge *e, double x, double y)
{
    const int n = e->points;
    const double half = (y + e->y[n - 1]) / 2;
    if (n + 3 > KAS_GRAPH_POINTS) { /* too long for its points: the last curve goes all the way */
        e->x[n - 1] = x;
        e->y[n - 1] = y;
        return;
    }
    e->x[n] = e->x[n - 1];
    e->x[n + 1] = e->x[n + 2] = x;
    e->y[n] = e->y[n + 1] = half;
    e->y[n + 2] = y;
    e->points = n + 3;
}

/* Edges that lead to one node arrive side by side, in the order of where they come from. */
static double arrival(const plan *p, int e)
{
    const kas_graph *g = p->graph;
    int before = 0, all = 0;
    for (int i = 0; i < g->edges; i++) {
        if (g->edge[i].to != g->edge[e].to)
            continue;
        const int n = bends_of(p, i), m = bends_of(p, e);
        const double a = p->v[n ? p->first_bend[i] + n - 1 : g->edge[i].from].x;
        const double b = p->v[m ? p->first_bend[e] + m - 1 : g->edge[e].from].x;
        before += a < b || (a == b && i < e);
        all++;
    }
    const kas_graph_node *node = &g->node[g->edge[e].to];
    return node->x + node->width * ((before + 1.0) / (all + 1) - 0.5) * (all > 1 ? 0.8 : 1);
}

static void set_edge(plan *p, int e, const double *middle)
{
    kas_graph_edge *edge = &p->graph->edge[e];
    const kas_graph_node *from = &p->graph->node[edge->from], *to = &p->graph->node[edge->to];
    edge->points = 1;
    edge->x[0] = from->x;
    edge->y[0] = from->y + from->height / 2;
    for (int i = 0, n = bends_of(p, e); i < n; i++) {
        const vertex *bend = &p->v[p->first_bend[e] + i];
        bend_to(edge, bend->x, middle[bend->layer]);
    }
    bend_to(edge, arrival(p, e), to->y - to->height / 2);
}

kas_status kas_graph_by_layers(kas_graph *g)
{
    plan p;
    double *middle = NULL;
    kas_status status = make(g, &p);
    if (status == KAS_OK && !(middle = calloc((size_t)p.layers + 1, sizeof *middle)))
        status = kas_fail(KAS_NO_MEMORY, "out of memory for a picture");
    if (status == KAS_OK) {
        find_order(&p);
        find_x(&p);
        set_nodes(&p, middle);
        for (int e = 0; e < g->edges; e++)
            set_edge(&p, e, middle);
    }
    free(middle);
    release(&p);
    return status;
}
