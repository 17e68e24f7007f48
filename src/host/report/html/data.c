/* The data of a report, as one JSON object (docs/report.md, "Data"). */
#include <math.h>
#include <stdlib.h>

#include "host/report/html/curves.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"

enum { MOST_POINTS = 200, FEW_ITEMS = 100 };

static void put_items(const kas_report_view *v, int limit, kas_buf *list, int *left_out)
{
    int written = 0;
    for (int i = 0; i < v->count; i++)
        if (v->work[i].kind != KAS_WORK_CANDIDATE) {
            kas_buf_puts(list, list->size ? "," : "");
            kas_work_json(v->work, v->count, &v->work[i], 0, false, list);
        }
    for (int i = 0; i < v->candidates; i++) {
        const kas_ranked *r = &v->ranked[i];
        if (i >= limit / 2 && !kas_report_spread(i, v->candidates, limit / 2))
            continue;
        kas_buf_puts(list, list->size ? "," : "");
        kas_work_json(v->work, v->count, r->work, i < v->finished ? i + 1 : 0, r->frontier, list);
        written++;
    }
    *left_out = v->candidates - written;
}

static kas_status put_curves(const kas_report_view *v, int limit, kas_buf *list)
{
    kas_report_curve *curve;
    int count;
    KAS_TRY(kas_report_curves_read(v, limit, &curve, &count));
    for (int i = 0; i < count; i++) {
        kas_buf_printf(list, "%s{\"kind\": \"%s\", \"index\": %lld, \"validation_accuracy\": [",
                       i ? ",\n" : "", kas_work_kind_name(curve[i].work->kind),
                       (long long)curve[i].work->index);
        for (int e = 0; e < curve[i].epochs; e++) {
            const double a = curve[i].epoch[e].validation_accuracy;
            kas_buf_printf(list, isfinite(a) ? "%s%.6g" : "%snull", e ? ", " : "", a);
        }
        kas_buf_puts(list, "]}");
    }
    kas_report_curves_free(curve, count);
    return KAS_OK;
}

static void put_steps(const kas_report_view *v, kas_buf *list)
{
    for (int i = 0, written = 0; i < v->steps; i++)
        if (kas_report_spread(i, v->steps, MOST_POINTS) || i + 1 == v->steps)
            kas_buf_printf(list, "%s[%.6g, %.6g]", written++ ? ", " : "", v->step[i].seconds,
                           v->step[i].accuracy);
}

/* The files of the kernels that are drawn. What is no JSON in a damaged store is left out. */
static void put_kernels(const kas_report_view *v, const kas_report_limits *limits, kas_buf *list)
{
    const kas_work *drawn[KAS_REPORT_KERNELS];
    const int count = kas_report_drawn(v, limits, drawn);
    for (int i = 0, written = 0; i < count; i++) {
        const kas_work *w = drawn[i];
        if (!w->kernel)
            continue;
        cJSON *kernel = cJSON_Parse(w->kernel);
        char *text = kernel ? cJSON_PrintUnformatted(kernel) : NULL;
        if (text) {
            kas_buf_puts(list, written++ ? ",\n" : "");
            kas_buf_json_string(list, w->name);
            kas_buf_printf(list, ": %s", text);
        }
        cJSON_free(text);
        cJSON_Delete(kernel);
    }
}

static void put_list(kas_buf *out, const char *name, char open, const kas_buf *list, char close)
{
    kas_line_key(out, name);
    kas_buf_printf(out, "%c%s%c", open, kas_buf_text(list), close);
    out->failed |= list->failed;
}

/* The options; the text of a network file among them may be longer than all the rest, and goes
 * first when the page is too large. */
static void put_options(const kas_report_view *v, const kas_report_limits *limits, kas_buf *out)
{
    cJSON *options = cJSON_Parse(v->study.options);
    if (limits->items < FEW_ITEMS)
        cJSON_DeleteItemFromObjectCaseSensitive(options, "network");
    char *text = options ? cJSON_PrintUnformatted(options) : NULL;
    if (text)
        kas_line_json(out, "options", text);
    else
        out->failed = true;
    cJSON_free(text);
    cJSON_Delete(options);
}

static kas_status put_study(const kas_report_view *v, const kas_report_limits *limits, kas_buf *out)
{
    kas_buf items = {0}, finalists = {0}, curves = {0}, steps = {0}, kernels = {0};
    int left_out;
    put_items(v, limits->items, &items, &left_out);
    for (int i = 0; i < v->finals; i++) {
        kas_buf_puts(&finalists, i ? "," : "");
        kas_finalist_json(&v->final[i], &finalists);
    }
    put_steps(v, &steps);
    put_kernels(v, limits, &kernels);
    const kas_status status = put_curves(v, limits->curves, &curves);
    kas_line_begin(out);
    kas_line_text(out, "study", v->folder);
    kas_line_text(out, "answer", v->answer ? v->answer->name : NULL);
    kas_line_bool(out, "answered", v->answered);
    kas_line_bool(out, "done", v->ended_without || kas_finals_done(v->work, v->count));
    kas_line_int(out, "candidates", v->candidates);
    kas_line_int(out, "finished", v->finished);
    kas_line_number(out, "created", v->study.created);
    kas_line_number(out, "busy_seconds", v->study.busy_seconds);
    kas_line_number(out, "device_seconds", v->device_seconds);
    kas_line_text(out, "device", v->study.device);
    kas_line_text(out, "code_version", *v->study.code_version ? v->study.code_version : NULL);
    kas_line_int(out, "sampler_version", v->study.sampler_version);
    kas_line_text(out, "dataset", v->study.dataset_path);
    kas_line_text(out, "dataset_digest", v->study.dataset_digest);
    put_options(v, limits, out);
    kas_line_int(out, "items_left_out", left_out);
    put_list(out, "items", '[', &items, ']');
    put_list(out, "finalists", '[', &finalists, ']');
    put_list(out, "curves", '[', &curves, ']');
    put_list(out, "best_so_far", '[', &steps, ']');
    put_list(out, "kernels", '{', &kernels, '}');
    kas_line_end(out);
    kas_buf_free(&items);
    kas_buf_free(&finalists);
    kas_buf_free(&curves);
    kas_buf_free(&steps);
    kas_buf_free(&kernels);
    return status;
}

kas_status kas_report_data(const kas_report_view *v, int count, const kas_report_limits *limits,
                           kas_buf *out)
{
    kas_buf list = {0};
    kas_status status = KAS_OK;
    for (int i = 0; i < count && status == KAS_OK; i++) {
        kas_buf_puts(&list, i ? "," : "");
        status = put_study(&v[i], limits, &list);
    }
    kas_line_begin(out);
    put_list(out, "studies", '[', &list, ']');
    kas_line_end(out);
    kas_buf_free(&list);
    return status;
}
