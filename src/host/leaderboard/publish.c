#include "host/leaderboard/publish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/json/json.h"
#include "host/leaderboard/finals.h"
#include "host/leaderboard/leaderboard.h"
#include "host/report/line.h"
#include "host/space/file/gains.h"
#include "host/study/study_dir.h"

static void add_floats(kas_buf *out, const char *name, const float *value, uint32_t count)
{
    kas_line_key(out, name);
    for (uint32_t i = 0; i < count && i < 4; i++)
        kas_buf_printf(out, "%s%.9g", i ? "," : "[", (double)value[i]);
    kas_buf_puts(out, "]");
}

/* Adds the figures of all finalists over their seeds. */
static void add_finals(kas_buf *out, const kas_work *work, int count)
{
    kas_finalist list[KAS_FINALISTS_MOST + 1];
    const int n = kas_finals_of(work, count, list);
    kas_line_key(out, "finalists");
    for (int i = 0; i < n; i++) {
        kas_buf_puts(out, i ? ", " : "[");
        kas_finalist_json(&list[i], out);
    }
    kas_buf_puts(out, "]");
}

static void write_model(const kas_work *best, const kas_work *baseline, const kas_work *work,
                        int count, const kas_search_options *options, const char *dataset,
                        const kas_problem *problem, kas_buf *out)
{
    const kas_dataset *d = problem->dataset;
    kas_line_begin(out);
    kas_line_text(out, "kernel", best->name);
    kas_line_text(out, "net", options->net);
    kas_line_key(out, "input");
    kas_buf_printf(out, "[%u,%u,%u]", d->c, d->h, d->w);
    kas_line_int(out, "classes", d->classes);
    kas_line_text(out, "targets", options->targets);
    add_floats(out, "mean", d->mean, d->c);
    add_floats(out, "std", d->std, d->c);
    kas_line_text(out, "dataset", dataset);
    kas_line_text(out, "dataset_digest", d->digest);
    kas_line_number(out, "test_accuracy", best->measured.accuracy);
    kas_line_number(out, "baseline_test_accuracy", baseline->measured.accuracy);
    kas_line_number(out, "latency_seconds", best->measured.latency);
    kas_line_number(out, "baseline_latency_seconds", baseline->measured.latency);
    add_finals(out, work, count);
    kas_line_key(out, "options");
    kas_search_options_write(options, out);
    kas_line_end(out);
}

kas_status kas_publish_kernel_text(const kas_work *work, kas_buf *out)
{
    if (work->gains)
        return kas_gains_insert(work->kernel, work->gains, out);
    kas_buf_puts(out, work->kernel);
    return kas_buf_status(out);
}

kas_status kas_publish_kernel(const kas_work *work, const char *path)
{
    kas_buf text = {0};
    const kas_status status = kas_publish_kernel_text(work, &text);
    return kas_buf_save(&text, path, status);
}

static kas_status write_best(const char *study, const kas_work *best, const kas_buf *model)
{
    char path[KAS_STUDY_PATH];
    KAS_TRY(kas_buf_status(model));
    KAS_TRY(kas_study_path(study, "best/kernel.json", path));
    KAS_TRY(kas_publish_kernel(best, path));
    KAS_TRY(kas_study_path(study, "best/model.json", path));
    return kas_file_write_atomic(path, model->data, model->size);
}

/* Writes the files of finished candidates that somebody has deleted. */
static kas_status write_kernels(const char *study, const kas_work *work, int count)
{
    for (int i = 0; i < count; i++) {
        char path[KAS_STUDY_PATH], relative[64];
        if (work[i].kind != KAS_WORK_CANDIDATE || work[i].state != KAS_WORK_FINISHED)
            continue;
        snprintf(relative, sizeof relative, "kernels/%s.json", work[i].name);
        KAS_TRY(kas_study_path(study, relative, path));
        if (work[i].kernel && !kas_file_exists(path))
            KAS_TRY(kas_publish_kernel(&work[i], path));
    }
    return KAS_OK;
}

kas_status kas_publish_best(const char *study, kas_store *store, const kas_search_options *options,
                            const char *dataset, const kas_problem *problem)
{
    kas_work *list;
    int count;
    KAS_TRY(kas_store_list(store, &list, &count));
    const kas_work *best = kas_finals_answer(list, count),
                   *baseline = kas_work_find(list, count, KAS_WORK_FINAL_BASELINE);
    kas_status status = KAS_OK;
    if (!options->finalists) {
        status = write_kernels(study, list, count);
    } else if (!best || !best->kernel || !baseline) {
        status = kas_fail(KAS_STORE, "%s: the final trainings are missing", study);
    } else {
        kas_buf model = {0};
        write_model(best, baseline, list, count, options, dataset, problem, &model);
        status = write_best(study, best, &model);
        kas_buf_free(&model);
        if (status == KAS_OK)
            status = write_kernels(study, list, count);
    }
    kas_work_list_free(list, count);
    return status;
}

/* Returns whether the file says that it is of the kernel. One that cannot be read does not. */
static bool is_of(const char *path, const char *kernel)
{
    enum { BYTES = 1 << 20, DEPTH = 8 };
    const kas_json_limits limits = {BYTES, DEPTH};
    kas_buf text = {0};
    cJSON *model = NULL;
    const char *name = "";
    const bool of =
        kas_file_read(path, BYTES, &text) == KAS_OK &&
        kas_json_parse(path, kas_buf_text(&text), text.size, limits, &model) == KAS_OK &&
        kas_json_string(model, path, "kernel", &name) == KAS_OK && strcmp(name, kernel) == 0;
    cJSON_Delete(model);
    kas_buf_free(&text);
    return of;
}

kas_status kas_publish_withdraw(const char *study, const char *kernel)
{
    static const char *const files[] = {"best/model.json", "best/kernel.json"};
    char path[KAS_STUDY_PATH];
    KAS_TRY(kas_study_path(study, files[0], path));
    if (is_of(path, kernel))
        return KAS_OK;
    for (int i = 0; i < 2; i++) { /* in this order: `export` looks for the first */
        KAS_TRY(kas_study_path(study, files[i], path));
        if (unlink(path) != 0 && errno != ENOENT)
            return kas_fail(KAS_FAILURE, "%s: cannot be deleted: %s", path, kas_strerror(errno));
    }
    return KAS_OK;
}
