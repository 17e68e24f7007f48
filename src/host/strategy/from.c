#include "host/strategy/from.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* Sorts the finished candidates to the front of the list, and then by fronts of accuracy and cost, as
 * parents are: by accuracy alone one kernel and its near copies would be all that is taken. */
static kas_status rank_finished(kas_work *list, int count, kas_point *point, int *order,
                                int *ranked)
{
    const kas_search_options by_fronts = {.objective = KAS_OBJECTIVE_FRONTIER,
                                          .max_loss = -INFINITY};
    int finished = 0;
    for (int i = 0; i < count; i++)
        if (list[i].kind == KAS_WORK_CANDIDATE && list[i].state == KAS_WORK_FINISHED) {
            const kas_work one = list[i];
            list[i] = list[finished];
            list[finished] = one;
            point[finished++] = kas_objective_point(&one, NULL, kas_judge_cost(&one));
        }
    *ranked = finished;
    return kas_objective_select(&by_fronts, point, finished, order);
}

/* Returns whether the study does not tell two candidates apart: their accuracies differ by less than
 * the standard error of the difference, or on no image, and their costs by less than what a latency
 * differs by when it is measured again. */
static bool are_alike(const kas_work *a, const kas_work *b)
{
    static const double same_cost = 0.02;
    if (!(fabs(kas_judge_cost(a) / kas_judge_cost(b) - 1) < same_cost))
        return false;
    const kas_paired pair = kas_correct_compare(a->correct, b->correct, KAS_SELECTING);
    return pair.images > 0 && (fabs(pair.lost) < pair.error || pair.error == 0);
}

/* Moves candidates that are like one in front of them behind all others; the order stays otherwise. */
static void put_alike_behind(const kas_work *list, int count, int *order, int *behind)
{
    int taken = 0, alike = 0;
    for (int i = 0; i < count; i++) {
        bool is_alike = false;
        for (int j = 0; j < taken && !is_alike; j++)
            is_alike = are_alike(&list[order[i]], &list[order[j]]);
        if (is_alike)
            behind[alike++] = order[i];
        else
            order[taken++] = order[i];
    }
    memcpy(order + taken, behind, sizeof *order * (size_t)alike);
}

static kas_status add_finished(kas_work *list, int count, collection *c)
{
    kas_point *point = calloc((size_t)count + 1, sizeof *point);
    int *order = calloc((size_t)count + 1, sizeof *order), finished = 0;
    int *behind = calloc((size_t)count + 1, sizeof *behind);
    kas_status status = point && order && behind
                            ? rank_finished(list, count, point, order, &finished)
                            : kas_fail(KAS_NO_MEMORY, "kernels of a study: out of memory");
    if (status == KAS_OK)
        put_alike_behind(list, finished, order, behind);
    for (int i = 0; status == KAS_OK && i < finished && c->kernels < KAS_FROM_KERNELS; i++)
        add(c, list[order[i]].name, list[order[i]].kernel);
    free(behind);
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

static kas_status count(void *context, const char *name, const char *kernel)
{
    (void)name, (void)kernel;
    ++*(int *)context;
    return KAS_OK;
}

/* Takes the text of another study's file, which has the same digest then. */
static kas_status collect_list(const char *path, kas_buf *out)
{
    int kernels = 0;
    KAS_TRY(kas_file_read(path, KAS_FROM_BYTES, out));
    const kas_status status = kas_from_read(kas_buf_text(out), count, &kernels);
    if (status == KAS_OK && kernels > 0)
        return KAS_OK;
    return status == KAS_NO_MEMORY
               ? status
               : kas_fail(KAS_BAD_INPUT,
                          "%s: not a list of kernels, as a study keeps it in " KAS_STUDY_FROM
                          "; give a study, or a folder of kernel files, such as kernels/",
                          path);
}

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

kas_status kas_from_collect(const char *path, kas_buf *out)
{
    if (is_file(path))
        return collect_list(path, out);
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
