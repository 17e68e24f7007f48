/* The verdict on one study: what it found, and what the test set says of it. */
#include <math.h>
#include <stdio.h>

#include "host/report/html/markup.h"
#include "host/report/html/sections.h"

double kas_report_ratio(const kas_report_view *v)
{
    return v->answer ? kas_objective_ratio(&v->options, v->work, v->count, v->answer) : NAN;
}

/* Writes "0.90 points above" or "as much as". */
static void put_points(double points, const char *as_much, const char *above, const char *below,
                       kas_buf *out)
{
    if (fabs(points) < 0.00005)
        kas_buf_puts(out, as_much);
    else
        kas_html_put(out, "%.2f points %s", 100 * fabs(points), points > 0 ? above : below);
}

static void put_kernel(const kas_work *w, kas_buf *out)
{
    kas_buf_puts(out, "<code>");
    kas_html_text(out, w->name);
    kas_buf_puts(out, "</code>");
    const char *known = kas_work_known_as(w);
    if (known)
        kas_html_put(out, ", a known kernel (%s),", known);
    else
        kas_buf_puts(out, *w->origin ? ", a new kernel," : ",");
}

/* Says that a study which has ended names no answer, and why. */
static void put_without_answer(const kas_report_view *v, kas_buf *out)
{
    char missing[KAS_ENDING_MISSING];
    kas_buf_puts(out, "The study is complete and has no answer: ");
    kas_html_text(out, kas_ending_missing(&v->options, v->answer, missing));
    kas_buf_puts(out, ". ");
}

static const char *begin(const kas_report_view *v)
{
    if (v->answered)
        return "The answer, kernel ";
    if (!v->ended_without)
        return "The best kernel so far, ";
    return v->options.finalists ? "The nearest kernel, " : "The best kernel, ";
}

static void put_found(const kas_report_view *v, kas_buf *out)
{
    const kas_work *w = v->answer;
    const double slower = kas_report_ratio(v);
    const kas_paired pair = kas_objective_lost(w, v->baseline, KAS_SELECTING);
    const double more = v->baseline ? w->measured.accuracy - v->baseline->measured.accuracy : NAN;
    kas_buf_puts(out, begin(v));
    put_kernel(w, out);
    kas_html_put(out, " reaches %.2f%% on the validation images", 100 * w->measured.accuracy);
    if (isfinite(more)) {
        kas_buf_puts(out, ", ");
        put_points(more, "as much as", "above", "below", out);
        kas_html_put(out, " the unmodified network’s %.2f%%", 100 * v->baseline->measured.accuracy);
        if (pair.images)
            kas_html_put(out, " (standard error %.2f)", 100 * pair.error);
    }
    if (isfinite(slower) && *v->options.latency_on)
        kas_html_put(out, ", at %.2f times its predicted latency on the machine %s", slower,
                     v->options.latency_on);
    else if (isfinite(slower))
        kas_html_put(out, ", at %.2f times its latency", slower);
    kas_html_put(out, "%s %.2f of the FLOPs that it replaces%s.",
                 isfinite(slower) ? " and with" : ", with", w->flops / w->conv_flops,
                 more <= 0 && slower >= 1 ? ": it is neither more accurate nor faster" : "");
}

static void put_tested(const kas_report_view *v, kas_buf *out)
{
    const kas_finalist *f = kas_report_final(v, v->answer->name);
    if (!f) {
        kas_buf_puts(out, v->finals
                              ? " Nothing is known on the test set yet: its final training has "
                                "not ended."
                              : " The test set has not been opened.");
        return;
    }
    kas_html_put(out,
                 " On the test set, after training on the whole training set, it reaches %.2f%%",
                 100 * f->accuracy.mean);
    if (f->seeds > 1)
        kas_html_put(out, " in the mean of %d seeds", f->seeds);
    if (f->pairs) {
        kas_buf_puts(out, f->pairs > 1 ? ", by the same seeds " : ", by the same seed ");
        put_points(f->difference.mean, "as much as", "more than", "less than", out);
        kas_buf_puts(out, " the unmodified network");
    }
    if (isfinite(f->difference.low))
        kas_html_put(out, " (95%% interval %+.2f to %+.2f)", 100 * f->difference.low,
                     100 * f->difference.high);
    kas_buf_puts(out, ".");
}

