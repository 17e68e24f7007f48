#include "host/tune/maps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/tune/record.h"
#include "host/tune/timing.h"
#include "host/tune/versions.h"
#include "jit/schedule/schedule_file.h"

enum {
    TRIALS = 1, /* of a pass, in its record: there is one other way */
    MOST_CONVS = 48
};
static const double long_enough = 1e-3; /* a timing is at least so long */

/* A program on the device, with memory of its own. */
typedef struct ready {
    kas_program *program;
    int map;            /* the first of the passes that it computes the other way */
    kas_module *module; /* that has its code; NULL: it does not compile */
    kas_tune_stand stand;
    kas_conv *conv[MOST_CONVS]; /* of the plan */
    kas_conv_desc desc[MOST_CONVS];
    int convs;
    kas_plan *plan;
} ready;

typedef struct timing {
    kas_device *device;
    const kas_programs *programs;
    int p;
    const kas_tune_options *options;
    const char *head;
    kas_tuned *out;
    int versions; /* as it is, then the other way of each map that is not known */
    ready *version;
    kas_module *module[KAS_SCHEDULE_MAPS + 1]; /* [modules] with the code of all versions */
    int modules;
} timing;

/* ---- programs -------------------------------------------------------------------------------- */

/* Prints the line of a map. */
static void put_map(const kas_map *map, bool loops, kas_buf *out)
{
    kas_buf_printf(out, "map %d %s %s\n", map->node, kas_schedule_passes[map->pass],
                   loops ? "loops" : "library");
}

/* Builds the program with the other way of all passes that have the record of pass m; m -1: none. */
static kas_status build(const timing *t, const kas_program *usual, int m, kas_program **out)
{
    char prefix[16];
    kas_buf text = {0};
    kas_schedule_file *file = calloc(1, sizeof *file);
    if (!file)
        return kas_tune_no_memory();
    kas_buf_puts(&text, t->head);
    for (int i = 0; m >= 0 && i < usual->maps; i++)
        if (strcmp(usual->map[i].record, usual->map[m].record) == 0)
            put_map(&usual->map[i], !usual->map[i].loops, &text);
    snprintf(prefix, sizeof prefix, "m%d", m + 1);
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        status = kas_schedule_file_parse("maps", kas_buf_text(&text), file);
    const kas_program_options options = {
        .prefix = prefix, .schedule_file = file, .list_schedules = true};
    if (status == KAS_OK)
        status = kas_programs_build_again(t->programs, t->p, &options, out);
    kas_schedule_file_free(file);
    free(file);
    kas_buf_free(&text);
    return status;
}

/* Keeps the library for the pass of a version that cannot be timed. */
static void leave_library(const timing *t, int v)
{
    kas_tuned_launch *found = &t->out->map[t->version[v].map];
    kas_warn("map %s: its loops cannot be timed, and the library stays: %s", found->name,
             kas_error());
    found->seconds = found->ratio = found->ratio_low = found->ratio_high = NAN;
    found->tried = 0;
}

/* Compiles versions from `first` on, up to `end`, in one text, or leaves those out that do not compile:
 * the library stays there. The program as it is must compile. */
static kas_status compile_some(timing *t, kas_compiler *compiler, int first, int end)
{
    kas_buf text = {0};
    char path[4096];
    for (int v = first; v < end; v++)
        kas_buf_puts(&text, t->version[v].program->source);
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        status = kas_compile(compiler, kas_buf_text(&text), path, NULL);
    kas_buf_free(&text);
    if (status == KAS_OK) {
        kas_module **module = &t->module[t->modules];
        KAS_TRY(kas_module_load(t->device, path, module));
        t->modules++;
        for (int v = first; v < end; v++)
            t->version[v].module = *module;
        return KAS_OK;
    }
    if (status != KAS_FAILURE || end == 1) /* not for the text, or for the usual one */
        return status;
    if (end - first == 1) {
        leave_library(t, first);
        return KAS_OK;
    }
    const int middle = first + (end - first) / 2;
    KAS_TRY(compile_some(t, compiler, first, middle));
    return compile_some(t, compiler, middle, end);
}

static kas_status compile(timing *t, const char *cache_dir)
{
    kas_compiler *compiler;
    KAS_TRY(kas_compiler_open(kas_device_get_info(t->device)->arch, cache_dir, &compiler));
    const kas_status status = compile_some(t, compiler, 0, t->versions);
    kas_compiler_close(compiler);
    return status;
}

static int operations_of(const kas_program *p)
{
    return p->forwards + p->backwards;
}

/* Returns whether a network that runs the program holds the weights of the operation (model/fold.h). */
static bool holds(const kas_program *p, const kas_operation *op)
{
    return !p->training && op->pass == KAS_CONV_FORWARD && p->buffer[op->w].role == KAS_ROLE_WEIGHT;
}

