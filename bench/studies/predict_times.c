/* Study (c), prediction against measurement: measures the latency of sampled and known kernels, each
 * beside the unmodified network in turns.
 *
 *     predict_times NET CxHxW BATCH DEVICE KERNELS SEED SECONDS OUT.jsonl KNOWN.json...
 *
 * KERNELS kernels are drawn with SEED as calibration draws its own, but none of calibration's; the
 * known ones come first. A line of OUT has a kernel's times, its text, and the time of every launch
 * in the order of `kas-gpu predict --json`. Kernels that OUT has already are left out, and after
 * SECONDS no new one is begun, so the same command goes on where it stopped.
 *
 * A line counts when the unmodified network beside the kernel was within 5% of its fastest time in
 * all of OUT (predict/turns.h); otherwise something else ran, and the kernel is measured again when
 * all others have been, in this call while there is time, or in the next.
 *
 * Where SECONDS is "compile", all kernels are compiled and none is timed: the machine need not be
 * idle meanwhile, and a later call finds their code in the cache. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/predict/calibrate.h"
#include "host/predict/turns.h"
#include "host/report/line.h"
#include "host/space/file/assignment.h"

enum { TURNS = 9, ROUNDS = 3, ARGUMENTS = 8, LARGEST_FILE = 1 << 28 };
/* Of the turns of a kernel: what is disturbed has four times as long, and comes again later. */
static const double most_seconds = 0.3;

typedef struct measured_line {
    char kernel[KAS_NAME_SIZE];
    double unmodified; /* seconds */
} measured_line;

typedef struct session {
    char **argv;
    int c, h, w, batch, kernels;
    double until;
    bool compiles; /* and times nothing */
    kas_net *net;
    kas_target *target;
    int targets;
    kas_device *device;
    kas_turns *turns;
    kas_sample *sample, *known_to_calibration;
    measured_line *line; /* [lines] of OUT */
    int lines, room;
    FILE *out;
    int round;          /* 0: what OUT does not have yet; later ones: what was disturbed */
    int left, measured; /* left: in this round, for want of time */
} session;

/* ---- results --------------------------------------------------------------------------------- */

static double fastest(const session *s)
{
    double least = INFINITY;
    for (int i = 0; i < s->lines; i++)
        least = fmin(least, s->line[i].unmodified);
    return least;
}

static bool is_done(const session *s, const char *name)
{
    const double least = fastest(s);
    for (int i = 0; i < s->lines; i++)
        if (strcmp(s->line[i].kernel, name) == 0 &&
            kas_turns_is_quiet(s->line[i].unmodified, least))
            return true;
    return false;
}

static bool is_there(const session *s, const char *name)
{
    for (int i = 0; i < s->lines; i++)
        if (strcmp(s->line[i].kernel, name) == 0)
            return true;
    return false;
}

/* Returns how many kernels have lines, none of which counts. */
static int disturbed(const session *s)
{
    int count = 0;
    for (int i = 0; i < s->lines; i++) {
        bool seen = is_done(s, s->line[i].kernel);
        for (int j = 0; j < i && !seen; j++)
            seen = strcmp(s->line[j].kernel, s->line[i].kernel) == 0;
        count += !seen;
    }
    return count;
}

static kas_status add_line(session *s, const char *kernel, double unmodified)
{
    if (s->lines == s->room) {
        s->room = 2 * s->room + 64;
        measured_line *grown = realloc(s->line, sizeof *grown * (size_t)s->room);
        if (!grown)
            return kas_fail(KAS_NO_MEMORY, "no memory for %d results", s->room);
        s->line = grown;
    }
    measured_line *l = &s->line[s->lines++];
    snprintf(l->kernel, sizeof l->kernel, "%s", kernel);
    l->unmodified = unmodified;
    return KAS_OK;
}

/* Reads what an earlier call measured. A line that was cut off is skipped. */
static kas_status read_lines(session *s, kas_buf *text)
{
    if (text->size == 0)
        return KAS_OK;
    for (char *at = strtok((char *)text->data, "\n"); at; at = strtok(NULL, "\n")) {
        cJSON *json = cJSON_Parse(at);
        const cJSON *kernel = cJSON_GetObjectItem(json, "kernel"),
                    *seconds = cJSON_GetObjectItem(json, "unmodified_seconds");
        const kas_status status = cJSON_IsString(kernel) && cJSON_IsNumber(seconds)
                                      ? add_line(s, kernel->valuestring, seconds->valuedouble)
                                      : KAS_OK;
        cJSON_Delete(json);
        KAS_TRY(status);
    }
    return KAS_OK;
}

