/* The family tree of the best candidate: its parents, their parents, and so on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/graph.h"
#include "host/report/html/markup.h"
#include "host/report/html/sections.h"

typedef struct bond {
    int child, parent;
} bond;

typedef struct family {
    const kas_report_view *view;
    char (*name)[17]; /* [members]; the first is the best candidate */
    bond *link;
    int members, links, most;
    int left_out; /* ancestors beyond `most` */
} family;

/* Returns the member with this name, which is added when it is new; -1 when there is no room. */
static int member(family *f, const char *name, size_t length)
{
    for (int i = 0; i < f->members; i++)
        if (strlen(f->name[i]) == length && strncmp(f->name[i], name, length) == 0)
            return i;
    if (f->members == f->most || length > 16) {
        f->left_out++;
        return -1;
    }
    snprintf(f->name[f->members], sizeof *f->name, "%.*s", (int)length, name);
    return f->members++;
}

/* Parents come before their children. A damaged store could say otherwise, and a tree with a circle
 * cannot be drawn. */
static bool is_older(const kas_work *parent, const kas_work *child)
{
    return !parent || parent->index < child->index;
}

/* Follows the parents of one member after the other: the nearest generations come first. */
static void collect(family *f)
{
    for (int i = 0; i < f->members; i++) {
        const kas_work *w = kas_report_find(f->view, f->name[i]);
        for (const char *p = w ? w->parents : ""; *p;) {
            const size_t length = strcspn(p, ",");
            const int parent = length ? member(f, p, length) : -1;
            if (parent >= 0 && f->links < 2 * f->most &&
                is_older(kas_report_find(f->view, f->name[parent]), w))
                f->link[f->links++] = (bond){i, parent};
            p += length + (p[length] == ',');
        }
    }
}

static void describe(const family *f, int i, kas_graph_node *node)
{
    const kas_work *w = kas_report_find(f->view, f->name[i]);
    char origin[KAS_ORIGIN_TEXT];
    node->look = i == 0 ? "best" : "plain";
    kas_graph_line(node, "%.*s", KAS_SHORT_NAME, f->name[i]);
    if (!w) {
        kas_graph_line(node, "of another study");
        return;
    }
    kas_report_origin(w, origin);
    kas_graph_line(node, "%.40s", *origin ? origin : "origin unknown");
    if (isfinite(w->measured.accuracy))
        kas_graph_line(node, "%.2f%% · generation %d", 100 * w->measured.accuracy, w->generation);
    else
        kas_graph_line(node, "%s · generation %d", kas_work_state_name(w->state), w->generation);
    if (kas_work_known_as(w))
        node->look = i == 0 ? "best" : "known";
}

static kas_status draw(const family *f, kas_buf *out)
{
    kas_graph g;
    KAS_TRY(kas_graph_make(f->members, f->links, &g));
    for (int i = 0; i < f->members; i++)
        describe(f, i, &g.node[i]);
    for (int i = 0; i < f->links; i++) {
        g.edge[i].from = f->link[i].parent;
        g.edge[i].to = f->link[i].child;
    }
    const kas_status status = kas_graph_draw(&g, "The ancestors of the best candidate", out);
    kas_graph_free(&g);
    return status;
}

kas_status kas_report_family(const kas_report_view *v, const kas_report_limits *limits,
                             kas_buf *out)
{
    if (!v->answer || !*v->answer->parents)
        return KAS_OK;
    family f = {.view = v, .most = limits->ancestors};
    f.name = calloc((size_t)f.most + 1, sizeof *f.name);
    f.link = calloc((size_t)f.most * 2 + 1, sizeof *f.link);
    kas_status status = KAS_OK;
    if (!f.name || !f.link) {
        status = kas_fail(KAS_NO_MEMORY, "%s: out of memory", v->folder);
    } else {
        member(&f, v->answer->name, strlen(v->answer->name));
        collect(&f);
        kas_html_section(out, "Where the best kernel comes from");
        status = draw(&f, out);
        kas_buf_puts(out,
                     "<p class=\"note\">Each box is a candidate, and lines lead from parents to "
                     "children. It says how the candidate came (a change of its parent, a graft "
                     "of two), its validation top-1 and its generation.");
        if (f.left_out)
            kas_buf_puts(out, " Older ancestors are left out.");
        kas_buf_puts(out, "</p>\n");
        kas_html_section_end(out);
    }
    free(f.name);
    free(f.link);
    return status;
}
