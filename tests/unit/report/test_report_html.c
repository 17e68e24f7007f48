/* Reports: well-formed pictures, escaped texts, a bounded size, families, comparisons, both layouts. */
#include "support/test.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/report/html/graph.h"
#include "host/report/html/markup.h"
#include "host/report/html/report.h"
#include "host/report/html/view.h"
#include "support/folder.h"
#include "support/made_study.h"

static kas_buf page; /* of the last report */

static void report_on(const char *const *names, int count)
{
    char path[8][200];
    const char *folders[8];
    for (int i = 0; i < count; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
        folders[i] = path[i];
    }
    kas_buf_free(&page);
    OK(kas_report_html(folders, count, "kas-gpu test", &page));
}

static void make(const char *name, const made_study *how)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    OK(make_study(path, how));
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        count++;
    return count;
}

/* ---- a plain reader of XML: every element ends where it must, attributes are quoted, and "<" and
 *      "&" stand only where they may ---- */

static void check_entity(const char *p)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(p, known[i], strlen(known[i])) == 0)
            return;
    fail_msg("unknown entity: %.40s", p);
}

/* Returns the end of the tag that begins at p. */
static const char *check_tag(const char *p)
{
    while (*p && *p != '>' && *p != '/') {
        while (isspace((unsigned char)*p))
            p++;
        if (*p == '>' || *p == '/')
            break;
        const char *name = p;
        while (isalnum((unsigned char)*p) || *p == '-' || *p == ':')
            p++;
        if (p == name || p[0] != '=' || p[1] != '"')
            fail_msg("not an attribute: %.60s", name);
        for (p += 2; *p && *p != '"'; p++) {
            assert_true(*p != '<');
            if (*p == '&')
                check_entity(p);
        }
        assert_int_equal(*p, '"');
        p++;
    }
    return p;
}

/* Checks one <svg> element; returns its end. */
static const char *check_svg(const char *p)
{
    char open[32][16];
    int depth = 0;
    do {
        if (*p == '&')
            check_entity(p);
        if (*p++ != '<')
            continue;
        const bool closing = *p == '/';
        p += closing;
        size_t length = strspn(p, "abcdefghijklmnopqrstuvwxyz");
        assert_in_range(length, 1, 15);
        if (closing) {
            depth--;
            if (strncmp(open[depth], p, length) != 0 || open[depth][length] || p[length] != '>')
                fail_msg("%s is open where </%.*s> stands", open[depth], (int)length, p);
            p += length + 1;
            continue;
        }
        assert_true(depth < 32);
        snprintf(open[depth++], sizeof *open, "%.*s", (int)length, p);
        p = check_tag(p + length);
        if (*p == '/') {
            depth--;
            p++;
        }
        assert_int_equal(*p, '>');
        p++;
    } while (depth > 0 && *p);
    assert_int_equal(depth, 0);
    return p;
}

static void check_page(void)
{
    const char *text = kas_buf_text(&page);
    assert_true(page.size < KAS_REPORT_BYTES);
    assert_int_equal(strlen(text), page.size);
    int pictures = 0;
    for (const char *p = text; (p = strstr(p, "<svg")); pictures++)
        p = check_svg(p);
    assert_true(pictures > 0);
    assert_int_equal(count_of(text, "http:") + count_of(text, "https:"), 0);
    assert_int_equal(count_of(text, "url("), 0);
    assert_int_equal(count_of(text, "<script"), 1);
    assert_int_equal(count_of(text, "</script"), 1);
    assert_int_equal(count_of(text, "nan"), count_of(text, "finance"));
    assert_int_equal(count_of(text, "inf\""), 0);
    const char *data = strstr(text, "id=\"data\">");
    assert_non_null(data);
    cJSON *root = cJSON_ParseWithOpts(data + 10, NULL, false);
    if (!root)
        fail_msg("the data is no JSON: %.200s", data);
    assert_true(cJSON_IsArray(cJSON_GetObjectItem(root, "studies")));
    cJSON_Delete(root);
}

static void has(const char *text)
{
    if (!strstr(kas_buf_text(&page), text))
        fail_msg("\"%s\" is not in the page", text);
}

static void has_not(const char *text)
{
    if (strstr(kas_buf_text(&page), text))
        fail_msg("\"%s\" is in the page", text);
}

/* ---- tests ---- */

