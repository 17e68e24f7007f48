#include "host/tune/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/predict/predict.h"
#include "host/tune/maps.h"
#include "host/tune/record.h"
#include "host/tune/versions.h"

enum { MOST_REPEATS = 64 /* of a launch in one timing */ };

static const double long_enough = 2e-4; /* a timing is at least so long */

/* ---- programs -------------------------------------------------------------------------------- */

static const char *name_of(const kas_program *p, int i)
{
    return kas_tune_launch(p, i)->function + strlen(p->prefix) + 1;
}

/* Returns a copy of the steps of a kernel in a program's list of schedules. */
static char *steps_of(const kas_program *p, const char *name)
{
    char head[32];
    snprintf(head, sizeof head, "kernel %s\n", name);
    const char *from = strstr(p->schedules, head);
    const char *to = from ? strstr(from + 1, "kernel ") : NULL;
    from = from ? from + strlen(head) : NULL;
    return !from ? NULL : to ? strndup(from, (size_t)(to - from)) : strdup(from);
}

static kas_estimate predict(const kas_tuner *t, const kas_operation *op)
{
    kas_operation one = *op;
    one.times = 1;
    const kas_sweep pass = {
        .what = "kernel", .layer = -1, .operation = -1, .bytes = op->bytes, .kernel = &one};
    return kas_predict_pass(t->machine, &pass);
}

/* Returns the seconds that a launch takes at least, without what it costs to launch. The machine model's
 * floor is for data behind a CPU's first cache. Of data in the first one at most VECTORS vectors of
 * float32 values, 4 bytes each, are loaded or stored in a cycle of a core. */
static double floor_of(const kas_tuner *t, const kas_operation *op)
{
    enum { VECTORS = 4, BYTES = 4 };
    const kas_machine *m = t->machine;
    if (m->gpu)
        return predict(t, op).floor - m->launch;
    return fmax(op->bytes / (m->cores * m->clock * m->lanes * BYTES * VECTORS),
                op->flops / m->rate[KAS_PRECISION_FP32]);
}

/* ---- ranking --------------------------------------------------------------------------------- */

/* Puts a schedule among the best, unless it is there. Takes over the steps. */
static void rank(kas_tune_search *s, char *steps, double predicted)
{
    kas_trial one = {.steps = steps, .predicted = predicted};
    for (int v = 0; v < KAS_TUNE_VERSIONS; v++)
        if (s->trial[v].steps && strcmp(s->trial[v].steps, steps) == 0) {
            free(steps);
            return;
        }
    for (int v = s->ranked; v < KAS_TUNE_VERSIONS && one.steps; v++)
        if (!s->trial[v].steps || one.predicted < s->trial[v].predicted) {
            const kas_trial worse = s->trial[v];
            s->trial[v] = one;
            one = worse;
        }
    free(one.steps);
}

static kas_status rank_trials(kas_tuner *t)
{
    for (int k = 1; k <= t->options->trials; k++) {
        kas_program *p;
        kas_tune_tell(t->options, "schedule %d of %d is ranked", k, t->options->trials);
        KAS_TRY(kas_tune_build(t, "t", t->options->seed + (uint64_t)k, true, NULL, &p));
        for (int i = 0; i < t->out->launches; i++) {
            kas_tune_search *s = &t->search[i];
            char *steps = s->open ? steps_of(p, t->out->launch[i].name) : NULL;
            if (steps)
                rank(s, steps, predict(t, kas_tune_launch(p, i)).seconds);
        }
        kas_program_free(p);
    }
    return KAS_OK;
}

/* ---- timing ---------------------------------------------------------------------------------- */

static kas_tune_version version_of(const kas_tuner *t, int v, int i)
{
    return (kas_tune_version){t->search[i].trial[v].module, kas_tune_launch(t->version[v], i)};
}

/* Times version v of a launch beside the default. A time below the floor counts for nothing, and a
 * warning says so, once for a launch: *sound is then false. */
