/* Times all operations of a kernel in the place of one layer, library convolutions included and
 * epilogues left out: by its
 * default schedules in turns with those that `kas-gpu tune` found on this device, on one thread.
 *
 *     tuned_pass KERNEL.json NET CxHxW LAYER BATCH inference|training
 *
 * Prints one JSON object: seconds of both, medians of processor time, and the ratio, tuned by
 * default, with its 10th and 90th percentile over the turns. Each way has memory of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/bench/programs.h"
#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/core/machine.h"
#include "host/net/targets.h"
#include "host/report/line.h"
#include "host/space/file/assignment.h"
#include "host/train/stats.h"
#include "jit/tuned.h"

enum { WAYS = 2, TURNS = 25, ARGUMENTS = 6 };
static const double long_enough = 2e-3; /* seconds of a timing */

typedef struct session {
    char **argv;
    kas_net *net;
    kas_target *target;
    int targets;
    kas_replacement fit;
    kas_device *device;
    kas_program *program[WAYS];
    kas_bench_programs *ready[WAYS];
    int repeats;
    kas_samples seconds[WAYS], ratio;
} session;

/* ---- set-up ---------------------------------------------------------------------------------- */

static kas_status prepare_way(session *s, int way, int t, const char *tuned)
{
    const kas_linear_policy policy = kas_linear_policy_of(kas_device_get_info(s->device)->arch);
    const kas_program_options options = {.batch = atoi(s->argv[5]),
                                         .training = strcmp(s->argv[6], "training") == 0,
                                         .linear_policy = policy,
                                         .lanes = kas_cpu_lanes(),
                                         .piece_bytes = kas_piece_bytes(policy, kas_cores()),
                                         .prefix = way ? "t" : "d",
                                         .tuned = way ? tuned : NULL};
    KAS_TRY(kas_program_build(kas_replacement_kernel(&s->fit, t), &s->target[t],
                              &s->fit.solution.binding[t], &options, &s->program[way]));
    return kas_bench_programs_create(s->device, &s->program[way], 1, NULL, &s->ready[way]);
}

static int target_named(const session *s, const char *name)
{
    for (int t = 0; t < s->targets; t++)
        if (strcmp(s->target[t].name, name) == 0 && kas_replacement_kernel(&s->fit, t))
            return t;
    return -1;
}

static kas_status prepare(session *s)
{
    int c, h, w;
    char tuned[4096];
    kas_assignment file;
    const kas_budget budget = {0};
    if (sscanf(s->argv[3], "%dx%dx%d", &c, &h, &w) != 3)
        return kas_fail(KAS_USAGE, "input %s: expected CxHxW", s->argv[3]);
    KAS_TRY(kas_net_build(s->argv[2], h, w, c, 10, &s->net));
    KAS_TRY(kas_net_targets(s->net, NULL, &s->target, &s->targets));
    KAS_TRY(kas_assignment_read_file(s->argv[1], &file));
    const kas_status status = kas_assignment_fit(&file, s->target, s->targets, &budget, &s->fit);
    kas_assignment_free(&file);
    KAS_TRY(status);
    KAS_TRY(kas_device_open("cpu", 1, &s->device));
    KAS_TRY(kas_tuned_folder(kas_device_get_info(s->device), tuned));
    const int t = target_named(s, s->argv[4]);
    if (t < 0)
        return kas_fail(KAS_USAGE, "%s is not replaced in %s", s->argv[4], s->argv[2]);
    for (int way = 0; way < WAYS; way++)
        KAS_TRY(prepare_way(s, way, t, tuned));
    return KAS_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static kas_status take(session *s, int way, int repeats, double *seconds)
{
    const double before = kas_processor_seconds();
    for (int i = 0; i < repeats; i++)
        KAS_TRY(kas_bench_programs_run(s->ready[way], 0, seconds));
    *seconds = (kas_processor_seconds() - before) / repeats;
    return KAS_OK;
}

/* Each way is first in every other turn. */
static kas_status measure(session *s)
{
    double seconds[WAYS];
    for (int way = 0; way < WAYS; way++)
        KAS_TRY(take(s, way, 2, &seconds[way]));
    s->repeats = 1 + (int)(long_enough / seconds[0]);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int k = 0; k < WAYS; k++)
            KAS_TRY(take(s, (k + turn) % WAYS, s->repeats, &seconds[(k + turn) % WAYS]));
        for (int way = 0; way < WAYS; way++)
            KAS_TRY(kas_samples_add(&s->seconds[way], seconds[way]));
        KAS_TRY(kas_samples_add(&s->ratio, seconds[1] / seconds[0]));
    }
    return KAS_OK;
}

static kas_status put(session *s)
{
    kas_buf out = {0};
    const kas_program *program = s->program[1];
    kas_line_begin(&out);
    kas_line_text(&out, "kind", "tuned_pass");
    kas_line_text(&out, "layer", s->argv[4]);
    kas_line_text(&out, "phase", s->argv[6]);
    kas_line_int(&out, "batch", program->batch);
    kas_line_int(&out, "tuned_launches", program->tuned);
    kas_line_number(&out, "seconds", kas_samples_quantile(&s->seconds[0], 0.5));
    kas_line_number(&out, "tuned_seconds", kas_samples_quantile(&s->seconds[1], 0.5));
    kas_line_number(&out, "ratio", kas_samples_quantile(&s->ratio, 0.5));
    kas_line_number(&out, "ratio_low", kas_samples_quantile(&s->ratio, 0.1));
    kas_line_number(&out, "ratio_high", kas_samples_quantile(&s->ratio, 0.9));
    kas_line_end(&out);
    const kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        fputs(kas_buf_text(&out), stdout);
    kas_buf_free(&out);
    return status;
}

static void release(session *s)
{
    for (int way = 0; way < WAYS; way++) {
        kas_bench_programs_free(s->ready[way]);
        kas_program_free(s->program[way]);
        kas_samples_free(&s->seconds[way]);
    }
    kas_samples_free(&s->ratio);
    kas_replacement_free(&s->fit);
    if (s->device)
        kas_device_close(s->device);
    free(s->target);
    kas_net_free(s->net);
}

int main(int argc, char **argv)
{
    session s = {.argv = argv};
    if (argc != 1 + ARGUMENTS) {
        fputs("usage: tuned_pass KERNEL.json NET CxHxW LAYER BATCH inference|training\n", stderr);
        return 2;
    }
    kas_log_set_level(KAS_LOG_QUIET);
    kas_status status = prepare(&s);
    if (status == KAS_OK)
        status = measure(&s);
    if (status == KAS_OK)
        status = put(&s);
    if (status != KAS_OK)
        fprintf(stderr, "tuned_pass: %s\n", kas_error());
    release(&s);
    return status != KAS_OK;
}