TEST(one_study)
{
    make("plain", &(made_study){.candidates = 60, .epochs = 8, .evolved = true, .seed = 1});
    report_on((const char *[]){"plain"}, 1);
    check_page();
    has("<h1>plain</h1>");
    has("Accuracy against latency");
    has("Leaderboard");
    has("Training curves");
    has("Best so far over device time");
    has("<h2>Rungs</h2>");
    has("Where the best kernel comes from");
    has("The best kernels");
    has("[G0, C/G0, H, W]");
    has("Predicted against measured latency");
    has("What became of the candidates");
    has("1.70 times the unmodified network");
    has("kas-gpu search --study");
    has("--prune-window=9");
    has("kas-gpu test");
    has("in the mean of 2 seeds, by the same seeds 2.00 points more than the unmodified network");
    has("\"answered\": true, \"done\": true");
    has("2 of 2</td>");
    has("+2.00 to +2.00");
    has_not("studies compared");
}

TEST(under_way)
{
    make("running", &(made_study){.candidates = 12, .epochs = 4, .under_way = true});
    report_on((const char *[]){"running"}, 1);
    check_page();
    has("The best kernel so far, <code>");
    has("The test set has not been opened");
    has("\"answered\": false, \"done\": false");
    has("running");
    make("begun", &(made_study){.candidates = 0, .epochs = 4, .under_way = true});
    report_on((const char *[]){"begun"}, 1);
    check_page();
    has("No candidate has been trained to its end yet");
    has_not("Best so far");
}

TEST(ended_without_an_answer)
{
    make("ended", &(made_study){.candidates = 10, .epochs = 4, .unanswered = true});
    report_on((const char *[]){"ended"}, 1);
    check_page();
    has("The study is complete and has no answer: no kernel is faster than the unmodified network "
        "and within --max-loss 1. The nearest kernel, <code>");
    has("\"answered\": false, \"done\": true");
    has_not("so far, <code>");
}

/* Whatever a text of a file holds, it stays a text. */
TEST(texts_are_escaped)
{
    static const char *const texts[] = {
        "<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "]]></svg></title>&amp;",
        "</script><!--<script>", "\033[31m\xff\xfe\x01"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char name[40];
        snprintf(name, sizeof name, "<b>'\"&%zu", i);
        make(name, &(made_study){.candidates = 40, .epochs = 3, .evolved = true, .text = texts[i]});
        report_on((const char *[]){name}, 1);
        check_page();
        has("<h1>&lt;b&gt;&#39;&quot;&amp;");
        has_not("<script>alert");
        has_not("<img");
        has_not("\033");
        has_not("\xff");
        has("It cannot be drawn");
        report_on((const char *[]){name, name}, 2);
        check_page();
        has_not("<script>alert");
    }
    kas_buf out = {0};
    kas_html_text(&out, "a<b>&\"c\"'d'");
    assert_string_equal(kas_buf_text(&out), "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;");
    kas_buf_clear(&out);
    kas_html_json(&out, "{\"a\": \"</script>&\"}");
    assert_string_equal(kas_buf_text(&out), "{\"a\": \"\\u003c/script\\u003e\\u0026\"}");
    kas_buf_free(&out);
}

TEST(large_study)
{
    make("large", &(made_study){.candidates = 10000, .epochs = 6, .evolved = true, .seed = 2});
    report_on((const char *[]){"large"}, 1);
    check_page();
    assert_true(page.size > 200000);
    has("finished candidates, and those of the frontier");
    has("of 4000 points are drawn");
    print_message("10,000 candidates: %zu bytes\n", page.size);
    report_on((const char *[]){"large", "large", "large", "large"}, 4);
    check_page();
}

TEST(comparison)
{
    static const char *const names[] = {"r0", "r1", "r2", "e0", "e1", "e2"};
    for (int i = 0; i < 6; i++)
        make(names[i],
             &(made_study){
                 .candidates = 40, .epochs = 4, .evolved = i > 2, .seed = (uint64_t)i % 3});
    report_on(names, 6);
    check_page();
    has("<h1>6 studies compared</h1>");
    has("with prune_window 8, rungs none");
    has("with prune_window 9, rungs 1,2: over 3 studies");
    has_not("With one study on a side");
    assert_int_equal(count_of(kas_buf_text(&page), "class=\"band g"), 4); /* 2 groups, 2 widths */
    assert_int_equal(count_of(kas_buf_text(&page), "<article"), 6);
    report_on(names, 3);
    check_page();
    has("The 3 studies differ only in their seed.");
    assert_int_equal(count_of(kas_buf_text(&page), "class=\"band g"), 2);
    report_on((const char *[]){"r0", "e0"}, 2);
    check_page();
    assert_int_equal(count_of(kas_buf_text(&page), "class=\"band g"), 0);
    assert_int_equal(count_of(kas_buf_text(&page), "class=\"line g"), 4);
    has(": over 1 study its best candidate");
    has("With one study on a side, this may be chance");
    has_not("overlap");
    make("e3",
         &(made_study){.asked = 40, .epochs = 4, .evolved = true, .seed = 3, .under_way = true});
    report_on((const char *[]){"r0", "r1", "e0", "e1", "e3"}, 5);
    check_page();
    has("over 2 studies (of 3; the other has no finished candidate)");
    has("<td class=\"n\">2 of 3</td>");
}

