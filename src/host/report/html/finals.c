/* The final trainings: what the test set says, over the seeds. */
#include <math.h>

#include "host/report/html/markup.h"
#include "host/report/html/sections.h"

static void put_points(double share, const char *format, kas_buf *out)
{
    if (isfinite(share))
        kas_html_number(out, format, 100 * share);
    else
        kas_html_number(out, "%s", "");
}

static void put_row(const kas_finalist *f, double baseline_latency, kas_buf *out)
{
    const bool kernel = f->work->kind == KAS_WORK_FINAL;
    kas_buf_printf(out, "<tr%s><th scope=\"row\">%s",
                   kernel ? f->answers ? " class=\"strong\"" : "" : " class=\"base\"",
                   kernel ? "<code>" : "");
    kas_html_text(out, kernel ? f->work->name : "unmodified network");
    kas_buf_puts(out, kernel ? "</code></th>" : "</th>");
    kas_html_cell(out, "%s", !kernel ? "" : f->answers ? "answer" : "exploratory");
    kas_html_number(out, "%d of %d", f->seeds, f->trainings);
    put_points(f->accuracy.mean, "%.2f%%", out);
    put_points(f->accuracy.spread, "%.2f", out);
    put_points(f->difference.mean, "%+.2f", out);
    if (isfinite(f->difference.low))
        kas_html_number(out, "%+.2f to %+.2f", 100 * f->difference.low, 100 * f->difference.high);
    else
        kas_html_number(out, "%s", "");
    if (isfinite(f->ratio))
        kas_html_number(out, "%.2f (%.2f–%.2f)", f->ratio, f->ratio_low, f->ratio_high);
    else
        kas_html_ratio(out, f->latency, baseline_latency);
    kas_buf_puts(out, "</tr>\n");
}

void kas_report_finals(const kas_report_view *v, kas_buf *out)
{
    const kas_finalist *baseline = kas_report_final(v, NULL);
    kas_buf exchanges = {0};
    if (!v->finals)
        return;
    kas_html_section(out, "Test set");
    kas_buf_puts(out, "<div class=\"scroll\"><table>\n<thead><tr><th>network</th><th></th>"
                      "<th class=\"n\">seeds</th><th class=\"n\">top-1</th>"
                      "<th class=\"n\">spread</th><th class=\"n\">difference</th>"
                      "<th class=\"n\">95% interval</th><th class=\"n\">latency</th></tr></thead>\n"
                      "<tbody>\n");
    for (int i = 0; i < v->finals; i++)
        put_row(&v->final[i], baseline ? baseline->latency : NAN, out);
    kas_buf_puts(
        out, "</tbody></table></div>\n<p class=\"note\">After training on the whole training "
             "set, scored once. The answer was named before the test set was opened. "
             "Spread: standard deviation over the seeds. Difference: to the unmodified network, "
             "by pairs of trainings with the same seed, with the 95% interval over the seeds; "
             "with one seed over the test images. Latency: ratio to the unmodified network, with "
             "quartiles where both were timed in turns.");
    kas_finals_exchanges(v->work, v->count, " Trained by", &exchanges);
    kas_html_text(out, kas_buf_text(&exchanges));
    kas_buf_free(&exchanges);
    kas_buf_puts(out, "</p>\n");
    kas_html_section_end(out);
}
