/* Study (c): fits a machine model to what predict_times measured, for a built-in machine.
 *
 *     predict_fit MACHINE OUT.json TIMES.jsonl
 *
 * MACHINE is what is known before, as --machine takes it; OUT.json has the model that is fitted to
 * all launches of TIMES.jsonl. As in predict.py, the last quiet line of each kernel counts. A model
 * must be judged by other kernels than these. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "host/core/file/files.h"
#include "host/predict/calibrate.h"
#include "host/predict/turns.h"
#include "host/space/file/assignment.h"

enum { LARGEST_FILE = 1 << 28, CLASSES = 10 };

/* A line of TIMES.jsonl, and what is predicted of it. */
typedef struct timed {
    cJSON *json;
    kas_net *net;
    kas_target *target;
    kas_replacement replacement;
    kas_programs programs;
    kas_prediction prediction;
} timed;

typedef struct session {
    kas_machine machine;
    timed *timed; /* [lines] */
    int lines;
} session;

static double number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(json, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static const char *text(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(json, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool is_time(const cJSON *json)
{
    return strcmp(text(json, "kind"), "predict_time") == 0 &&
           number(json, "unmodified_seconds") > 0 && *text(json, "kernel");
}

/* Leaves the last quiet line of each kernel. */
static void keep_quiet(session *s)
{
    double fastest = INFINITY;
    int kept = 0;
    for (int i = 0; i < s->lines; i++)
        fastest = fmin(fastest, number(s->timed[i].json, "unmodified_seconds"));
    for (int i = 0; i < s->lines; i++) {
        cJSON *json = s->timed[i].json;
        bool keep = kas_turns_is_quiet(number(json, "unmodified_seconds"), fastest);
        for (int j = i + 1; j < s->lines && keep; j++)
            keep = strcmp(text(json, "kernel"), text(s->timed[j].json, "kernel")) != 0 ||
                   !kas_turns_is_quiet(number(s->timed[j].json, "unmodified_seconds"), fastest);
        if (keep)
            s->timed[kept++].json = json;
        else
            cJSON_Delete(json);
    }
    s->lines = kept;
}

static kas_status read_lines(session *s, const char *path)
{
    kas_buf all = {0};
    KAS_TRY(kas_file_read(path, LARGEST_FILE, &all));
    int room = 1;
    for (size_t i = 0; i < all.size; i++)
        room += all.data[i] == '\n';
    s->timed = calloc((size_t)room, sizeof *s->timed);
    if (!s->timed) {
        kas_buf_free(&all);
        return kas_fail(KAS_NO_MEMORY, "no memory for %d lines", room);
    }
    kas_buf_text(&all);
    for (char *at = strtok((char *)all.data, "\n"); at; at = strtok(NULL, "\n")) {
        cJSON *json = cJSON_Parse(at); /* NULL: a line that was cut off */
        if (is_time(json))
            s->timed[s->lines++].json = json;
        else
            cJSON_Delete(json);
    }
    kas_buf_free(&all);
    keep_quiet(s);
    return s->lines > 0 ? KAS_OK : kas_fail(KAS_BAD_INPUT, "%s: no measured kernel", path);
}

/* ---- launches -------------------------------------------------------------------------------- */

static kas_status lower(const session *s, timed *t, int batch)
{
    const kas_budget budget = {0};
    const char *name = text(t->json, "kernel"), *kernel = text(t->json, "text");
    kas_assignment kernels;
    KAS_TRY(kas_assignment_read_json(name, kernel, strlen(kernel), &kernels));
    int targets;
    kas_status status = kas_net_targets(t->net, NULL, &t->target, &targets);
    if (status == KAS_OK)
        status = kas_assignment_fit(&kernels, t->target, targets, &budget, &t->replacement);
    kas_assignment_free(&kernels);
    KAS_TRY(status);
    return kas_predict_lower(&s->machine, &t->replacement, batch, KAS_PRECISION_FP32, false,
                             &t->programs);
}

/* Gives the launches of a line's network their measured times. */
static kas_status plan(const session *s, timed *t)
{
    int c, h, w;
    const int batch = (int)number(t->json, "batch");
    const bool changed = *text(t->json, "text");
    const cJSON *launches = cJSON_GetObjectItem(t->json, "launches");
    if (sscanf(text(t->json, "input"), "%dx%dx%d", &c, &h, &w) != 3 || batch < 1)
        return kas_fail(KAS_BAD_INPUT, "%s: input or batch is missing", text(t->json, "kernel"));
    KAS_TRY(kas_net_build(text(t->json, "net"), h, w, c, CLASSES, &t->net));
    if (changed)
        KAS_TRY(lower(s, t, batch));
    KAS_TRY(kas_predict(&s->machine, t->net, changed ? &t->programs : NULL, batch,
                        KAS_PRECISION_FP32, &t->prediction));
    const kas_planned_bytes *planned = &t->prediction.planned;
    if (cJSON_GetArraySize(launches) != planned->passes)
        return kas_fail(KAS_BAD_INPUT, "%s: measured %d launches, %d expected",
                        text(t->json, "kernel"), cJSON_GetArraySize(launches), planned->passes);
    const cJSON *launch = launches->child;
    for (int i = 0; i < planned->passes; i++, launch = launch->next)
        planned->pass[i].seconds = cJSON_IsNumber(launch) ? launch->valuedouble : NAN;
    return KAS_OK;
}

static kas_status fit(session *s)
{
    kas_fit_network *network = calloc((size_t)s->lines, sizeof *network);
    kas_status status =
        network ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %d kernels", s->lines);
    for (int i = 0; i < s->lines && status == KAS_OK; i++) {
        status = plan(s, &s->timed[i]);
        network[i] =
            (kas_fit_network){&s->timed[i].prediction.planned, number(s->timed[i].json, "seconds")};
    }
    if (status == KAS_OK)
        printf("%d networks, loss %.5f\n", s->lines,
               kas_machine_fit(&s->machine, network, s->lines));
    free(network);
    return status;
}

static void release(session *s)
{
    for (int i = 0; i < s->lines; i++) {
        timed *t = &s->timed[i];
        kas_prediction_free(&t->prediction);
        kas_programs_free(&t->programs);
        kas_replacement_free(&t->replacement);
        free(t->target);
        kas_net_free(t->net);
        cJSON_Delete(t->json);
    }
    free(s->timed);
}

int main(int argc, char **argv)
{
    session s = {0};
    if (argc != 4) {
        fputs("usage: predict_fit MACHINE OUT.json TIMES.jsonl\n", stderr);
        return 2;
    }
    kas_status status = kas_machine_find(argv[1], "auto", 0, &s.machine);
    if (status == KAS_OK)
        status = read_lines(&s, argv[3]);
    if (status == KAS_OK)
        status = fit(&s);
    if (status == KAS_OK)
        status = kas_machine_write(argv[2], &s.machine);
    if (status != KAS_OK)
        fprintf(stderr, "predict_fit: %s\n", kas_error());
    release(&s);
    return status != KAS_OK;
}