static void add_launches(const kas_planned_bytes *planned, kas_buf *line)
{
    kas_buf list = {0};
    for (int i = 0; i < planned->passes; i++)
        if (isfinite(planned->pass[i].seconds))
            kas_buf_printf(&list, "%s%.9g", i ? ", " : "[", planned->pass[i].seconds);
        else
            kas_buf_printf(&list, "%snull", i ? ", " : "[");
    kas_buf_puts(&list, "]");
    kas_line_json(line, "launches", kas_buf_text(&list));
    kas_buf_free(&list);
}

static kas_status put(session *s, const char *source, const char *name, const char *text,
                      const kas_turns_result *r)
{
    double load = -1;
    kas_buf line = {0};
    kas_line_begin(&line);
    kas_line_text(&line, "kind", "predict_time");
    kas_line_text(&line, "source", source);
    kas_line_text(&line, "kernel", name);
    kas_line_text(&line, "net", s->net->name);
    kas_line_text(&line, "input", s->argv[2]);
    kas_line_int(&line, "batch", s->batch);
    kas_line_text(&line, "device", kas_device_get_info(s->device)->name);
    kas_line_int(&line, "threads", kas_device_get_info(s->device)->threads);
    kas_line_number(&line, "load_average", getloadavg(&load, 1) == 1 ? load : NAN);
    kas_line_number(&line, "seconds", r->seconds);
    kas_line_number(&line, "unmodified_seconds", r->unmodified);
    kas_line_number(&line, "ratio", r->ratio);
    kas_line_number(&line, "ratio_low", r->ratio_low);
    kas_line_number(&line, "ratio_high", r->ratio_high);
    kas_line_int(&line, "turns", r->turns);
    add_launches(&r->planned, &line);
    kas_line_text(&line, "text", text);
    kas_line_end(&line);
    kas_status status = kas_buf_status(&line);
    if (status == KAS_OK && (fputs(kas_buf_text(&line), s->out) < 0 || fflush(s->out) != 0))
        status = kas_fail(KAS_FAILURE, "%s cannot be written", s->argv[8]);
    kas_buf_free(&line);
    return status;
}

/* ---- one network ----------------------------------------------------------------------------- */

/* Compiles programs into the cache. */
static kas_status compile(session *s, kas_programs *programs)
{
    const kas_model_options options = {
        .net = s->net, .programs = programs, .batch = s->batch, .precision = KAS_PRECISION_FP32};
    kas_model *model;
    KAS_TRY(kas_model_create(s->device, &options, &model));
    kas_model_free(model);
    s->measured++;
    return KAS_OK;
}

static kas_status time_and_put(session *s, const char *source, const char *name, const char *text,
                               kas_programs *programs)
{
    kas_turns_result result;
    KAS_TRY(kas_turns_measure(s->turns, programs, TURNS, most_seconds, &result));
    kas_status status = put(s, source, name, text, &result);
    kas_planned_bytes_free(&result.planned);
    if (status == KAS_OK)
        status = add_line(s, name, result.unmodified);
    s->measured++;
    return status;
}

static kas_status measure(session *s, const char *source, const char *name, const char *text,
                          const kas_replacement *replacement)
{
    const kas_model_options options = {.batch = s->batch};
    kas_programs programs = {0};
    if (is_done(s, name) || (s->round == 0 && is_there(s, name)))
        return KAS_OK;
    if (kas_monotonic() > s->until) {
        s->left++;
        return KAS_OK;
    }
    kas_status status = kas_model_build_programs(&options, replacement,
                                                 kas_device_get_info(s->device)->arch, &programs);
    kas_programs *changed = replacement ? &programs : NULL;
    if (status == KAS_OK)
        status = s->compiles ? compile(s, changed) : time_and_put(s, source, name, text, changed);
    if (status == KAS_UNSUPPORTED || status == KAS_NO_MEMORY || status == KAS_ILLEGAL) {
        kas_warn("%s is left out: %s", name, kas_error());
        status = KAS_OK;
    }
    kas_programs_free(&programs);
    return status;
}

static bool is_fitted(const session *s, const char *name)
{
    for (int i = 0; i < KAS_CALIBRATION_KERNELS; i++)
        if (strcmp(s->known_to_calibration[i].name, name) == 0)
            return true;
    return false;
}

static kas_status measure_samples(session *s)
{
    for (int i = 0; i < s->kernels; i++) {
        const kas_sample *k = &s->sample[i];
        kas_buf text = {0};
        if (is_fitted(s, k->name))
            continue;
        kas_status status = kas_sample_write_json(k, &text);
        if (status == KAS_OK)
            status = measure(s, k->replacement.kernel_of ? "nas-pte" : "canvas", k->name,
                             kas_buf_text(&text), &k->replacement);
        kas_buf_free(&text);
        KAS_TRY(status);
    }
    return KAS_OK;
}

