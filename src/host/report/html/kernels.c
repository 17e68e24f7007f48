/* The best kernels, drawn as graphs with the shape of every tensor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/graph.h"
#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"
#include "host/space/describe.h"
#include "host/space/file/assignment.h"
#include "host/study/problem.h"

enum { MOST_PARTS = 2 }; /* MOST_PARTS: kernels drawn of a candidate with several */

/* Adds a text as a line of the box, or as two where it is long and has a comma to break at. */
static void add_text(kas_graph_node *node, const char *text)
{
    const char *comma = strlen(text) > 34 ? strchr(text, ',') : NULL;
    if (!comma) {
        kas_graph_line(node, "%s", text);
        return;
    }
    kas_graph_line(node, "%.*s", (int)(comma + 1 - text), text);
    kas_graph_line(node, "%s", comma + 2);
}

static void describe(const kas_kernel *kernel, int i, const kas_binding *binding,
                     kas_graph_node *node)
{
    kas_buf text = {0};
    uint32_t sizes[KAS_MAX_DIMS];
    int rank;
    kas_node_describe(kernel, i, &text);
    add_text(node, kas_buf_text(&text));
    kas_buf_clear(&text);
    kas_shape_print(&kernel->node[i].shape, &text);
    kas_graph_line(node, "%s", kas_buf_text(&text));
    kas_buf_clear(&text);
    if (binding && kas_node_sizes(&kernel->node[i], binding, sizes, &rank) == KAS_OK) {
        for (int d = 0; d < rank; d++)
            kas_buf_printf(&text, "%s%u", d ? " × " : "", sizes[d]);
        kas_graph_line(node, "%s", kas_buf_text(&text));
    }
    node->look = kas_node_class(kernel->node[i].op);
    kas_buf_free(&text);
}

static kas_status draw(const kas_kernel *kernel, const kas_binding *binding, const char *name,
                       kas_buf *out)
{
    kas_graph g;
    int edges = 0;
    char about[64];
    for (int i = 0; i < kernel->nodes; i++)
        edges += kernel->node[i].inputs;
    KAS_TRY(kas_graph_make(kernel->nodes, edges, &g));
    edges = 0;
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_node *node = &kernel->node[i];
        const bool ordered =
            node->inputs > 1 && kas_type_of(node->op) == KAS_TYPE_BROADCAST &&
            !kas_shape_equal(&kernel->node[node->in[0]].shape, &kernel->node[node->in[1]].shape);
        describe(kernel, i, binding, &g.node[i]);
        for (int k = 0; k < node->inputs; k++, edges++) {
            g.edge[edges].from = node->in[k];
            g.edge[edges].to = i;
            if (ordered || node->op == KAS_OP_BMM || node->op == KAS_OP_SUB)
                g.edge[edges].text = k == 0 ? "LHS" : "RHS";
        }
    }
    snprintf(about, sizeof about, "Kernel %s as a graph", name);
    const kas_status status = kas_graph_draw(&g, about, out);
    kas_graph_free(&g);
    return status;
}

/* How many targets have kernel k, and the first of them. */
static int layers_of(const kas_replacement *r, int k, int *first)
{
    int count = 0;
    for (int t = r->solution.targets - 1; t >= 0; t--)
        if ((r->kernel_of ? r->kernel_of[t] : 0) == k) {
            *first = t;
            count++;
        }
    return count;
}

/* Draws the kernels of a candidate at the targets of the network. */
static kas_status draw_placed(const kas_report_view *v, const kas_work *w, kas_buf *out)
{
    kas_replacement r;
    kas_status status =
        kas_problem_place(&v->options, w->name, w->kernel, w->gains, v->target, v->targets, &r);
    KAS_TRY(status);
    for (int k = 0; k < r.kernels && k < MOST_PARTS && status == KAS_OK; k++) {
        int first = 0;
        const int layers = layers_of(&r, k, &first);
        kas_buf_puts(out, "<p class=\"note\">");
        if (r.kernels > 1)
            kas_buf_printf(out, "Kernel %d of %d, at %d of %d layers. ", k + 1, r.kernels, layers,
                           v->targets);
        kas_html_put(out, "Numbers: sizes at %s.", v->target[first].name);
        kas_buf_puts(out, "</p>\n");
        status = draw(&r.kernel[k], &r.solution.binding[first], w->name, out);
    }
    kas_replacement_free(&r);
    return status;
}