/* Looks for a cell in a row of a table, behind the heading of the row. */
static void has_in_row(const char *heading, const char *cell)
{
    for (const char *row = kas_buf_text(&page); (row = strstr(row, heading)); row++) {
        const char *end = strstr(row, "</tr>"), *found = strstr(row, cell);
        if (end && found && found < end)
            return;
    }
    fail_msg("no row \"%s\" has \"%s\"", heading, cell);
}

/* The ratio by which the search chose is predicted, so it is not shown as a measured one. */
TEST(another_machine)
{
    char cell[80];
    kas_report_view v;
    char path[200];
    make("other", &(made_study){
                      .candidates = 40, .epochs = 4, .evolved = true, .latency_on = "a <machine>"});
    snprintf(path, sizeof path, "%s/other", folder);
    OK(kas_report_view_open(path, &v));
    const double ratio = v.answer->predicted / v.baseline->predicted;
    snprintf(cell, sizeof cell, "<td class=\"n\">%.2f</td>", ratio);
    assert_true(fabs(ratio - v.answer->measured.latency / v.baseline->measured.latency) > 0.02);
    kas_report_view_close(&v);
    report_on((const char *[]){"other"}, 1);
    check_page();
    has(" times its predicted latency on the machine a &lt;machine&gt;");
    has_in_row("latency, predicted for the other machine</th>", cell);
    report_on((const char *[]){"other", "r0"}, 2);
    snprintf(cell, sizeof cell, "<td class=\"n\">%.2f predicted</td>", ratio);
    has_in_row("<th scope=\"row\"><a href=\"#study-1\">", cell);
    assert_int_equal(count_of(kas_buf_text(&page), " predicted</td>"), 1); /* r0 measured its own */
}

TEST(damaged)
{
    char path[200];
    const char *const folders[] = {path};
    kas_buf out = {0};
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(kas_report_html(folders, 1, "", &out), KAS_STORE);
    assert_non_null(strstr(kas_error(), "none"));
    OK(kas_mkdirs(path));
    snprintf(path, sizeof path, "%s/none/study.db", folder);
    OK(kas_file_write_atomic(path, "no store", 8));
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(kas_report_html(folders, 1, "", &out), KAS_STORE);
    assert_int_equal(out.size, 0);
}

/* A graph with a diamond, edges over several layers, and a pair of equal edges. */
static void make_graph(kas_graph *g)
{
    static const int edges[][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {0, 3}, {3, 4},
                                   {3, 4}, {0, 4}, {1, 5}, {5, 6}, {4, 6}, {2, 6}};
    enum { EDGES = sizeof edges / sizeof *edges };
    OK(kas_graph_make(7, EDGES, g));
    for (int i = 0; i < 7; i++) {
        kas_graph_line(&g->node[i], "node %d <&>", i);
        g->node[i].width = 60 + 17 * i;
        g->node[i].height = 40;
    }
    for (int i = 0; i < EDGES; i++) {
        g->edge[i].from = edges[i][0];
        g->edge[i].to = edges[i][1];
    }
}