static kas_status append(timing *t, ready *r, const kas_operation *op)
{
    void *const *memory = r->stand.memory, *args[KAS_MAX_LAUNCH_ARGS];
    kas_function *function;
    if (op->kind == KAS_OPERATION_CONV) {
        kas_conv_desc desc = op->conv;
        desc.passes = 1u << op->pass;
        int c = 0;
        while (c < r->convs && memcmp(&r->desc[c], &desc, sizeof desc) != 0)
            c++;
        if (c == MOST_CONVS)
            return kas_fail(KAS_UNSUPPORTED, "a pass of a map changes more than %d convolutions",
                            MOST_CONVS);
        if (c == r->convs) {
            KAS_TRY(kas_conv_create(t->device, &desc, &r->conv[c]));
            r->desc[r->convs++] = desc;
        }
        if (holds(r->program, op))
            KAS_TRY(kas_conv_hold(r->conv[c], NULL, memory[op->w]));
        return kas_plan_conv(r->plan, r->conv[c], op->pass, (char *)memory[op->x] + op->x_offset,
                             memory[op->w], (char *)memory[op->y] + op->y_offset);
    }
    for (int k = 0; k < op->args; k++)
        args[k] = memory[op->arg[k]];
    KAS_TRY(kas_module_function(r->module, op->symbol, &function));
    return kas_plan_launch(r->plan, function, op->grid, op->block, args,
                           sizeof *args * (size_t)op->args);
}

/* An operation is known by its record. */
static bool same(const kas_operation *a, const kas_operation *b)
{
    return a->times == b->times && strcmp(a->record, b->record) == 0;
}

/* Writes down which operations `other` does not run, too, and as often. */
static kas_status find_rest(const kas_program *p, const kas_program *other, bool *rest)
{
    const int own = operations_of(p), others = operations_of(other);
    bool *taken = calloc((size_t)others + 1, sizeof *taken); /* each stands for one of ours */
    if (!taken)
        return kas_tune_no_memory();
    for (int i = 0; i < own; i++) {
        int j = 0;
        while (j < others && (taken[j] || !same(kas_tune_launch(other, j), kas_tune_launch(p, i))))
            j++;
        rest[i] = j == others;
        taken[j] = true;
    }
    free(taken);
    return KAS_OK;
}

/* Makes a plan of the operations that `other` does not have, for the whole batch so many times: one
 * program may cut it into pieces where the other does not. */
static kas_status plan_rest(timing *t, ready *r, const kas_program *other, int times)
{
    const kas_program *p = r->program;
    const int own = operations_of(p);
    bool *rest = calloc((size_t)own + 1, sizeof *rest);
    kas_status status = rest ? find_rest(p, other, rest) : kas_tune_no_memory();
    if (status == KAS_OK)
        status = kas_plan_create(t->device, &r->plan);
    for (int k = 0; k < times * p->pieces; k++)
        for (int i = 0; i < own && status == KAS_OK; i++)
            if (rest[i] && k % p->pieces < kas_tune_launch(p, i)->times)
                status = append(t, r, kas_tune_launch(p, i));
    free(rest);
    return status;
}

static void free_plan(ready *r)
{
    kas_plan_free(r->plan);
    r->plan = NULL;
    while (r->convs > 0)
        kas_conv_free(r->conv[--r->convs]);
}

/* Frees all but the program. */
static void free_ready(ready *r)
{
    free_plan(r);
    if (r->stand.device)
        kas_tune_stand_free(&r->stand);
}

static kas_status plan_both(timing *t, ready *usual, ready *other, int times)
{
    free_plan(usual);
    free_plan(other);
    KAS_TRY(plan_rest(t, usual, other->program, times));
    return plan_rest(t, other, usual->program, times);
}

/* ---- timing ---------------------------------------------------------------------------------- */

static kas_status time_rounds(const timing *t, const ready *other, int times, int rounds,
                              kas_tuned_launch *found)
{
    kas_plan *const plan[2] = {t->version[0].plan, other->plan};
    kas_tune_ratio r;
    KAS_TRY(kas_tune_plans_in_turns(&t->version[0].stand, plan, false, rounds, &r));
    found->seconds = r.seconds[0] / times;
    found->ratio = r.ratio;
    found->ratio_low = r.low;
    found->ratio_high = r.high;
    return KAS_OK;
}

/* Times the other way of pass m beside the usual one. */
static kas_status time_map(timing *t, ready *other, int m)
{
    enum { MOST_TIMES = 64 };
    ready *usual = &t->version[0];
    kas_tuned_launch *found = &t->out->map[m];
    KAS_TRY(kas_tune_stand_make(t->device, NULL, other->program, t->options->seed, &other->stand));
    KAS_TRY(plan_both(t, usual, other, 1));
    KAS_TRY(time_rounds(t, other, 1, 1, found));
    const int times = (int)fmin(MOST_TIMES, 1 + long_enough / fmax(found->seconds, 1e-6));
    KAS_TRY(plan_both(t, usual, other, times));
    KAS_TRY(time_rounds(t, other, times, KAS_TUNE_FIRST_ROUNDS, found));
    found->tried = 1;
    if (found->ratio < KAS_TUNE_WORTH)
        KAS_TRY(time_rounds(t, other, times, KAS_TUNE_SECOND_ROUNDS, found));
    found->kept = found->ratio < KAS_TUNE_WORTH && found->ratio_high < 1;
    return KAS_OK;
}