static void put_value(double value, const char *unit, kas_buf *out)
{
    if (isfinite(value))
        kas_html_number(out, "%.2f%s", value, unit);
    else
        kas_html_number(out, "-");
}

/* Writes a row of accuracies with their difference. That of final trainings is of pairs with the
 * same seed, so it need not be the difference of the means. */
static void put_accuracy(const char *what, double ours, double base, double difference,
                         kas_buf *out)
{
    if (!isfinite(ours) && !isfinite(base))
        return;
    kas_buf_printf(out, "<tr><th scope=\"row\">%s</th>", what);
    put_value(100 * ours, "%", out);
    put_value(100 * base, "%", out);
    if (isfinite(difference))
        kas_html_number(out, "%+.2f points", 100 * difference);
    else
        kas_html_number(out, "-");
    kas_buf_puts(out, "</tr>\n");
}

/* Writes a row of two other figures with their ratio. */
static void put_row(const char *what, double ours, double base, double scale, const char *unit,
                    kas_buf *out)
{
    if (!isfinite(ours) && !isfinite(base))
        return;
    kas_buf_printf(out, "<tr><th scope=\"row\">%s</th>", what);
    put_value(scale * ours, unit, out);
    put_value(scale * base, unit, out);
    kas_html_ratio(out, ours, base);
    kas_buf_puts(out, "</tr>\n");
}

/* A time in the unit that suits the unmodified network's. */
static void put_time(const char *what, double ours, double base, kas_buf *out)
{
    const double larger = fmax(isfinite(ours) ? ours : 0, isfinite(base) ? base : 0);
    const bool s = larger >= 1, ms = larger >= 1e-3;
    put_row(what, ours, base, s ? 1 : ms ? 1e3 : 1e6, s ? " s" : ms ? " ms" : " µs", out);
}

static void put_table(const kas_report_view *v, kas_buf *out)
{
    const kas_work *w = v->answer, *b = v->baseline;
    const kas_finalist *ours = kas_report_final(v, w->name), *base = kas_report_final(v, NULL);
    char text[64];
    kas_buf_puts(out,
                 "<div class=\"scroll\"><table>\n<thead><tr><th></th><th class=\"n\">kernel</th>"
                 "<th class=\"n\">unmodified</th><th class=\"n\">change</th></tr>"
                 "</thead>\n<tbody>\n");
    const double validation = b ? b->measured.accuracy : NAN;
    put_accuracy("validation top-1", w->measured.accuracy, validation,
                 w->measured.accuracy - validation, out);
    put_accuracy("test top-1", ours ? ours->accuracy.mean : NAN, base ? base->accuracy.mean : NAN,
                 ours ? ours->difference.mean : NAN, out);
    if (*v->options.latency_on)
        put_time("latency, predicted for the other machine", w->predicted, b ? b->predicted : NAN,
                 out);
    snprintf(text, sizeof text, "latency measured, %d images", KAS_LATENCY_BATCH);
    put_time(text, w->measured.latency, b ? b->measured.latency : NAN, out);
    if (ours && isfinite(ours->ratio))
        put_row("latency, in turns", ours->ratio, 1, 1, "", out);
    put_time("training step", w->measured.step_seconds, b ? b->measured.step_seconds : NAN, out);
    put_row("FLOPs, millions", w->flops, w->conv_flops, 1e-6, "", out);
    put_row("weights, thousands", w->params, w->conv_params, 1e-3, "", out);
    kas_buf_puts(out, "</tbody></table></div>\n");
}

void kas_report_verdict(const kas_report_view *v, kas_buf *out)
{
    kas_buf_puts(out, "<p class=\"verdict\">");
    if (v->ended_without)
        put_without_answer(v, out);
    if (v->answer) {
        put_found(v, out);
        put_tested(v, out);
        kas_buf_puts(out, "</p>\n");
        put_table(v, out);
        return;
    }
    kas_buf_printf(out, "No candidate has been trained to its end%s: the study has %d of them.",
                   v->ended_without ? "" : " yet", v->candidates);
    kas_buf_puts(out, v->baseline ? " The unmodified network is trained.</p>\n"
                                  : " The unmodified network is not trained either.</p>\n");
}
