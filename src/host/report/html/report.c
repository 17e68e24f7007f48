#include "host/report/html/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"

/* plot/chart.css and style.css, made into C by mk/report.mk */
extern const char kas_chart_style[], kas_report_style[];

/* No script runs and nothing is loaded, whatever a text in the page might try. The icon is there so
 * that no browser asks for one. */
static void put_head(const char *title, kas_buf *out)
{
    kas_buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "style-src 'unsafe-inline'; img-src data:\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                      "<link rel=\"icon\" href=\"data:,\">\n<title>");
    kas_html_text(out, title);
    kas_buf_puts(out, "</title>\n<style>\n");
    kas_buf_puts(out, kas_chart_style);
    kas_buf_puts(out, kas_report_style);
    kas_buf_puts(out, "</style>\n</head>\n<body>\n<main>\n");
}

static void put_meta(const kas_report_view *v, kas_buf *out)
{
    const char *slash = strrchr(v->study.dataset_path, '/');
    kas_buf_puts(out, "<p class=\"meta\">");
    kas_html_put(out, "%s on %s · %d candidates, %d finished · %s of device time on %s",
                 v->options.net, slash ? slash + 1 : v->study.dataset_path, v->candidates,
                 v->finished, kas_human_duration(v->device_seconds, (char[32]){0}),
                 *v->study.device ? v->study.device : "no device yet");
    kas_buf_puts(out, "</p>\n");
}

static kas_status put_study(const kas_report_view *v, const kas_report_limits *limits,
                            const char *about, bool alone, kas_buf *out)
{
    put_meta(v, out);
    kas_report_verdict(v, out);
    kas_report_finals(v, out);
    kas_report_frontier(v, limits, out);
    kas_report_leaders(v, limits, out);
    KAS_TRY(kas_report_curves(v, limits, out));
    KAS_TRY(kas_report_rungs(v, out));
    if (alone)
        KAS_TRY(kas_report_progress(v, 1, out));
    KAS_TRY(kas_report_kernels(v, limits, out));
    KAS_TRY(kas_report_family(v, limits, out));
    kas_report_prediction(v, limits, out);
    KAS_TRY(kas_report_ended(v, out));
    return kas_report_origins(v, about, out);
}

static kas_status put_page(const kas_report_view *v, int count, const kas_report_limits *limits,
                           const char *about, kas_buf *out)
{
    char title[300];
    if (count == 1)
        snprintf(title, sizeof title, "%s", v->title);
    else
        snprintf(title, sizeof title, "%d studies compared", count);
    put_head(title, out);
    kas_buf_puts(out, "<header>\n<h1>");
    kas_html_text(out, title);
    kas_buf_puts(out, "</h1>\n</header>\n");
    if (count > 1)
        KAS_TRY(kas_report_comparison(v, count, out));
    for (int i = 0; i < count; i++) {
        if (count > 1) {
            kas_buf_printf(out, "<article id=\"study-%d\">\n<h2 class=\"study\">", i + 1);
            kas_html_text(out, v[i].title);
            kas_buf_puts(out, "</h2>\n");
        }
        KAS_TRY(put_study(&v[i], limits, about, count == 1, out));
        kas_buf_puts(out, count > 1 ? "</article>\n" : "");
    }
    kas_buf_puts(out, "</main>\n<script type=\"application/json\" id=\"data\">\n");
    kas_buf data = {0};
    const kas_status status = kas_report_data(v, count, limits, &data);
    kas_html_json(out, kas_buf_text(&data));
    out->failed |= data.failed;
    kas_buf_free(&data);
    kas_buf_puts(out, "</script>\n</body>\n</html>\n");
    return status == KAS_OK ? kas_buf_status(out) : status;
}

static int share(int all, int studies, int least)
{
    return all / studies > least ? all / studies : least;
}

static kas_report_limits limits_for(int studies)
{
    return (kas_report_limits){.points = share(600, studies, 60),
                               .curves = share(60, studies, 8),
                               .rows = share(24, studies, 5),
                               .ancestors = share(40, studies, 10),
                               .kernels = share(KAS_REPORT_KERNELS, studies, 1),
                               .items = share(1200, studies, 20)};
}

/* Halves what takes the most room; the last rounds leave only the leaders. */
static void lower(kas_report_limits *l)
{
    l->points = l->points / 2 + 1;
    l->curves = l->curves / 2 + 1;
    l->items = l->items / 2;
    l->rows = l->rows / 2 + 1;
    l->kernels = l->kernels > 1 ? l->kernels - 1 : 1;
}

/* Writes the page again with less in it until it fits. */
static kas_status write_within(const kas_report_view *v, int count, const char *about, kas_buf *out)
{
    kas_report_limits limits = limits_for(count);
    for (int round = 0; round < 12; round++, lower(&limits)) {
        kas_buf page = {0};
        kas_status status = put_page(v, count, &limits, about, &page);
        const bool fits = page.size < KAS_REPORT_BYTES;
        if (status == KAS_OK && fits)
            kas_buf_add(out, page.data, page.size);
        kas_buf_free(&page);
        KAS_TRY(status);
        if (fits)
            return kas_buf_status(out);
    }
    return kas_fail(KAS_BAD_INPUT, "%d studies do not fit in a page of %d bytes; give fewer", count,
                    KAS_REPORT_BYTES);
}

kas_status kas_report_html(const char *const *folders, int count, const char *about, kas_buf *out)
{
    if (count < 1 || count > KAS_REPORT_STUDIES)
        return kas_fail(KAS_USAGE, "%d studies: a report takes 1 to %d", count, KAS_REPORT_STUDIES);
    kas_report_view *v = calloc((size_t)count, sizeof *v);
    if (!v)
        return kas_fail(KAS_NO_MEMORY, "out of memory for a report");
    kas_status status = KAS_OK;
    for (int i = 0; i < count && status == KAS_OK; i++)
        status = kas_report_view_open(folders[i], &v[i]);
    if (status == KAS_OK)
        status = write_within(v, count, about, out);
    for (int i = 0; i < count; i++)
        kas_report_view_close(&v[i]);
    free(v);
    return status;
}