static kas_status time_beside(const kas_tuner *t, int v, int i, bool cold, int rounds,
                              kas_tune_ratio *out, bool *sound)
{
    kas_tune_search *s = &t->search[i];
    const kas_tune_version version[2] = {version_of(t, 0, i), version_of(t, v, i)};
    const double floor = t->out->launch[i].floor;
    const int repeats = cold ? 0 : (int)fmin(MOST_REPEATS, 1 + long_enough / s->trial[0].predicted);
    KAS_TRY(kas_tune_in_turns(&t->stand, version, repeats, rounds, out));
    const double least = fmin(out->seconds[0], out->seconds[1]);
    *sound = least >= floor;
    if (!*sound && !s->warned)
        kas_warn("%s: timed at %.3g s, below the floor of %.3g s that its bytes and multiply-adds "
                 "take on %s: the clock or the machine model is wrong (kas-gpu doctor --calibrate "
                 "measures one); such figures are not accepted",
                 t->out->launch[i].name, least, floor, t->machine->name);
    s->warned |= !*sound;
    return KAS_OK;
}

/* Returns the version of a launch that is predicted to be fastest. */
static int predicted_best(const kas_tune_search *s)
{
    int best = 0;
    for (int v = 1; v < KAS_TUNE_VERSIONS; v++)
        if (s->trial[v].steps && s->trial[v].predicted < s->trial[best].predicted)
            best = v;
    return best;
}

/* Finds the fastest version of a launch. Where all schedules that were drawn are the default, that is
 * timed beside itself. */
static kas_status time_versions(kas_tuner *t, int i)
{
    kas_tune_search *s = &t->search[i];
    const int predicted = predicted_best(s);
    kas_tune_ratio alone;
    bool unused;
    if (!s->trial[1].steps) {
        KAS_TRY(time_beside(t, 0, i, false, KAS_TUNE_FIRST_ROUNDS, &alone, &unused));
        t->out->launch[i].seconds = alone.seconds[0];
    }
    for (int v = 1; v < KAS_TUNE_VERSIONS; v++) {
        kas_tune_ratio r;
        bool sound;
        if (!s->trial[v].steps)
            continue;
        kas_tune_tell(t->options, "%s (launch %d of %d) is timed, schedule %d of %d",
                      t->out->launch[i].name, i + 1, t->out->launches, v, KAS_TUNE_VERSIONS - 1);
        KAS_TRY(time_beside(t, v, i, false, KAS_TUNE_FIRST_ROUNDS, &r, &sound));
        t->out->launch[i].tried++;
        t->out->launch[i].seconds = r.seconds[0];
        if (v == predicted)
            t->out->launch[i].choice = r.ratio;
        if (!sound || r.ratio >= s->ratio)
            continue;
        s->ratio = r.ratio;
        s->best = v;
    }
    return KAS_OK;
}

