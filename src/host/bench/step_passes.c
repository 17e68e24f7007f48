#include "host/bench/step_passes.h"

#include <stdio.h>

static const char *layer_name(const kas_bench_passes *s, int layer)
{
    return layer >= 0 ? s->net->layer[layer].name : NULL;
}

static kas_status put_json(const kas_bench_passes *s, const kas_traffic *t,
                           const kas_bench_sink *sink)
{
    kas_status status = KAS_OK;
    for (int i = 0; i < t->passes && status == KAS_OK; i++) {
        kas_buf out = {0};
        kas_bench_line_begin(&out, "passes", kas_device_get_info(s->device));
        kas_line_text(&out, "net", s->net->name);
        kas_line_int(&out, "batch", s->batch);
        kas_line_text(&out, "phase", s->phase);
        kas_line_text(&out, "kernel", s->kernel);
        kas_line_int(&out, "number", i);
        kas_line_text(&out, "pass", t->pass[i].what);
        kas_line_text(&out, "layer", layer_name(s, t->pass[i].layer));
        kas_line_number(&out, "bytes", t->pass[i].bytes);
        status = kas_bench_line_put(&out, sink);
        kas_buf_free(&out);
    }
    return status;
}

static kas_status put_kinds(const kas_bench_passes *s, const kas_traffic *t,
                            const kas_bench_sink *sink)
{
    static const kas_column columns[] = {
        {"pass", KAS_LEFT}, {"number", KAS_RIGHT}, {"bytes", KAS_RIGHT}, {"share", KAS_RIGHT}};
    kas_sweep_kind kind[KAS_SWEEP_KINDS];
    char title[256], text[2][32];
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    const int kinds = kas_traffic_kinds(t, kind);
    for (int k = 0; k < kinds; k++) {
        kas_table_cell(table, "%s", kind[k].what);
        kas_table_cell(table, "%d", kind[k].passes);
        kas_table_cell(table, "%s", kas_human_bytes(kind[k].bytes, text[0]));
        kas_table_cell(table, "%.1f%%", 100 * kind[k].bytes / t->bytes);
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

static kas_status put_passes(const kas_bench_passes *s, const kas_traffic *t,
                             const kas_bench_sink *sink)
{
    static const kas_column columns[] = {
        {"#", KAS_RIGHT}, {"layer", KAS_LEFT}, {"pass", KAS_LEFT}, {"bytes", KAS_RIGHT}};
    char text[32];
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < t->passes; i++) {
        const char *layer = layer_name(s, t->pass[i].layer);
        kas_table_cell(table, "%d", i);
        kas_table_cell(table, "%s", layer ? layer : "");
        kas_table_cell(table, "%s", t->pass[i].what);
        kas_table_cell(table, "%s", kas_human_bytes(t->pass[i].bytes, text));
    }
    kas_status status = kas_bench_table_put(table, "every pass, in order", sink);
    kas_table_free(table);
    return status;
}

kas_status kas_bench_passes_put(const kas_bench_passes *subject, const kas_model *model,
                                kas_tape_mode mode, const kas_bench_sink *sink)
{
    kas_traffic traffic;
    KAS_TRY(kas_traffic_count(model, mode, &traffic));
    kas_status status;
    if (sink->json) {
        status = put_json(subject, &traffic, sink);
    } else {
        status = put_kinds(subject, &traffic, sink);
        if (status == KAS_OK)
            status = put_passes(subject, &traffic, sink);
    }
    kas_traffic_free(&traffic);
    return status;
}