static kas_status keep(const timing *t, int m)
{
    const kas_map *map = &t->version[0].program->map[m];
    kas_buf head = {0};
    kas_buf_puts(&head, t->head);
    put_map(map, map->loops != t->out->map[m].kept, &head);
    kas_status status = kas_buf_status(&head);
    if (status == KAS_OK)
        status = kas_tune_keep(t->options, map->record, TRIALS, kas_buf_text(&head),
                               &t->out->map[m], NULL);
    kas_buf_free(&head);
    return status;
}

/* Returns the first pass with the record of pass m. */
static int first_like(const kas_program *p, int m)
{
    int first = 0;
    while (strcmp(p->map[first].record, p->map[m].record) != 0)
        first++;
    return first;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Looks up what is known of each pass. */
static kas_status open_maps(timing *t, bool *any)
{
    ready *usual = &t->version[0];
    KAS_TRY(build(t, NULL, -1, &usual->program));
    const kas_program *p = usual->program;
    t->out->maps = p->maps;
    t->out->map = calloc((size_t)p->maps + 1, sizeof *t->out->map);
    if (!t->out->map)
        return kas_tune_no_memory();
    for (int m = 0; m < p->maps; m++) {
        kas_tuned_launch *found = &t->out->map[m];
        char *steps = NULL;
        snprintf(found->name, sizeof found->name, "%d %s", p->map[m].node,
                 kas_schedule_passes[p->map[m].pass]);
        KAS_TRY(kas_tune_find(t->options, p->map[m].record, TRIALS, found, &steps));
        free(steps);
        *any |= !found->known;
    }
    return KAS_OK;
}

static kas_status time_maps(timing *t, const char *cache_dir)
{
    const kas_program *usual = t->version[0].program;
    for (int m = 0; m < usual->maps && t->versions <= KAS_SCHEDULE_MAPS; m++)
        if (!t->out->map[m].known && first_like(usual, m) == m) {
            t->version[t->versions].map = m;
            KAS_TRY(build(t, usual, m, &t->version[t->versions].program));
            t->versions++;
        }
    kas_tune_tell(t->options, "loops of %d maps are compiled", t->versions - 1);
    KAS_TRY(compile(t, cache_dir));
    KAS_TRY(kas_tune_stand_make(t->device, NULL, usual, t->options->seed, &t->version[0].stand));
    if (t->options->begin)
        t->options->begin(t->options->quiet);
    for (int v = 1; v < t->versions; v++) {
        const int m = t->version[v].map;
        if (!t->version[v].module)
            continue;
        kas_tune_tell(t->options, "map %s is timed, %d of %d", t->out->map[m].name, v,
                      t->versions - 1);
        const kas_status status = time_map(t, &t->version[v], m);
        free_ready(&t->version[v]);
        if (status == KAS_UNSUPPORTED) {
            leave_library(t, v);
            continue;
        }
        KAS_TRY(status);
        KAS_TRY(keep(t, m));
    }
    return KAS_OK;
}

/* Prints the lines of all maps that are not computed as usual. */
static void put_lines(const timing *t, kas_buf *lines)
{
    const kas_program *p = t->version[0].program;
    for (int m = 0; m < p->maps; m++) {
        kas_tune_share(&t->out->map[m], &t->out->map[first_like(p, m)]);
        if (t->out->map[m].kept)
            put_map(&p->map[m], !p->map[m].loops, lines);
    }
}

kas_status kas_tune_maps(kas_device *device, const char *cache_dir, const kas_programs *programs,
                         int p, const kas_tune_options *options, const char *head, kas_tuned *out,
                         kas_buf *lines)
{
    timing t = {.device = device,
                .programs = programs,
                .p = p,
                .options = options,
                .head = head,
                .out = out,
                .versions = 1};
    bool any = false;
    t.version = calloc(KAS_SCHEDULE_MAPS + 1, sizeof *t.version);
    kas_status status = t.version ? open_maps(&t, &any) : kas_tune_no_memory();
    if (status == KAS_OK && any)
        status = time_maps(&t, cache_dir);
    if (status == KAS_OK) {
        put_lines(&t, lines);
        status = kas_buf_status(lines);
    }
    for (int v = 0; t.version && v < t.versions; v++) {
        free_ready(&t.version[v]);
        kas_program_free(t.version[v].program);
    }
    while (t.modules > 0)
        kas_module_free(t.module[--t.modules]);
    free(t.version);
    return status;
}