static kas_status draw_symbolic(const kas_work *w, kas_buf *out)
{
    kas_assignment a;
    KAS_TRY(kas_assignment_read_json(w->name, w->kernel, strlen(w->kernel), &a));
    kas_status status = KAS_OK;
    for (int k = 0; k < a.kernels && k < MOST_PARTS && status == KAS_OK; k++)
        status = draw(&a.kernel[k], NULL, w->name, out);
    kas_assignment_free(&a);
    return status;
}

static void put_heading(const kas_report_view *v, const kas_work *w, kas_buf *out)
{
    char origin[KAS_ORIGIN_TEXT], latency[32];
    kas_report_origin(w, origin);
    kas_buf_puts(out, "<h3><code>");
    kas_html_text(out, w->name);
    kas_buf_puts(out, "</code></h3>\n<p class=\"note\">");
    kas_html_put(out, "%s%s%.2f%%, %s", origin, *origin ? " · " : "", 100 * w->measured.accuracy,
                 kas_human_seconds(w->measured.latency, latency));
    if (v->baseline && v->baseline->measured.latency > 0 && isfinite(w->measured.latency))
        kas_html_put(out, ", %.2f times the unmodified network’s",
                     w->measured.latency / v->baseline->measured.latency);
    kas_html_put(out, " · %.3g of the FLOPs, %.3g of the parameters", w->flops / w->conv_flops,
                 w->params / w->conv_params);
    kas_buf_puts(out, "</p>\n");
}

/* A kernel that cannot be read any more costs its picture, not the report. */
static kas_status put_kernel(const kas_report_view *v, const kas_work *w, kas_buf *out)
{
    kas_buf_puts(out, "<div>\n");
    put_heading(v, w, out);
    kas_buf picture = {0};
    kas_status status = KAS_BAD_INPUT;
    if (w->kernel && v->targets)
        status = draw_placed(v, w, &picture);
    if (w->kernel && status != KAS_OK && status != KAS_NO_MEMORY) {
        kas_buf_clear(&picture);
        status = draw_symbolic(w, &picture);
    }
    if (status == KAS_OK) {
        kas_buf_puts(out, kas_buf_text(&picture));
    } else if (status != KAS_NO_MEMORY) {
        kas_buf_puts(out, "<p class=\"note\">");
        kas_html_put(out, "It cannot be drawn: %s",
                     w->kernel ? kas_error() : "the store has no text");
        kas_buf_puts(out, "</p>\n");
        status = KAS_OK;
    }
    kas_buf_puts(out, "</div>\n");
    kas_buf_free(&picture);
    return status;
}

/* The most accurate candidate that is no known kernel; NULL = none. */
static const kas_work *best_new(const kas_report_view *v)
{
    for (int i = 0; i < v->finished; i++)
        if (!kas_work_known_as(v->ranked[i].work))
            return v->ranked[i].work;
    return NULL;
}

int kas_report_drawn(const kas_report_view *v, const kas_report_limits *limits,
                     const kas_work *out[KAS_REPORT_KERNELS])
{
    const kas_work *new = best_new(v);
    int count = 0;
    if (v->answer)
        out[count++] = v->answer;
    if (new &&new != v->answer && count < limits->kernels)
        out[count++] = new;
    for (int i = 0; i < v->finished && count < limits->kernels; i++) {
        const kas_work *w = v->ranked[i].work;
        if (v->ranked[i].frontier && w != v->answer && w != new)
            out[count++] = w;
    }
    return count;
}

kas_status kas_report_kernels(const kas_report_view *v, const kas_report_limits *limits,
                              kas_buf *out)
{
    if (!v->answer)
        return KAS_OK;
    kas_html_section(out, "The best kernels");
    kas_buf_puts(out,
                 "<p class=\"note\">Each box is a tensor: how it is made, and its shape in the "
                 "symbols of the search. <span class=\"key weight\">has weights</span> "
                 "<span class=\"key rearrangement\">moves values</span> <span class=\"key "
                 "broadcast\">combines two</span> <span class=\"key arithmetic\">other "
                 "arithmetic</span>");
    if (*v->missing) {
        kas_buf_puts(out, "<br>Sizes in numbers are missing: ");
        kas_html_text(out, v->missing);
    }
    kas_buf_puts(out, "</p>\n");
    kas_buf_puts(out, "<div class=\"kernels\">\n");
    const kas_work *drawn[KAS_REPORT_KERNELS];
    const int count = kas_report_drawn(v, limits, drawn);
    kas_status status = KAS_OK;
    for (int i = 0; i < count && status == KAS_OK; i++)
        status = put_kernel(v, drawn[i], out);
    kas_buf_puts(out, "</div>\n");
    kas_html_section_end(out);
    return status;
}
