#include "host/export/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/core/file/files.h"
#include "host/core/json/json.h"
#include "host/leaderboard/finals.h"
#include "host/leaderboard/leaderboard.h"
#include "host/leaderboard/publish.h"
#include "host/model/pretrained.h"
#include "host/model/safetensors.h"
#include "host/net/targets.h"
#include "host/study/study_dir.h"
#include "host/study/study_store.h"
#include "host/train/trained_on.h"

enum { KERNEL_BYTES = 1 << 20, MODEL_BYTES = 1 << 20, MODEL_DEPTH = 8 };

void kas_export_model_free(kas_export_model *model)
{
    kas_buf_free(&model->kernel_text);
    kas_buf_free(&model->facts);
    kas_net_free(model->net);
    free(model->target);
    kas_replacement_free(&model->replacement);
    *model = (kas_export_model){0};
}

/* Keeps slower layers where that is asked for; the text then is the file of layers. */
static kas_status keep(const kas_export_setting *s, kas_export_model *m, kas_assignment *kernels)
{
    if (!s->keep.machine)
        return KAS_OK;
    KAS_TRY(kas_keep_apply(&s->keep, m->title, m->net, m->target, m->targets, &s->budget, kernels));
    if (kernels->layers == 0)
        return KAS_OK;
    kas_buf_clear(&m->kernel_text);
    KAS_TRY(kas_assignment_write_json(kernels, &m->kernel_text));
    return kas_buf_status(&m->kernel_text);
}

/* Builds the network and solves the sizes; the kernel's text is loaded already. */
static kas_status build(const kas_export_setting *s, kas_export_model *m)
{
    kas_assignment kernels;
    kas_status status = KAS_OK;
    KAS_TRY(kas_assignment_read_json(m->title, kas_buf_text(&m->kernel_text), m->kernel_text.size,
                                     &kernels));
    KAS_TRY_GOTO(kas_net_build(s->net, s->h, s->w, s->c, s->classes, &m->net), out);
    KAS_TRY_GOTO(kas_net_targets(m->net, s->targets, &m->target, &m->targets), out);
    KAS_TRY_GOTO(keep(s, m, &kernels), out);
    status = kas_assignment_fit(&kernels, m->target, m->targets, &s->budget, &m->replacement);
    if (status != KAS_OK)
        kas_fail_context(status, "%s", m->title);
out:
    kas_assignment_free(&kernels);
    return status;
}

kas_status kas_export_model_from_file(const char *path, const kas_export_setting *setting,
                                      kas_export_model *out)
{
    *out = (kas_export_model){0};
    snprintf(out->title, sizeof out->title, "%s", path);
    KAS_TRY(kas_file_read(path, KERNEL_BYTES, &out->kernel_text));
    return build(setting, out);
}

/* ---- the winner of a finished study ---------------------------------------------------------- */

static kas_status read_options(const char *where, const cJSON *model, kas_search_options *out)
{
    const cJSON *object;
    KAS_TRY(kas_json_object(model, where, "options", &object));
    char *text = cJSON_PrintUnformatted(object);
    if (!text)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for the options", where);
    kas_status status = kas_search_options_read(where, text, out);
    cJSON_free(text);
    return status;
}

static kas_status read_input(const char *where, const cJSON *model, kas_export_setting *out)
{
    const cJSON *list;
    int *sizes[3] = {&out->c, &out->h, &out->w};
    KAS_TRY(kas_json_array(model, where, "input", &list));
    for (int i = 0; i < 3; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        if (cJSON_GetArraySize(list) != 3 || !cJSON_IsNumber(item) ||
            !(item->valuedouble >= 1 && item->valuedouble <= 65535))
            return kas_fail(KAS_BAD_INPUT,
                            "%s: field \"input\": expected [channels, height, width]", where);
        *sizes[i] = item->valueint;
    }
    return KAS_OK;
}

static void put_scaling(const char *scaling, kas_buf *out)
{
    kas_buf_printf(
        out,
        "- Images as the network saw them: pixels / 255, then per channel %s: (x - mean) / "
        "std.\n",
        scaling);
}

kas_status kas_export_model_weights(const char *path, kas_export_model *model)
{
    kas_safetensors file;
    KAS_TRY(kas_pretrained_gains(path, &model->replacement));
    KAS_TRY(kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &file));
    const char *scaling = kas_safetensors_metadata(&file, KAS_TRAINED_SCALING);
    if (scaling && model->facts.size == 0) /* a study has said it */
        put_scaling(scaling, &model->facts);
    kas_safetensors_free(&file);
    return KAS_OK;
}

