/* What each rung cost, and how well its ranks agree with those at the end. */
#include <math.h>

#include "host/leaderboard/rungs.h"
#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"

static void put_row(const kas_rung_report *r, bool last, kas_buf *out)
{
    char text[32], name[KAS_RUNG_NAME];
    kas_buf_printf(out, "<tr><th scope=\"row\">%s</th>", kas_rungs_name(r->epochs, name));
    kas_html_number(out, "%d", r->reached);
    kas_html_number(out, "%s", kas_human_duration(r->seconds, text));
    if (last || !isfinite(r->agreement))
        kas_html_number(out, "%s", "");
    else
        kas_html_number(out, "%.2f (%d)", r->agreement, r->compared);
    kas_buf_puts(out, "</tr>\n");
}

kas_status kas_report_rungs(const kas_report_view *v, kas_buf *out)
{
    kas_rung_report rung[KAS_INT_LIST + 1];
    const int last = kas_rungs_last(&v->options);
    if (!v->options.rungs.count)
        return KAS_OK;
    KAS_TRY(kas_rungs_report(v->store, &v->options, v->work, v->count, rung));
    kas_html_section(out, "Rungs");
    kas_buf_puts(out, "<div class=\"scroll\"><table>\n<thead><tr><th>rung</th><th "
                      "class=\"n\">candidates</th><th class=\"n\">training</th><th "
                      "class=\"n\">agreement</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i <= last; i++)
        put_row(&rung[i], i == last, out);
    kas_buf_puts(out,
                 "</tbody></table></div>\n<p class=\"note\">Training: of all candidates "
                 "together, from the rung before to this one. Agreement: Kendall’s tau between "
                 "the accuracies at the rung and at the end, of the candidates that were trained "
                 "to the end (how many); 1 is the same order.</p>\n");
    kas_html_section_end(out);
    return KAS_OK;
}
