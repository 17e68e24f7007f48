/* Where the two ways of a branch meet: at the first instruction that both must come to, its
 * immediate post-dominator in the graph of control flow. */
#include <stdlib.h>

#include "ptx/form.h"

/* Instructions are the graph's nodes, and `length` is the end, to which every return leads.
 * Post-dominators are found as by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm":
 * in rounds over the nodes in postorder of the reverse graph, until nothing changes. */
typedef struct flow {
    const ptx_function *f;
    int end;
    int *number;    /* place in the order of a walk from the end backwards; -1: cannot reach it */
    int *order;     /* nodes by that number */
    int *dominator; /* immediate post-dominator, -1: not known yet */
    int *first_from, *next_from; /* edges by their target: those that lead to a node */
    int *edge_source;
} flow;

/* Writes the nodes that follow a node; returns how many. */
static int successors(const flow *g, int node, int next[2])
{
    const ptx_instruction *i = &g->f->code[node];
    const bool always = i->guard < 0;
    int n = 0;
    if (i->kind == PTX_BRANCH_KIND)
        next[n++] = i->target;
    if (i->kind == PTX_RETURN)
        next[n++] = g->end;
    if ((i->kind != PTX_BRANCH_KIND && i->kind != PTX_RETURN) || !always)
        next[n++] = node + 1;
    return n;
}

static void add_edges(flow *g)
{
    int edges = 0;
    for (int node = 0; node <= g->end; node++)
        g->first_from[node] = -1;
    for (int node = 0; node < g->end; node++) {
        int next[2];
        const int n = successors(g, node, next);
        for (int k = 0; k < n; k++) {
            g->edge_source[edges] = node;
            g->next_from[edges] = g->first_from[next[k]];
            g->first_from[next[k]] = edges++;
        }
    }
}

/* Numbers the nodes in postorder of a walk from the end against the edges. */
static void number_nodes(flow *g)
{
    int *stack = ptx_new((size_t)(g->end + 1) * sizeof *stack),
        *edge = ptx_new((size_t)(g->end + 1) * sizeof *edge);
    int depth = 1, numbered = 0;
    for (int node = 0; node <= g->end; node++)
        g->number[node] = -1;
    stack[0] = g->end;
    edge[0] = g->first_from[g->end];
    g->number[g->end] = 0; /* seen */
    while (depth > 0) {
        const int e = edge[depth - 1];
        if (e < 0) {
            const int node = stack[--depth];
            g->number[node] = numbered;
            g->order[numbered++] = node;
            continue;
        }
        edge[depth - 1] = g->next_from[e];
        const int source = g->edge_source[e];
        if (g->number[source] >= 0)
            continue;
        g->number[source] = 0;
        stack[depth] = source;
        edge[depth++] = g->first_from[source];
    }
    free(stack);
    free(edge);
}

static int common(const flow *g, int a, int b)
{
    while (a != b) {
        while (g->number[a] < g->number[b])
            a = g->dominator[a];
        while (g->number[b] < g->number[a])
            b = g->dominator[b];
    }
    return a;
}

static bool improve(flow *g, int node)
{
    int next[2], found = -1;
    const int n = successors(g, node, next);
    for (int k = 0; k < n; k++)
        if (g->number[next[k]] >= 0 && g->dominator[next[k]] >= 0)
            found = found < 0 ? next[k] : common(g, found, next[k]);
    const bool changed = g->dominator[node] != found;
    g->dominator[node] = found;
    return changed;
}

static void find_dominators(flow *g)
{
    for (int node = 0; node < g->end; node++)
        g->dominator[node] = -1;
    g->dominator[g->end] = g->end;
    for (bool changed = true; changed;) {
        changed = false;
        for (int k = g->number[g->end] - 1; k >= 0; k--)
            changed |= improve(g, g->order[k]);
    }
}

void ptx_find_joins(ptx_function *f)
{
    const size_t nodes = (size_t)f->length + 1;
    int *memory = ptx_new((4 * nodes + 2 * 2 * nodes) * sizeof *memory);
    flow g = {.f = f, .end = f->length};
    g.number = memory;
    g.order = memory + nodes;
    g.dominator = memory + 2 * nodes;
    g.first_from = memory + 3 * nodes;
    g.next_from = memory + 4 * nodes;
    g.edge_source = memory + 6 * nodes;
    add_edges(&g);
    number_nodes(&g);
    find_dominators(&g);
    for (int node = 0; node < f->length; node++)
        if (f->code[node].kind == PTX_BRANCH_KIND) {
            const int d = g.dominator[node];
            f->code[node].rejoin = d == f->length ? -1 : d;
        }
    free(memory);
}