static void put_list(const cJSON *model, const char *field, const char *name, kas_buf *out)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(model, field), *item;
    if (!cJSON_IsArray(list))
        return;
    kas_buf_printf(out, " %s", name);
    cJSON_ArrayForEach(item, list) kas_buf_printf(out, " %.6g", item->valuedouble);
    kas_buf_puts(out, ";");
}

static void put_facts(const cJSON *model, kas_buf *out)
{
    const cJSON *ours = cJSON_GetObjectItemCaseSensitive(model, "test_accuracy");
    const cJSON *base = cJSON_GetObjectItemCaseSensitive(model, "baseline_test_accuracy");
    if (cJSON_IsNumber(ours))
        kas_buf_printf(out, "- Test accuracy: %.2f%%", 100 * ours->valuedouble);
    if (cJSON_IsNumber(ours) && cJSON_IsNumber(base))
        kas_buf_printf(out, " (the network as it is: %.2f%%, the same recipe)",
                       100 * base->valuedouble);
    kas_buf_puts(out, cJSON_IsNumber(ours) ? "\n" : "");
    kas_buf_puts(out, "- Images as the network saw them: pixels / 255, then per channel");
    put_list(model, "mean", "mean", out);
    put_list(model, "std", "standard deviation", out);
    kas_buf_puts(out, " (x - mean) / deviation.\n");
}

static kas_status set_winner(const char *where, const cJSON *model, kas_export_model *out)
{
    kas_search_options options;
    kas_export_setting setting = {0};
    int64_t classes;
    KAS_TRY(read_options(where, model, &options));
    KAS_TRY(read_input(where, model, &setting));
    KAS_TRY(kas_json_int(model, where, "classes", 2, 65536, &classes));
    setting.net = *options.network ? options.network : options.net;
    setting.classes = (int)classes;
    setting.targets = options.targets[0] ? options.targets : NULL;
    setting.budget.max_flops_ratio = options.flops;
    setting.budget.max_params_ratio = options.params;
    put_facts(model, &out->facts);
    return build(&setting, out);
}

static kas_status from_winner(const char *study, const char *model_path, kas_export_model *out)
{
    kas_buf text = {0};
    cJSON *model = NULL;
    char path[KAS_STUDY_PATH];
    kas_status status = KAS_OK;
    snprintf(out->title, sizeof out->title, "the winner of study %s", study);
    out->weights_note = "the weights of the final training, on the whole training set";
    KAS_TRY_GOTO(kas_study_path(study, "best/kernel.json", path), done);
    KAS_TRY_GOTO(kas_file_read(path, KERNEL_BYTES, &out->kernel_text), done);
    KAS_TRY_GOTO(kas_study_path(study, "best/weights.safetensors", out->weights), done);
    KAS_TRY_GOTO(kas_file_read(model_path, MODEL_BYTES, &text), done);
    KAS_TRY_GOTO(kas_json_parse(model_path, kas_buf_text(&text), text.size,
                                (kas_json_limits){MODEL_BYTES, MODEL_DEPTH}, &model),
                 done);
    KAS_TRY_GOTO(set_winner(model_path, model, out), done);
done:
    cJSON_Delete(model);
    kas_buf_free(&text);
    return status;
}

/* ---- any candidate, from the store ----------------------------------------------------------- */

/* A study from its store. */
typedef struct stored {
    const char *folder;
    kas_study study;
    kas_search_options options;
    kas_work *work;
    int count;
} stored;

static kas_status read_stored(stored *s)
{
    kas_store *store = NULL;
    kas_status status = kas_study_open(s->folder, KAS_STORE_READ, &store);
    if (status == KAS_OK)
        status = kas_store_get_study(store, &s->study);
    if (status == KAS_OK)
        status = kas_search_options_read(s->folder, s->study.options, &s->options);
    if (status == KAS_OK)
        status = kas_store_list(store, &s->work, &s->count);
    kas_store_close(store);
    return status;
}

static kas_status find_leader(const stored *s, const kas_work **out)
{
    *out = kas_objective_leader(&s->options, s->work, s->count);
    return *out && (*out)->kernel
               ? KAS_OK
               : kas_fail(KAS_NOTHING_VALID, "%s: no candidate has finished", s->folder);
}

/* Finds a candidate by its number, or by the unique beginning of its kernel's name. */
static kas_status find_candidate(const stored *s, const char *candidate, const kas_work **out)
{
    int found = 0;
    for (int i = 0; i < s->count; i++)
        if (kas_study_is_candidate(&s->work[i], candidate) && s->work[i].kernel) {
            *out = &s->work[i];
            found++;
        }
    return found == 1
               ? KAS_OK
               : kas_fail(KAS_BAD_INPUT,
                          "%s: %s candidate \"%s\"; give the number of one, or its kernel's name, "
                          "as `kas-gpu log %s` lists them",
                          s->folder, found ? "more than one" : "no", candidate, s->folder);
}

