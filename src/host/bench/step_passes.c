#include "host/bench/step_passes.h"

#include <math.h>
#include <stdio.h>

static const char *layer_name(const kas_bench_passes *s, int layer)
{
    return layer >= 0 ? s->net->layer[layer].name : NULL;
}

static void put_time(const kas_bench_passes *s, const kas_sweep *pass, kas_buf *out)
{
    kas_line_number(out, "seconds", pass->seconds);
    kas_line_number(out, "bytes_per_second", pass->bytes / pass->seconds);
    kas_line_number(out, "share_of_passes", pass->seconds / s->times->sum);
    kas_line_number(out, "passes_seconds", s->times->sum);
    kas_line_number(out, "step_seconds", s->step);
    kas_line_int(out, "repeats", s->times->repeats);
}

static kas_status put_json(const kas_bench_passes *s, const kas_planned_bytes *t,
                           const kas_bench_sink *sink)
{
    kas_status status = KAS_OK;
    for (int i = 0; i < t->passes && status == KAS_OK; i++) {
        kas_buf out = {0};
        kas_bench_line_begin(&out, "passes", s->info);
        kas_line_text(&out, "net", s->net->name);
        kas_line_int(&out, "batch", s->batch);
        kas_line_text(&out, "phase", s->phase);
        kas_line_text(&out, "kernel", s->kernel);
        kas_line_int(&out, "number", i);
        kas_line_text(&out, "pass", t->pass[i].what);
        kas_line_text(&out, "layer", layer_name(s, t->pass[i].layer));
        kas_line_number(&out, "bytes", t->pass[i].bytes);
        if (s->times)
            put_time(s, &t->pass[i], &out);
        status = kas_bench_line_put(&out, sink);
    }
    return status;
}

/* Writes the last three cells of a row, for passes that have a time. */
static void put_time_cells(const kas_bench_passes *s, double bytes, double seconds,
                           kas_table *table)
{
    char text[32];
    const bool known = isfinite(seconds) && seconds > 0;
    if (!s->times)
        return;
    kas_table_cell(table, "%s", known ? kas_human_seconds(seconds, text) : "");
    if (known)
        kas_table_cell(table, "%.1f%%", 100 * seconds / s->times->sum);
    else
        kas_table_cell(table, "%s", "");
    if (known)
        kas_table_cell(table, "%.1f", bytes / seconds / 1e9);
    else
        kas_table_cell(table, "%s", "");
}

#define TIME_COLUMNS                                                                               \
    {"time", KAS_RIGHT}, {"of the time", KAS_RIGHT},                                               \
    {                                                                                              \
        "GB/s", KAS_RIGHT                                                                          \
    }
enum { TIMES = 3 };

/* Says below the table of times how far its sum is from the time of the step. */
static kas_status put_sum(const kas_bench_passes *s, const kas_bench_sink *sink)
{
    char line[320], text[3][32];
    snprintf(line, sizeof line,
             "times: medians of %d runs, each launch by itself; all launches together %s, of them "
             "%s outside of the passes; the step as it is run %s\n\n",
             s->times->repeats, kas_human_seconds(s->times->sum, text[0]),
             kas_human_seconds(s->times->rest, text[1]), kas_human_seconds(s->step, text[2]));
    sink->put(sink->context, line);
    return KAS_OK;
}