/* Times the fastest version of a launch again, and keeps it where it is better for certain. */
static kas_status confirm(kas_tuner *t, int i)
{
    const kas_tune_search *s = &t->search[i];
    kas_tuned_launch *launch = &t->out->launch[i];
    kas_tune_ratio warm, cold;
    bool sound, sound_cold;
    if (s->best == 0 || s->ratio >= KAS_TUNE_WORTH)
        return KAS_OK;
    kas_tune_tell(t->options, "%s (launch %d of %d) is timed, its best schedule once more",
                  launch->name, i + 1, t->out->launches);
    KAS_TRY(time_beside(t, s->best, i, false, KAS_TUNE_SECOND_ROUNDS, &warm, &sound));
    KAS_TRY(time_beside(t, s->best, i, true, KAS_TUNE_SECOND_ROUNDS, &cold, &sound_cold));
    launch->kept = sound && sound_cold && warm.high < 1 && cold.low < 1;
    launch->seconds = warm.seconds[0];
    launch->ratio = warm.ratio;
    launch->ratio_low = warm.low;
    launch->ratio_high = warm.high;
    kas_debug(
        "%s: %.3f of the default's time (%.3f to %.3f), with caches swept %.3f (%.3f to %.3f)",
        launch->name, warm.ratio, warm.low, warm.high, cold.ratio, cold.low, cold.high);
    return KAS_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Writes the head of schedule files, and finds who computes the maps. */
static kas_status find_maps(kas_tuner *t, const char *cache_dir)
{
    kas_buf text = {0};
    const kas_program *p = t->programs->program[t->p];
    kas_schedule_file_put_head(
        p->target.name, kas_device_get_info(t->device)->kind == KAS_DEVICE_CPU,
        p->batch / p->pieces, !p->training, p->dtype, t->programs->options.tf32, &t->head);
    KAS_TRY(kas_buf_status(&t->head));
    t->plain = calloc(1, sizeof *t->plain);
    if (!t->plain)
        return kas_tune_no_memory();
    kas_buf_puts(&text, kas_buf_text(&t->head));
    kas_status status = kas_tune_maps(t->device, cache_dir, t->programs, t->p, t->options,
                                      kas_buf_text(&t->head), t->out, &text);
    if (status == KAS_OK)
        status = kas_schedule_file_parse("maps", kas_buf_text(&text), t->plain);
    kas_buf_free(&text);
    return status;
}

/* Returns the first launch with the record of launch i. */
static int first_like(const kas_tuner *t, int i)
{
    const kas_program *p = t->version[0];
    int first = 0;
    while (!t->out->launch[first].name[0] ||
           strcmp(kas_tune_launch(p, first)->record, kas_tune_launch(p, i)->record) != 0)
        first++;
    return first;
}

/* Takes the steps that a record has for a launch, and predicts what they take. Where they have become
 * illegal, the record counts as missing. */
static kas_status check_known(const kas_tuner *t, int i, kas_trial *found)
{
    kas_tuned_launch *launch = &t->out->launch[i];
    const kas_operation *op = kas_tune_launch(t->version[0], i);
    kas_program *p;
    const kas_status status = kas_tune_build_launch(t, i, found->steps, &p);
    if (status == KAS_OK) {
        found->predicted = predict(t, kas_tune_launch(p, i)).seconds;
        kas_program_free(p);
        return KAS_OK;
    }
    if (status != KAS_ILLEGAL && status != KAS_BAD_INPUT)
        return status;
    kas_warn("the tuned schedule %.12s of %s: %s; the launch is tuned again", op->record,
             launch->name, kas_error());
    free(found->steps);
    found->steps = NULL;
    launch->known = launch->kept = false;
    launch->illegal = true;
    return KAS_OK;
}

/* Looks up what is known of a launch. */
static kas_status find_known(kas_tuner *t, int i)
{
    kas_tune_search *s = &t->search[i];
    kas_tuned_launch *launch = &t->out->launch[i];
    kas_trial found = {.predicted = INFINITY};
    kas_status status = kas_tune_find(t->options, kas_tune_launch(t->version[0], i)->record,
                                      t->options->trials, launch, &found.steps);
    if (status == KAS_OK && found.steps)
        status = check_known(t, i, &found);
    s->open = !launch->known;
    s->ratio = 1;
    s->trial[s->open ? 1 : 0] = found;
    s->ranked = s->open && found.steps ? 2 : 1;
    if (s->open)
        s->trial[0].steps = steps_of(t->version[0], launch->name);
    return status;
}

/* Builds the default, and looks up what is known of its launches. A kernel that writes Y and never
 * runs, because every layer has an epilogue, is passed over. Launches with equal texts have one
 * record: the first of them stands for all. */
static kas_status open_search(kas_tuner *t, bool *any)
{
    KAS_TRY(kas_tune_build(t, "t0", 0, false, NULL, &t->version[0]));
    const kas_program *p = t->version[0];
    t->out->launches = p->forwards + p->backwards + p->epilogues;
    t->out->launch = calloc((size_t)t->out->launches + 1, sizeof *t->out->launch);
    t->search = calloc((size_t)t->out->launches + 1, sizeof *t->search);
    if (!t->out->launch || !t->search)
        return kas_tune_no_memory();
    for (int i = 0; i < t->out->launches; i++) {
        kas_tune_search *s = &t->search[i];
        kas_tuned_launch *launch = &t->out->launch[i];
        if (kas_tune_launch(p, i)->kind != KAS_OPERATION_LAUNCH ||
            (p->epilogues > 0 && i == p->written_by))
            continue;
        snprintf(launch->name, sizeof launch->name, "%s", name_of(p, i));
        launch->times = kas_tune_launch(p, i)->times;
        s->like = first_like(t, i);
        if (s->like != i)
            continue;
        KAS_TRY(find_known(t, i));
        s->trial[0].predicted = predict(t, kas_tune_launch(p, i)).seconds;
        launch->floor = floor_of(t, kas_tune_launch(p, i));
        launch->choice = 1;
        if (s->open)
            launch->ratio = launch->ratio_low = launch->ratio_high = 1;
        *any |= s->open;
    }
    return KAS_OK;
}

static kas_status run_search(kas_tuner *t, const char *cache_dir)
{
    KAS_TRY(rank_trials(t));
    KAS_TRY(kas_tune_compile(t, cache_dir));
    KAS_TRY(kas_tune_stand_make(t->device, t->machine, t->version[0], t->options->seed, &t->stand));
    if (t->options->begin)
        t->options->begin(t->options->quiet);
    for (int i = 0; i < t->out->launches; i++) {
        const kas_tune_search *s = &t->search[i];
        kas_tuned_launch *launch = &t->out->launch[i];
        if (!s->open)
            continue;
        KAS_TRY(time_versions(t, i));
        KAS_TRY(confirm(t, i));
        KAS_TRY(kas_tune_keep(t->options, kas_tune_launch(t->version[0], i)->record,
                              t->options->trials, kas_buf_text(&t->head), launch,
                              launch->kept ? s->trial[s->best].steps : NULL));
    }
    return KAS_OK;
}

/* Gives launches what was found for the first one with the same record. */
static void share_results(kas_tuner *t)
{
    for (int i = 0; i < t->out->launches; i++)
        if (t->out->launch[i].name[0])
            kas_tune_share(&t->out->launch[i], &t->out->launch[t->search[i].like]);
}

/* A launch that adds up what pieces of the batch gave is no part of the file, which is for one piece. */
static kas_status make_result(kas_tuner *t)
{
    kas_buf file = {0};
    kas_buf_puts(&file, kas_buf_text(&t->plain->text));
    for (int i = 0; i < t->out->launches; i++) {
        const kas_tune_search *s = &t->search[t->search[i].like];
        const kas_tuned_launch *launch = &t->out->launch[i];
        if (launch->kept && !kas_tune_launch(t->version[0], i)->total)
            kas_buf_printf(&file, "kernel %s\n%s", launch->name, s->trial[s->best].steps);
    }
    kas_status status = kas_buf_status(&file);
    if (status == KAS_OK && !(t->out->file = strdup(kas_buf_text(&file))))
        status = kas_tune_no_memory();
    kas_buf_free(&file);
    return status;
}

static void free_tuner(kas_tuner *t)
{
    if (t->stand.device)
        kas_tune_stand_free(&t->stand);
    for (int i = 0; t->search && i < t->out->launches; i++)
        for (int v = 0; v < KAS_TUNE_VERSIONS; v++)
            free(t->search[i].trial[v].steps);
    for (int k = 0; k < t->modules; k++)
        kas_module_free(t->module[k]);
    free(t->module);
    for (int v = 0; v < KAS_TUNE_VERSIONS; v++)
        kas_program_free(t->version[v]);
    kas_buf_free(&t->head);
    if (t->plain)
        kas_schedule_file_free(t->plain);
    free(t->plain);
    free(t->search);
}

kas_status kas_tune(kas_device *device, const kas_machine *machine, const char *cache_dir,
                    const kas_programs *programs, int p, const kas_tune_options *options,
                    kas_tuned *out)
{
    kas_tuner t = {.device = device,
                   .machine = machine,
                   .programs = programs,
                   .p = p,
                   .options = options,
                   .out = out};
    bool any = false;
    *out = (kas_tuned){0};
    kas_status status = find_maps(&t, cache_dir);
    if (status == KAS_OK)
        status = open_search(&t, &any);
    if (status == KAS_OK && any)
        status = run_search(&t, cache_dir);
    if (status == KAS_OK) {
        share_results(&t);
        status = make_result(&t);
    }
    free_tuner(&t);
    if (status != KAS_OK)
        kas_tuned_free(out);
    return status;
}

void kas_tuned_free(kas_tuned *tuned)
{
    free(tuned->launch);
    free(tuned->map);
    free(tuned->file);
    *tuned = (kas_tuned){0};
}
