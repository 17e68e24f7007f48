/* Several studies side by side. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"
#include "host/train/stats.h"

/* What a group found: over its studies, the accuracy of the best candidate. */
typedef struct summary {
    const kas_report_group *group;
    double low, median, high, seconds;
    int found; /* studies with a finished candidate */
} summary;

static summary summarise(const kas_report_view *v, const kas_report_group *g)
{
    double best[KAS_REPORT_STUDIES];
    summary s = {.group = g, .low = NAN, .median = NAN, .high = NAN};
    for (int i = 0; i < g->count; i++) {
        const kas_report_view *study = &v[g->study[i]];
        s.seconds += study->device_seconds / g->count;
        if (study->steps)
            best[s.found++] = study->step[study->steps - 1].accuracy;
    }
    if (!s.found)
        return s;
    kas_samples all = {best, s.found};
    s.low = kas_samples_quantile(&all, 0);
    s.median = kas_samples_quantile(&all, 0.5);
    s.high = kas_samples_quantile(&all, 1);
    return s;
}

static int by_median(const void *a, const void *b)
{
    const summary *x = a, *y = b;
    const double p = isfinite(x->median) ? x->median : -1, q = isfinite(y->median) ? y->median : -1;
    return (p < q) - (p > q);
}

static void put_range(const summary *s, kas_buf *out)
{
    kas_html_put(out, "%.2f%%", 100 * s->median);
    if (s->found > 1)
        kas_html_put(out, " in the median (%.2f to %.2f)", 100 * s->low, 100 * s->high);
}

/* Writes of how many studies the figures of a group are, and of how many that is a part. */
static void put_found(const summary *s, kas_buf *out)
{
    kas_html_put(out, "%d %s", s->found, s->found == 1 ? "study" : "studies");
    if (s->found < s->group->count)
        kas_html_put(out, " (of %d; the %s no finished candidate)", s->group->count,
                     s->group->count - s->found == 1 ? "other has" : "others have");
}

/* Returns what the ranges say. One study has no range. */
static const char *judgement(const summary *s)
{
    if (s[0].found < 2 || s[1].found < 2)
        return ". With one study on a side, this may be chance";
    if (s[0].low > s[1].high)
        return ". The ranges do not overlap";
    return ". The ranges overlap, so this may be chance";
}

/* Writes the two sentences on the two best groups. */
static void put_order(const summary *s, kas_buf *out)
{
    kas_buf_puts(out, "The best is the search with ");
    kas_html_text(out, s[0].group->label);
    kas_buf_puts(out, ": over ");
    put_found(&s[0], out);
    kas_buf_puts(out, " its best candidate reaches ");
    put_range(&s[0], out);
    kas_buf_puts(out, ", against ");
    put_range(&s[1], out);
    kas_buf_puts(out, " with ");
    kas_html_text(out, s[1].group->label);
    kas_buf_puts(out, ", over ");
    put_found(&s[1], out);
    kas_buf_puts(out, judgement(s));
    kas_html_put(out, "; the mean device times are %s and %s.",
                 kas_human_duration(s[0].seconds, (char[32]){0}),
                 kas_human_duration(s[1].seconds, (char[32]){0}));
}

static bool same_data(const kas_report_view *v, int count)
{
    for (int i = 1; i < count; i++)
        if (strcmp(v[i].study.dataset_digest, v[0].study.dataset_digest) != 0)
            return false;
    return true;
}

static void put_verdict(const kas_report_view *v, int count, const summary *s, int groups,
                        kas_buf *out)
{
    kas_buf_puts(out, "<p class=\"verdict\">");
    if (!same_data(v, count)) {
        kas_buf_puts(out, "These studies have different data sets, so their accuracies cannot be "
                          "compared. Each is shown for itself below.");
    } else if (groups == 1 && s->found) {
        kas_buf_printf(out, "The %d studies differ only in their seed. ", count);
        kas_html_put(out,
                     "Their best candidates reach %.2f%% in the median, from %.2f%% to %.2f%%.",
                     100 * s->median, 100 * s->low, 100 * s->high);
    } else if (groups > 1 && s[1].found) {
        put_order(s, out);
    } else {
        kas_buf_puts(out, "Fewer than two of the compared searches have a finished candidate, so "
                          "there is nothing to compare yet.");
    }
    kas_buf_puts(out, "</p>\n");
}

