#include "host/strategy/from.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/file/folder.h"
#include "host/core/json/json.h"
#include "host/core/log.h"
#include "host/leaderboard/judge.h"
#include "host/leaderboard/objective.h"
#include "host/space/file/assignment.h"
#include "host/study/study_store.h"

enum { MOST_DEPTH = 4, MOST_KERNEL_BYTES = 1 << 20 };

/* ---- collecting ------------------------------------------------------------------------------ */

typedef struct collection {
    kas_buf *out;
    int kernels, refused;
    char why[512]; /* the first file was refused */
} collection;

static void add(collection *c, const char *name, const char *kernel)
{
    kas_buf_puts(c->out, c->kernels++ ? ",\n{\"name\": " : "\n{\"name\": ");
    kas_buf_json_string(c->out, name);
    kas_buf_puts(c->out, ", \"kernel\": ");
    kas_buf_json_string(c->out, kernel);
    kas_buf_puts(c->out, "}");
}

/* Sorts the finished candidates to the front, the best first. */
static kas_status rank_finished(kas_work *list, int count, kas_point *point, int *order,
                                int *ranked)
{
    int finished = 0;
    for (int i = 0; i < count; i++)
        if (list[i].kind == KAS_WORK_CANDIDATE && list[i].state == KAS_WORK_FINISHED) {
            const kas_work one = list[i];
            list[i] = list[finished];
            list[finished] = one;
            point[finished++] = kas_objective_point(&one, NULL, kas_judge_cost(&one));
        }
    *ranked = finished;
    return kas_objective_order(KAS_OBJECTIVE_ACCURACY, 0, point, finished, order);
}

static kas_status add_finished(kas_work *list, int count, collection *c)
{
    kas_point *point = calloc((size_t)count + 1, sizeof *point);
    int *order = calloc((size_t)count + 1, sizeof *order), finished = 0;
    kas_status status = point && order
                            ? rank_finished(list, count, point, order, &finished)
                            : kas_fail(KAS_NO_MEMORY, "kernels of a study: out of memory");
    for (int i = 0; status == KAS_OK && i < finished && c->kernels < KAS_FROM_KERNELS; i++)
        add(c, list[order[i]].name, list[order[i]].kernel);
    free(point);
    free(order);
    return status;
}

static kas_status collect_study(const char *study, collection *c)
{
    kas_store *store;
    kas_work *list;
    int count;
    KAS_TRY(kas_study_open(study, KAS_STORE_READ, &store));
    kas_status status = kas_store_list(store, &list, &count);
    kas_store_close(store);
    KAS_TRY(status);
    status = add_finished(list, count, c);
    kas_work_list_free(list, count);
    return status;
}

/* Takes a file if it is a kernel file or a file of layers; others may lie beside these. */
static kas_status collect_file(void *context, const char *path)
{
    collection *c = context;
    const char *file = strrchr(path, '/') + 1;
    char name[256];
    kas_assignment kernels;
    kas_buf text = {0};
    if (c->kernels == KAS_FROM_KERNELS)
        return KAS_OK;
    kas_status status = kas_file_read(path, MOST_KERNEL_BYTES, &text);
    if (status == KAS_OK)
        status = kas_assignment_read_json(path, kas_buf_text(&text), text.size, &kernels);
    if (status == KAS_OK) {
        kas_assignment_free(&kernels);
        snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - 5), file);
        add(c, name, kas_buf_text(&text));
    } else if (status == KAS_BAD_INPUT || status == KAS_ILLEGAL) {
        if (c->refused++ == 0)
            snprintf(c->why, sizeof c->why, "%.500s", kas_error());
        status = KAS_OK;
    }
    kas_buf_free(&text);
    return status;
}

kas_status kas_from_collect(const char *path, kas_buf *out)
{
    collection c = {.out = out};
    char other[KAS_STUDY_OTHER];
    const bool study = kas_study_exists(path);
    int files;
    kas_buf_puts(out, "{\"kernels\": [");
    KAS_TRY(study ? collect_study(path, &c)
                  : kas_folder_each(path, ".json", collect_file, &c, &files));
    kas_buf_puts(out, "\n]}\n");
    if (c.kernels == 0 && study)
        return kas_fail(KAS_BAD_INPUT, "%s: no candidate of this study has finished", path);
    kas_study_describe_other(path, other);
    if (c.kernels == 0 && !c.refused && *other)
        return kas_fail(KAS_BAD_INPUT, "%s: %s", path, other);
    if (c.kernels == 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: there is no kernel file (*.json) in it%s%s; give a study or a "
                        "folder of kernel files, such as kernels/",
                        path, c.refused ? ": " : "", c.why);
    if (c.refused)
        kas_warn(c.refused == 1 ? "%s: %d file is not used: %s"
                                : "%s: %d files are not used; the first of them: %s",
                 path, c.refused, c.why);
    if (out->size > KAS_FROM_BYTES)
        return kas_fail(KAS_BAD_INPUT, "%s: the kernels have %zu bytes, more than %d", path,
                        out->size, KAS_FROM_BYTES);
    return kas_buf_status(out);
}

/* ---- reading --------------------------------------------------------------------------------- */

kas_status kas_from_read(const char *text, kas_from_taker *take, void *context)
{
    cJSON *root;
    const cJSON *list, *one;
    KAS_TRY(kas_json_parse(KAS_STUDY_FROM, text, strlen(text),
                           (kas_json_limits){KAS_FROM_BYTES, MOST_DEPTH}, &root));
    kas_status status = kas_json_array(root, KAS_STUDY_FROM, "kernels", &list);
    if (status == KAS_OK)
        cJSON_ArrayForEach(one, list)
        {
            const char *name = "", *kernel = "";
            KAS_TRY_GOTO(kas_json_string(one, KAS_STUDY_FROM, "name", &name), out);
            KAS_TRY_GOTO(kas_json_string(one, KAS_STUDY_FROM, "kernel", &kernel), out);
            KAS_TRY_GOTO(take(context, name, kernel), out);
        }
out:
    cJSON_Delete(root);
    return status;
}