static kas_status put_kinds(const kas_bench_passes *s, const kas_planned_bytes *t,
                            const kas_bench_sink *sink)
{
    static const kas_column columns[] = {{"pass", KAS_LEFT},
                                         {"number", KAS_RIGHT},
                                         {"bytes", KAS_RIGHT},
                                         {"share", KAS_RIGHT},
                                         TIME_COLUMNS};
    kas_sweep_kind kind[KAS_SWEEP_KINDS];
    char title[256], text[2][32];
    kas_table *table =
        kas_table_create(columns, sizeof columns / sizeof *columns - (s->times ? 0 : TIMES));
    const int kinds = kas_planned_bytes_kinds(t, kind);
    for (int k = 0; k < kinds; k++) {
        kas_table_cell(table, "%s", kind[k].what);
        kas_table_cell(table, "%d", kind[k].passes);
        kas_table_cell(table, "%s", kas_human_bytes(kind[k].bytes, text[0]));
        kas_table_cell(table, "%.1f%%", 100 * kind[k].bytes / t->bytes);
        put_time_cells(s, kind[k].bytes, kind[k].seconds, table);
    }
    snprintf(title, sizeof title,
             "where the bytes go: %s%s%s, %s at batch %d: %s in %d passes, %.2f times the floor's "
             "%s",
             s->net->name, s->kernel ? " with " : "", s->kernel ? s->kernel : "", s->phase,
             s->batch, kas_human_bytes(t->bytes, text[0]), t->passes, t->bytes / t->floor_bytes,
             kas_human_bytes(t->floor_bytes, text[1]));
    kas_status status = kas_bench_table_put(table, title, sink);
    kas_table_free(table);
    return status;
}

static kas_status put_passes(const kas_bench_passes *s, const kas_planned_bytes *t,
                             const kas_bench_sink *sink)
{
    static const kas_column columns[] = {{"#", KAS_RIGHT},
                                         {"layer", KAS_LEFT},
                                         {"pass", KAS_LEFT},
                                         {"bytes", KAS_RIGHT},
                                         TIME_COLUMNS};
    char text[32];
    kas_table *table =
        kas_table_create(columns, sizeof columns / sizeof *columns - (s->times ? 0 : TIMES));
    for (int i = 0; i < t->passes; i++) {
        const char *layer = layer_name(s, t->pass[i].layer);
        kas_table_cell(table, "%d", i);
        kas_table_cell(table, "%s", layer ? layer : "");
        kas_table_cell(table, "%s", t->pass[i].what);
        kas_table_cell(table, "%s", kas_human_bytes(t->pass[i].bytes, text));
        put_time_cells(s, t->pass[i].bytes, t->pass[i].seconds, table);
    }
    kas_status status = kas_bench_table_put(table, "every pass, in order", sink);
    kas_table_free(table);
    return status;
}

kas_status kas_bench_passes_put(const kas_bench_passes *subject, const kas_planned_bytes *planned,
                                const kas_bench_sink *sink)
{
    if (sink->json)
        return put_json(subject, planned, sink);
    KAS_TRY(put_kinds(subject, planned, sink));
    if (subject->times)
        KAS_TRY(put_sum(subject, sink));
    return put_passes(subject, planned, sink);
}

static kas_status plan_net(const kas_bench_options *o, const kas_net *net, int batch,
                           const kas_bench_sink *sink)
{
    static const kas_device_info nowhere = {.name = "none", .arch = "none"};
    static const kas_tape_mode modes[] = {KAS_TAPE_TRAIN, KAS_TAPE_INFER};
    for (int i = 0; i < 2; i++) {
        const kas_bench_passes subject = {
            .info = &nowhere, .net = net, .batch = batch, .phase = i ? "inference" : "training"};
        const kas_model_options model = {.net = net,
                                         .batch = batch,
                                         .training = modes[i] == KAS_TAPE_TRAIN,
                                         .precision = o->precision};
        kas_planned_bytes planned;
        KAS_TRY(kas_planned_bytes_plan(&model, modes[i], &planned));
        kas_status status = kas_bench_passes_put(&subject, &planned, sink);
        kas_planned_bytes_free(&planned);
        KAS_TRY(status);
    }
    return KAS_OK;
}

kas_status kas_bench_passes_plan(const kas_bench_options *o, const char *list, int batch, int side,
                                 const kas_bench_sink *sink)
{
    char name[KAS_BENCH_NET];
    while (kas_bench_next_net(&list, name)) {
        kas_net *net;
        KAS_TRY(kas_bench_net(o, name, side, &net));
        kas_status status = plan_net(o, net, batch, sink);
        kas_net_free(net);
        KAS_TRY(status);
    }
    return KAS_OK;
}