static void put_groups(const summary *s, int groups, kas_buf *out)
{
    if (groups < 2)
        return;
    kas_buf_puts(out, "<div class=\"scroll\"><table>\n<thead><tr><th>options</th>"
                      "<th class=\"n\">studies</th><th class=\"n\">best top-1, median</th>"
                      "<th class=\"n\">lowest</th><th class=\"n\">highest</th>"
                      "<th class=\"n\">device time</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < groups; i++) {
        kas_buf_puts(out, "<tr><th scope=\"row\">");
        kas_html_text(out, s[i].group->label);
        kas_buf_puts(out, "</th>");
        if (s[i].found < s[i].group->count)
            kas_html_number(out, "%d of %d", s[i].found, s[i].group->count);
        else
            kas_html_number(out, "%d", s[i].found);
        kas_html_percent(out, s[i].median);
        kas_html_percent(out, s[i].low);
        kas_html_percent(out, s[i].high);
        kas_html_number(out, "%s", kas_human_duration(s[i].seconds, (char[32]){0}));
        kas_buf_puts(out, "</tr>\n");
    }
    kas_buf_puts(out, "</tbody></table></div>\n");
}

/* Writes the answer's latency by that of the unmodified network, and where it is only predicted. */
static void put_ratio(const kas_report_view *v, kas_buf *out)
{
    const double ratio = kas_report_ratio(v);
    if (isfinite(ratio) && *v->options.latency_on)
        kas_html_number(out, "%.2f predicted", ratio);
    else
        kas_html_ratio(out, ratio, 1);
}

static void put_study(const kas_report_view *v, int number, kas_buf *out)
{
    const kas_work *a = v->answer, *b = v->baseline;
    const kas_finalist *final = a ? kas_report_final(v, a->name) : NULL,
                       *unmodified = kas_report_final(v, NULL);
    kas_buf_printf(out, "<tr><th scope=\"row\"><a href=\"#study-%d\">", number);
    kas_html_text(out, v->title);
    kas_buf_puts(out, "</a></th>");
    kas_html_number(out, "%llu", (unsigned long long)v->options.seed);
    kas_html_number(out, "%d", v->candidates);
    kas_html_number(out, "%d", v->finished);
    kas_buf_puts(out, "<td><code>");
    kas_html_put(out, "%.*s", KAS_SHORT_NAME, a ? a->name : "-");
    kas_buf_puts(out, "</code></td>");
    kas_html_percent(out, a ? a->measured.accuracy : NAN);
    kas_html_percent(out, b ? b->measured.accuracy : NAN);
    put_ratio(v, out);
    kas_html_percent(out, final ? final->accuracy.mean : NAN);
    kas_html_percent(out, unmodified ? unmodified->accuracy.mean : NAN);
    kas_html_number(out, "%s", kas_human_duration(v->device_seconds, (char[32]){0}));
    kas_buf_puts(out, "</tr>\n");
}

static void put_studies(const kas_report_view *v, int count, kas_buf *out)
{
    kas_html_section(out, "The studies");
    kas_buf_puts(out,
                 "<div class=\"scroll\"><table>\n<thead><tr><th>study</th><th class=\"n\">seed</th>"
                 "<th class=\"n\">candidates</th><th class=\"n\">finished</th><th>best kernel</th>"
                 "<th class=\"n\">validation</th><th class=\"n\">unmodified</th>"
                 "<th class=\"n\">latency ratio</th><th class=\"n\">test</th>"
                 "<th class=\"n\">unmodified</th><th class=\"n\">device time</th></tr></thead>\n"
                 "<tbody>\n");
    for (int i = 0; i < count; i++)
        put_study(&v[i], i + 1, out);
    kas_buf_puts(out, "</tbody></table></div>\n");
    kas_html_section_end(out);
}

kas_status kas_report_comparison(const kas_report_view *v, int count, kas_buf *out)
{
    kas_report_group *group = NULL;
    int groups;
    kas_status status = kas_report_groups(v, count, &group, &groups);
    summary *s = status == KAS_OK ? calloc((size_t)groups, sizeof *s) : NULL;
    if (status == KAS_OK && !s)
        status = kas_fail(KAS_NO_MEMORY, "out of memory for a comparison");
    if (status == KAS_OK) {
        for (int g = 0; g < groups; g++)
            s[g] = summarise(v, &group[g]);
        qsort(s, (size_t)groups, sizeof *s, by_median);
        put_verdict(v, count, s, groups, out);
        put_groups(s, groups, out);
        status = kas_report_progress(v, count, out);
    }
    if (status == KAS_OK)
        put_studies(v, count, out);
    free(s);
    free(group);
    return status;
}