static void check_places(const kas_graph *g)
{
    for (int i = 0; i < g->nodes; i++) {
        const kas_graph_node *a = &g->node[i];
        assert_true(a->x - a->width / 2 >= 0 && a->x + a->width / 2 <= g->width + 0.5);
        assert_true(a->y - a->height / 2 >= 0 && a->y + a->height / 2 <= g->height + 0.5);
        for (int k = 0; k < i; k++) {
            const kas_graph_node *b = &g->node[k];
            if (fabs(a->x - b->x) < (a->width + b->width) / 2 &&
                fabs(a->y - b->y) < (a->height + b->height) / 2)
                fail_msg("nodes %d and %d overlap", k, i);
        }
    }
    for (int i = 0; i < g->edges; i++) {
        const kas_graph_edge *e = &g->edge[i];
        const kas_graph_node *from = &g->node[e->from], *to = &g->node[e->to];
        assert_true(e->points >= 4 && e->points % 3 == 1);
        const double x = e->x[e->points - 1], y = e->y[e->points - 1];
        assert_true(fabs(e->x[0] - from->x) <= from->width / 2 + 1);
        assert_true(fabs(e->y[0] - (from->y + from->height / 2)) <= 2);
        assert_true(fabs(x - to->x) <= to->width / 2 + 1);
        assert_true(fabs(y - (to->y - to->height / 2)) <= 2);
    }
}

TEST(layouts)
{
    kas_graph g;
    bool done = false;
    make_graph(&g);
    OK(kas_graph_by_layers(&g));
    check_places(&g);
    kas_graph_free(&g);
    make_graph(&g);
    OK(kas_graph_by_dot(&g, &done));
    if (done)
        check_places(&g);
    else
        print_message("no Graphviz here: only the layout of our own was tested\n");
    kas_graph_free(&g);

    make_graph(&g); /* without dot the picture is drawn all the same */
    char *path = strdup(getenv("PATH"));
    setenv("PATH", folder, 1);
    kas_buf_clear(&page);
    OK(kas_graph_draw(&g, "a \"graph\"", &page));
    setenv("PATH", path, 1);
    free(path);
    check_svg(strstr(kas_buf_text(&page), "<svg"));
    assert_int_equal(count_of(kas_buf_text(&page), "<rect"), 7);
    assert_int_equal(count_of(kas_buf_text(&page), "class=\"edge\""), 12);
    kas_graph_free(&g);
}

/* A chain and a cycle, which no kernel has: neither hangs nor leaves its memory. */
TEST(odd_graphs)
{
    kas_graph g;
    OK(kas_graph_make(64, 63 + 62, &g));
    for (int i = 0; i < 64; i++)
        g.node[i].width = g.node[i].height = 20;
    for (int i = 0; i < 63; i++) {
        g.edge[i].from = i;
        g.edge[i].to = i + 1;
    }
    for (int i = 0; i < 62; i++) {
        g.edge[63 + i].from = 0;
        g.edge[63 + i].to = i + 2;
    }
    OK(kas_graph_by_layers(&g));
    for (int i = 1; i < 64; i++)
        assert_true(g.node[i].y > g.node[i - 1].y);
    g.edge[0].from = 5;
    g.edge[0].to = 1;
    OK(kas_graph_by_layers(&g));
    kas_graph_free(&g);
    OK(kas_graph_make(1, 0, &g));
    g.node[0].width = g.node[0].height = 20;
    OK(kas_graph_by_layers(&g));
    assert_true(g.width > 20 && g.height > 20);
    kas_graph_free(&g);
}

TEST(facts_of_a_study)
{
    char path[200];
    kas_report_view v;
    snprintf(path, sizeof path, "%s/plain", folder);
    OK(kas_report_view_open(path, &v));
    assert_int_equal(v.candidates, 60);
    assert_int_equal(v.finished, 24);
    assert_non_null(strstr(v.missing, "nowhere"));
    assert_true(v.answered && v.answer->index == 50);
    const kas_finalist *base = kas_report_final(&v, NULL);
    assert_non_null(base);
    assert_true(base->seeds == 2 && fabs(base->accuracy.mean - 0.635) <= 1e-12);
    assert_null(kas_report_final(&v, "0123456789abcdef"));
    double most = 0;
    for (int i = 0; i < v.steps; i++) {
        assert_true(v.step[i].accuracy > most);
        assert_true(i == 0 || v.step[i].seconds > v.step[i - 1].seconds);
        most = v.step[i].accuracy;
    }
    assert_true(most == v.ranked[0].work->measured.accuracy &&
                v.step[v.steps - 1].seconds <= v.device_seconds);
    /* 2.5 seconds an epoch; the pauses between start and end do not count */
    double sum = 0;
    for (int i = 0; i < v.count; i++)
        if (v.work[i].kind <= KAS_WORK_CANDIDATE)
            sum += 2.5 * v.work[i].epochs;
    assert_true(fabs(v.device_seconds - sum) <= 1e-3);
    kas_report_view_close(&v);
}

static int free_page(void **state)
{
    kas_buf_free(&page);
    return remove_folder(state);
}

RUN_TESTS(make_folder, free_page)