/* Says why the candidate that leads is no answer. */
static void set_note(const stored *s, const kas_work *work, kas_export_model *out)
{
    char missing[KAS_ENDING_MISSING];
    const long long k = work->index;
    if (kas_finals_done(s->work, s->count))
        snprintf(
            out->note, sizeof out->note,
            "the files of the study's answer are gone, and `kas-gpu resume` writes them again: "
            "candidate %lld leads in the search",
            k);
    else if (!kas_ending_without_answer(&s->options, s->study.busy_seconds, s->work, s->count))
        snprintf(out->note, sizeof out->note,
                 "the study has no answer yet: candidate %lld is the best so far", k);
    else
        snprintf(out->note, sizeof out->note,
                 "the study has ended without an answer, because %s; candidate %lld is the %s",
                 kas_ending_missing(&s->options, work, missing), k,
                 s->options.finalists ? "nearest" : "best");
    kas_buf_printf(&out->facts, "- Note: %s.\n", out->note);
}

/* What the search measured, which is less than final trainings tell. */
static void put_measured(const stored *s, const kas_work *work, kas_buf *out)
{
    const kas_work *baseline = kas_work_find(s->work, s->count, KAS_WORK_BASELINE);
    const double ratio = kas_objective_ratio(&s->options, s->work, s->count, work);
    if (isfinite(work->measured.accuracy)) {
        kas_buf_printf(out, "- Validation accuracy in the search: %.2f%%",
                       100 * work->measured.accuracy);
        if (baseline && isfinite(baseline->measured.accuracy))
            kas_buf_printf(out, " (the network as it is: %.2f%%)",
                           100 * baseline->measured.accuracy);
        kas_buf_puts(out, "\n");
    }
    if (isfinite(ratio))
        kas_buf_printf(out, "- Latency: %.2f times that of the network as it is%s%s\n", ratio,
                       *s->options.latency_on ? ", predicted for " : "", s->options.latency_on);
}

static kas_status set_candidate(const stored *s, const kas_work *work, kas_export_model *out)
{
    const kas_search_options *o = &s->options;
    kas_dataset *dataset;
    char scaling[KAS_SCALING_TEXT];
    snprintf(out->title, sizeof out->title, "candidate %lld of study %s", (long long)work->index,
             s->folder);
    KAS_TRY(kas_publish_kernel_text(work, &out->kernel_text));
    KAS_TRY(kas_study_weights_path(s->folder, work, out->weights));
    if (kas_file_exists(out->weights))
        out->weights_note = "the weights of its training in the search, on all but the validation "
                            "images";
    else
        out->weights[0] = 0; /* it is not on the frontier, or exceeded the limit */
    put_measured(s, work, &out->facts);
    KAS_TRY(kas_dataset_open_without_images(s->study.dataset_path, &dataset));
    kas_dataset_scaling(dataset, scaling);
    put_scaling(scaling, &out->facts);
    kas_export_setting setting = {
        .net = *o->network ? o->network : o->net,
        .c = (int)dataset->c,
        .h = (int)dataset->h,
        .w = (int)dataset->w,
        .classes = (int)dataset->classes,
        .targets = o->targets[0] ? o->targets : NULL,
        .budget = {.max_flops_ratio = o->flops, .max_params_ratio = o->params}};
    kas_dataset_close(dataset);
    return build(&setting, out);
}

static kas_status from_store(const char *study, const char *candidate, kas_export_model *out)
{
    stored s = {.folder = study};
    const kas_work *found = NULL;
    kas_status status = read_stored(&s);
    if (status == KAS_OK)
        status = candidate ? find_candidate(&s, candidate, &found) : find_leader(&s, &found);
    if (status == KAS_OK && !candidate)
        set_note(&s, found, out);
    if (status == KAS_OK)
        status = set_candidate(&s, found, out);
    kas_work_list_free(s.work, s.count);
    kas_study_clear(&s.study);
    return status;
}

kas_status kas_export_model_from_study(const char *study, const char *candidate,
                                       kas_export_model *out)
{
    char path[KAS_STUDY_PATH];
    *out = (kas_export_model){0};
    KAS_TRY(kas_study_path(study, "best/model.json", path));
    if (!candidate && kas_file_exists(path))
        return from_winner(study, path, out);
    return from_store(study, candidate, out);
}
