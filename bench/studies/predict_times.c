/* Study (c), prediction against measurement: measures the latency of sampled and known kernels, each
 * beside the unmodified network in turns.
 *
 *     predict_times NET CxHxW BATCH DEVICE KERNELS SEED SECONDS OUT.jsonl KNOWN.json...
 *
 * KERNELS kernels are drawn with SEED as calibration draws its own, but none of calibration's; the
 * known ones follow. A line of OUT has a kernel's times, its text, and the time of every launch in
 * the order of `kas-gpu predict --json`. Kernels that OUT has already are left out, and after
 * SECONDS no new one is begun, so the same command goes on where it stopped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/predict/calibrate.h"
#include "host/predict/turns.h"
#include "host/report/line.h"
#include "host/space/file/assignment.h"

enum { TURNS = 9, ARGUMENTS = 8, LARGEST_FILE = 1 << 28 };
static const double most_seconds = 2.5; /* of the turns of a kernel */

typedef struct session {
    char **argv;
    int c, h, w, batch, kernels;
    double until;
    kas_net *net;
    kas_target *target;
    int targets;
    kas_device *device;
    kas_turns *turns;
    kas_sample *sample, *known_to_calibration;
    kas_buf done; /* text of OUT */
    FILE *out;
    int left, measured;
} session;

/* ---- results --------------------------------------------------------------------------------- */

static bool is_done(const session *s, const char *name)
{
    char field[KAS_NAME_SIZE + 16];
    snprintf(field, sizeof field, "\"kernel\": \"%s\"", name);
    return strstr(kas_buf_text(&s->done), field) != NULL;
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

static kas_status measure(session *s, const char *source, const char *name, const char *text,
                          const kas_replacement *replacement)
{
    const kas_model_options options = {.batch = s->batch};
    kas_programs programs = {0};
    kas_turns_result result;
    if (is_done(s, name))
        return KAS_OK;
    if (kas_monotonic() > s->until) {
        s->left++;
        return KAS_OK;
    }
    kas_status status = kas_model_build_programs(&options, replacement,
                                                 kas_device_get_info(s->device)->arch, &programs);
    if (status == KAS_OK)
        status = kas_turns_measure(s->turns, replacement ? &programs : NULL, TURNS, most_seconds,
                                   &result);
    if (status == KAS_OK) {
        status = put(s, source, name, text, &result);
        kas_planned_bytes_free(&result.planned);
        s->measured++;
    } else if (status == KAS_UNSUPPORTED || status == KAS_NO_MEMORY || status == KAS_ILLEGAL) {
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

static kas_status prepare(session *s)
{
    s->batch = atoi(s->argv[3]);
    s->kernels = atoi(s->argv[5]);
    if (sscanf(s->argv[2], "%dx%dx%d", &s->c, &s->h, &s->w) != 3 || s->batch < 1 || s->kernels < 1)
        return kas_fail(KAS_USAGE, "input %s, batch %s, %s kernels: expected CxHxW and 1 or more",
                        s->argv[2], s->argv[3], s->argv[5]);
    s->until = kas_monotonic() + atof(s->argv[7]);
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
    if (kas_file_exists(s->argv[8]))
        KAS_TRY(kas_file_read(s->argv[8], LARGEST_FILE, &s->done));
    s->out = fopen(s->argv[8], "a");
    if (!s->out)
        return kas_fail(KAS_BAD_INPUT, "%s cannot be written", s->argv[8]);
    if (s->done.size && s->done.data[s->done.size - 1] != '\n')
        fputc('\n', s->out); /* a line that was cut off */
    KAS_TRY(kas_device_open(s->argv[4], 0, &s->device));
    return kas_turns_create(s->device, s->net, s->batch, KAS_PRECISION_FP32, NULL, &s->turns);
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
    kas_buf_free(&s->done);
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
    if (status == KAS_OK)
        status = measure(&s, "unmodified", "unmodified", "", NULL);
    for (int i = 1 + ARGUMENTS; i < argc && status == KAS_OK; i++)
        status = measure_known(&s, argv[i]);
    if (status == KAS_OK)
        status = measure_samples(&s);
    if (status != KAS_OK)
        fprintf(stderr, "predict_times: %s\n", kas_error());
    else
        printf("%d measured, %d left for the next call\n", s.measured, s.left);
    release(&s);
    return status != KAS_OK;
}
