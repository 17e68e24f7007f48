/* The leaderboard, with what is known of the spread of its numbers. */
#include <math.h>

#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"

/* Writes the points that a candidate loses, with the standard error where it is known. */
static void put_lost(const kas_report_view *v, const kas_work *w, kas_buf *out)
{
    if (w == v->baseline || !v->baseline) {
        kas_html_number(out, "%s", "");
        return;
    }
    const kas_paired pair = kas_objective_lost(w, v->baseline, KAS_SELECTING);
    const double lost =
        pair.images ? pair.lost : v->baseline->measured.accuracy - w->measured.accuracy;
    kas_buf_printf(out, "<td class=\"n\">%.2f", 100 * lost);
    if (pair.images)
        kas_buf_printf(out, " <small>± %.2f</small>", 100 * pair.error);
    kas_buf_puts(out, "</td>");
}

static void put_latency(const kas_work *w, kas_buf *out)
{
    char text[32], spread[32];
    const kas_measured *m = &w->measured;
    kas_buf_puts(out, "<td class=\"n\">");
    kas_html_text(out, kas_human_seconds(m->latency, text));
    if (isfinite(m->latency_iqr)) {
        kas_buf_puts(out, " <small>± ");
        kas_html_text(out, kas_human_seconds(m->latency_iqr / 2, spread));
        kas_buf_puts(out, "</small>");
    }
    kas_buf_puts(out, "</td>");
}

/* Studies of earlier versions do not say how a candidate came. */
static bool has_origins(const kas_report_view *v)
{
    return v->finished && *v->ranked[0].work->origin;
}

static void put_row(const kas_report_view *v, const kas_work *w, int rank, bool frontier,
                    kas_buf *out)
{
    const bool candidate = w != v->baseline;
    char text[KAS_ORIGIN_TEXT];
    kas_buf_printf(out, "<tr%s>",
                   !candidate       ? " class=\"base\""
                   : w == v->answer ? " class=\"strong\""
                                    : "");
    if (candidate)
        kas_html_number(out, "%d%s", rank, frontier ? " ★" : "");
    else
        kas_html_number(out, "%s", frontier ? "★" : "");
    kas_buf_puts(out, candidate ? "<th scope=\"row\"><code>" : "<th scope=\"row\">");
    kas_html_text(out, candidate ? w->name : "unmodified network");
    kas_buf_puts(out, candidate ? "</code></th>" : "</th>");
    kas_html_percent(out, w->measured.accuracy);
    put_lost(v, w, out);
    put_latency(w, out);
    kas_html_ratio(out, w->measured.latency, v->baseline ? v->baseline->measured.latency : NAN);
    kas_html_ratio(out, candidate ? w->flops : 1, candidate ? w->conv_flops : 1);
    kas_html_ratio(out, candidate ? w->params : 1, candidate ? w->conv_params : 1);
    kas_html_number(out, "%s", kas_human_seconds(w->measured.step_seconds, text));
    if (has_origins(v)) {
        kas_report_origin(w, text);
        kas_html_cell(out, "%s", candidate ? text : "");
    }
    kas_buf_puts(out, "</tr>\n");
}

static void put_rows(const kas_report_view *v, int limit, kas_buf *out)
{
    bool due = v->baseline != NULL;
    int extra = 0; /* frontier's candidates below the limit */
    for (int i = 0; i < v->finished; i++) {
        const kas_work *w = v->ranked[i].work;
        if (due && !(w->measured.accuracy > v->baseline->measured.accuracy)) {
            put_row(v, v->baseline, 0, v->baseline_on_frontier, out);
            due = false;
        }
        if (i >= limit && !(v->ranked[i].frontier && extra++ < limit) && w != v->answer)
            continue;
        put_row(v, w, i + 1, v->ranked[i].frontier, out);
    }
    if (due)
        put_row(v, v->baseline, 0, v->baseline_on_frontier, out);
}

void kas_report_leaders(const kas_report_view *v, const kas_report_limits *limits, kas_buf *out)
{
    if (!v->finished && !v->baseline)
        return;
    kas_html_section(out, "Leaderboard");
    kas_buf_printf(out,
                   "<div class=\"scroll\"><table class=\"leaders\">\n<thead><tr><th "
                   "class=\"n\">#</th><th>kernel</th><th class=\"n\">top-1</th>"
                   "<th class=\"n\">lost</th><th class=\"n\">latency</th>"
                   "<th class=\"n\">ratio</th><th class=\"n\">FLOPs</th>"
                   "<th class=\"n\">params</th><th class=\"n\">step</th>%s</tr>"
                   "</thead>\n<tbody>\n",
                   has_origins(v) ? "<th>came by</th>" : "");
    put_rows(v, limits->rows, out);
    kas_buf_puts(out, "</tbody></table></div>\n<p class=\"note\">");
    if (v->finished > limits->rows)
        kas_buf_printf(out, "The %d best of %d finished candidates, and those of the frontier. ",
                       limits->rows, v->finished);
    kas_buf_printf(out,
                   "★: on the frontier. Top-1: on the validation images that select. Lost: points "
                   "against the unmodified network, ± the standard error over these images. "
                   "Latency: a forward pass of %d images, median ± half of the interquartile "
                   "range; ratio: to the unmodified network. FLOPs, params: relative to the "
                   "replaced convolutions. Step: a training step.</p>\n",
                   KAS_LATENCY_BATCH);
    kas_html_section_end(out);
}