/* A known kernel that does not fit the network is left out. */
static kas_status measure_known(session *s, const char *path)
{
    const kas_budget budget = {0};
    char name[KAS_NAME_SIZE];
    kas_assignment kernels;
    kas_replacement replacement;
    kas_buf text = {0};
    KAS_TRY(kas_assignment_read_file(path, &kernels));
    kas_status status = kas_assignment_name(&kernels, name);
    if (status == KAS_OK)
        status = kas_assignment_write_json(&kernels, &text);
    if (status == KAS_OK)
        status = kas_assignment_fit(&kernels, s->target, s->targets, &budget, &replacement);
    kas_assignment_free(&kernels);
    if (status == KAS_OK) {
        status = measure(s, "known", name, kas_buf_text(&text), &replacement);
        kas_replacement_free(&replacement);
    } else {
        kas_warn("%s is left out: %s", path, kas_error());
        status = KAS_OK;
    }
    kas_buf_free(&text);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static kas_status open_out(session *s)
{
    kas_buf text = {0};
    if (kas_file_exists(s->argv[8]))
        KAS_TRY(kas_file_read(s->argv[8], LARGEST_FILE, &text));
    const bool cut_off = text.size && text.data[text.size - 1] != '\n';
    const kas_status status = read_lines(s, &text);
    kas_buf_free(&text);
    KAS_TRY(status);
    s->out = fopen(s->argv[8], "a");
    if (!s->out)
        return kas_fail(KAS_BAD_INPUT, "%s cannot be written", s->argv[8]);
    if (cut_off)
        fputc('\n', s->out);
    return KAS_OK;
}

static kas_status prepare(session *s)
{
    s->batch = atoi(s->argv[3]);
    s->kernels = atoi(s->argv[5]);
    if (sscanf(s->argv[2], "%dx%dx%d", &s->c, &s->h, &s->w) != 3 || s->batch < 1 || s->kernels < 1)
        return kas_fail(KAS_USAGE, "input %s, batch %s, %s kernels: expected CxHxW and 1 or more",
                        s->argv[2], s->argv[3], s->argv[5]);
    s->compiles = strcmp(s->argv[7], "compile") == 0;
    s->until = s->compiles ? INFINITY : kas_monotonic() + atof(s->argv[7]);
    KAS_TRY(kas_net_build(s->argv[1], s->h, s->w, s->c, 10, &s->net));
    KAS_TRY(kas_net_targets(s->net, NULL, &s->target, &s->targets));
    s->sample = calloc((size_t)s->kernels, sizeof *s->sample);
    s->known_to_calibration = calloc(KAS_CALIBRATION_KERNELS, sizeof *s->sample);
    if (!s->sample || !s->known_to_calibration)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d kernels", s->kernels);
    KAS_TRY(kas_machine_calibration_draw(s->target, s->targets, (uint64_t)atoll(s->argv[6]),
                                         s->kernels, s->sample));
    KAS_TRY(kas_machine_calibration_draw(s->target, s->targets, KAS_CALIBRATION_SEED,
                                         KAS_CALIBRATION_KERNELS, s->known_to_calibration));
    KAS_TRY(open_out(s));
    KAS_TRY(kas_device_open(s->argv[4], 0, &s->device));
    return kas_turns_create(s->device, s->net, s->batch, KAS_PRECISION_FP32, NULL, &s->turns);
}

static kas_status measure_all(session *s, char **known, int count)
{
    s->left = 0;
    KAS_TRY(measure(s, "unmodified", "unmodified", "", NULL));
    for (int i = 0; i < count; i++)
        KAS_TRY(measure_known(s, known[i]));
    return measure_samples(s);
}

static void release(session *s)
{
    kas_turns_free(s->turns);
    if (s->device)
        kas_device_close(s->device);
    if (s->out)
        fclose(s->out);
    for (int i = 0; s->sample && i < s->kernels; i++)
        kas_sample_free(&s->sample[i]);
    for (int i = 0; s->known_to_calibration && i < KAS_CALIBRATION_KERNELS; i++)
        kas_sample_free(&s->known_to_calibration[i]);
    free(s->sample);
    free(s->known_to_calibration);
    free(s->line);
    free(s->target);
    kas_net_free(s->net);
}

int main(int argc, char **argv)
{
    session s = {.argv = argv};
    if (argc < 1 + ARGUMENTS) {
        fputs("usage: predict_times NET CxHxW BATCH DEVICE KERNELS SEED SECONDS OUT.jsonl "
              "KNOWN.json...\n",
              stderr);
        return 2;
    }
    kas_status status = prepare(&s);
    for (; s.round < ROUNDS && status == KAS_OK && (s.round == 0 || disturbed(&s) > 0); s.round++)
        status = measure_all(&s, argv + 1 + ARGUMENTS, argc - 1 - ARGUMENTS);
    if (status != KAS_OK)
        fprintf(stderr, "predict_times: %s\n", kas_error());
    else
        printf("%d %s; for the next call: %d disturbed, %d left\n", s.measured,
               s.compiles ? "compiled" : "measured", disturbed(&s), s.left);
    release(&s);
    return status != KAS_OK;
}
