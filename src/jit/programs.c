#include "jit/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/core/machine.h"
#include "jit/compile/share.h"
#include "jit/compile/units.h"

/* Returns whether a program reads the same at both targets: the stride is outside of it, unless the
 * kernel takes it. */
static bool same_read(const kas_kernel *kernel, const kas_target *s, const kas_target *t)
{
    uint32_t h[2], w[2];
    kas_target_read(s, kernel->stride_inside, &h[0], &w[0]);
    kas_target_read(t, kernel->stride_inside, &h[1], &w[1]);
    return !kernel->stride_inside || (s->stride == t->stride && h[0] == h[1] && w[0] == w[1]);
}

bool kas_programs_are_one(const kas_replacement *r, int a, int b)
{
    const kas_target *s = &r->target[a], *t = &r->target[b];
    return kas_replacement_kernel(r, a) == kas_replacement_kernel(r, b) && s->c == t->c &&
           s->parts_in == t->parts_in && s->parts_out == t->parts_out && s->h == t->h &&
           s->w == t->w && s->kernel_h == t->kernel_h && s->kernel_w == t->kernel_w &&
           same_read(kas_replacement_kernel(r, a), s, t) &&
           memcmp(&r->solution.binding[a], &r->solution.binding[b], sizeof(kas_binding)) == 0;
}

int kas_programs_epilogues(const kas_replacement *r, int target,
                           kas_epilogue epilogue[KAS_EPILOGUES_MAX])
{
    int epilogues = 0;
    for (int t = 0; t < r->solution.targets; t++) {
        const kas_epilogue behind = r->target[t].epilogue;
        int known = 0;
        while (known < epilogues && !kas_epilogue_same(epilogue[known], behind))
            known++;
        if (behind.norm && known == epilogues && kas_programs_are_one(r, target, t))
            epilogue[epilogues++] = behind;
    }
    return epilogues;
}

static kas_status allocate(kas_programs *r)
{
    size_t n = (size_t)r->replacement->solution.targets;
    r->program_of = calloc(n, sizeof *r->program_of);
    r->program = calloc(n, sizeof *r->program);
    r->loaded = calloc(n, sizeof *r->loaded);
    if (!r->program_of || !r->program || !r->loaded)
        return kas_fail(KAS_NO_MEMORY, "no memory for the programs of %zu targets", n);
    return KAS_OK;
}

/* Finds the targets that share a program; first[p] is the first of them. */
static void number_programs(kas_programs *out, int *first)
{
    for (int t = 0; t < out->replacement->solution.targets; t++) {
        int p = 0;
        out->program_of[t] = -1;
        if (!kas_replacement_kernel(out->replacement, t))
            continue;
        while (p < out->count && !kas_programs_are_one(out->replacement, first[p], t))
            p++;
        out->program_of[t] = p;
        if (p == out->count)
            first[out->count++] = t;
    }
}

static kas_status build_program(const kas_programs *of, int target, kas_program_options options,
                                kas_program **out)
{
    const kas_replacement *r = of->replacement;
    kas_epilogue epilogue[KAS_EPILOGUES_MAX];
    options.gained = kas_replacement_scales(r); /* as it has parameters for them (params.h) */
    options.epilogue = epilogue;
    options.epilogues = options.training ? 0 : kas_programs_epilogues(r, target, epilogue);
    const kas_status status =
        kas_program_build(kas_replacement_kernel(r, target), &r->target[target],
                          &r->solution.binding[target], &options, out);
    return status == KAS_OK ? KAS_OK
                            : kas_fail_context(status, "target %s", r->target[target].name);
}

int kas_programs_target(const kas_programs *programs, int p)
{
    int t = 0;
    while (programs->program_of[t] != p)
        t++;
    return t;
}

kas_status kas_programs_build_again(const kas_programs *programs, int p,
                                    const kas_program_options *schedules, kas_program **out)
{
    kas_program_options options = programs->options;
    options.prefix = schedules->prefix;
    options.unwritten = schedules->unwritten;
    options.schedule_file = schedules->schedule_file;
    options.schedule_seed = schedules->schedule_seed;
    options.list_schedules = schedules->list_schedules;
    return build_program(programs, kas_programs_target(programs, p), options, out);
}

static int launches_of(const kas_programs *r)
{
    int launches = 0;
    for (int p = 0; p < r->count; p++) {
        const kas_program *program = r->program[p];
        for (int i = 0; i < program->forwards; i++)
            launches += program->forward[i].kind == KAS_OPERATION_LAUNCH;
        for (int i = 0; i < program->backwards; i++)
            launches += program->backward[i].kind == KAS_OPERATION_LAUNCH;
        launches += program->epilogues;
    }
    return launches;
}

static int passes_by_loops(const kas_programs *r)
{
    int passes = 0;
    for (int p = 0; p < r->count; p++)
        for (int i = 0; i < r->program[p]->maps; i++)
            passes += r->program[p]->map[i].loops;
    return passes;
}

kas_status kas_programs_build(const kas_replacement *replacement,
                              const kas_program_options *options, kas_programs *out)
{
    *out = (kas_programs){.replacement = replacement,
                          .options = {.batch = options->batch,
                                      .training = options->training,
                                      .dtype = options->dtype,
                                      .tf32 = options->tf32,
                                      .unwritten = options->unwritten,
                                      .linear_policy = options->linear_policy,
                                      .lanes = options->lanes,
                                      .piece_bytes = options->piece_bytes}};
    if (!replacement)
        return KAS_OK;
    kas_status status = KAS_OK;
    kas_program_options own = out->options;
    char prefix[16];
    int first[KAS_TARGETS_MAX], tuned = 0; /* first: target for which each program is built */
    const int targets = replacement->solution.targets;
    if (targets < 1 || targets > KAS_TARGETS_MAX)
        return kas_fail(KAS_BAD_INPUT, "%d targets; expected 1 to %d", targets, KAS_TARGETS_MAX);
    KAS_TRY_GOTO(allocate(out), fail);
    number_programs(out, first);
    for (int p = 0; p < out->count; p++) {
        snprintf(prefix, sizeof prefix, "k%d", p);
        own.prefix = prefix;
        own.tuned = options->tuned;
        KAS_TRY_GOTO(build_program(out, first[p], own, &out->program[p]), fail);
        tuned += out->program[p]->tuned;
    }
    if (options->tuned)
        kas_info(
            "%d of %d generated launches have schedules that were tuned, and %d passes of maps "
            "are loops in place of the library's (%s)",
            tuned, launches_of(out), passes_by_loops(out), options->tuned);
    if (!options->unwritten)
        KAS_TRY_GOTO(kas_programs_share(out->program, out->count), fail);
    kas_debug("%d programs lowered for %s, batch %d", out->count,
              options->training ? "training" : "inference", options->batch);
    return KAS_OK;
fail:
    kas_programs_free(out);
    return status;
}

kas_status kas_programs_compile(kas_programs *r, kas_compiler *compiler, int threads,
                                char (**path)[4096], int *count, kas_compile_stats *stats)
{
    kas_units units;
    char(*image)[4096] = NULL;
    int images;
    kas_status status;
    if (r->options.unwritten)
        return kas_fail(KAS_FAILURE, "programs without text cannot be compiled");
    KAS_TRY_GOTO(kas_units_cut(r->program, r->count, kas_compiler_arch(compiler), &units), out);
    KAS_TRY_GOTO(
        kas_units_compile(&units, r->program, r->count, compiler, threads, &image, &images, stats),
        out);
    if (path) {
        *count = images;
        *path = image;
        image = NULL;
    }
out:
    free(image);
    kas_units_free(&units);
    return status;
}

/* How many threads compile for an item on this device: on the CPU those that it computes with, for
 * a GPU all cores. */
static int compile_threads(const kas_device_info *info)
{
    return info->kind == KAS_DEVICE_CPU ? info->threads : kas_cores();
}

static kas_status load_modules(kas_programs *r, kas_device *device, char (*path)[4096], int count)
{
    r->module = calloc((size_t)count + 1, sizeof *r->module);
    if (!r->module)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d modules", count);
    for (; r->modules < count; r->modules++)
        KAS_TRY(kas_module_load(device, path[r->modules], &r->module[r->modules]));
    for (int p = 0; p < r->count; p++)
        KAS_TRY(kas_program_load(device, r->program[p], r->module, &r->loaded[p]));
    return KAS_OK;
}

kas_status kas_programs_load(kas_programs *r, kas_device *device, const char *cache_dir,
                             double *compile_seconds)
{
    const kas_device_info *info = kas_device_get_info(device);
    kas_compiler *compiler = NULL;
    char(*path)[4096] = NULL;
    int units = 0;
    kas_compile_stats stats = {0};
    kas_status status = KAS_OK;
    *compile_seconds = 0;
    if (r->count == 0 || r->loaded[r->count - 1])
        return KAS_OK;
    KAS_TRY_GOTO(kas_compiler_open(info->arch, cache_dir, &compiler), out);
    KAS_TRY_GOTO(kas_programs_compile(r, compiler, compile_threads(info), &path, &units, &stats),
                 out);
    KAS_TRY_GOTO(load_modules(r, device, path, units), out);
    *compile_seconds = kas_compile_waited(&stats);
out:
    free(path);
    kas_compiler_close(compiler);
    return status;
}

void kas_programs_free(kas_programs *r)
{
    for (int p = 0; p < r->count && r->loaded; p++)
        kas_loaded_free(r->loaded[p]);
    for (int i = 0; i < r->modules; i++)
        kas_module_free(r->module[i]);
    for (int p = 0; p < r->count && r->program; p++)
        kas_program_free(r->program[p]);
    free(r->module);
    free(r->loaded);
    free(r->program);
    free(r->program_of);
    *r = (kas_programs){0};
}

static int target_of(const kas_programs *r, int layer)
{
    return r ? kas_replacement_at(r->replacement, layer) : -1;
}

int kas_programs_of_layer(const kas_programs *r, int layer)
{
    const int t = target_of(r, layer);
    return t < 0 ? -1 : r->program_of[t];
}

static bool takes_gain(const kas_program *p)
{
    for (int i = 0; i < p->buffers; i++)
        if (p->buffer[i].role == KAS_ROLE_GAIN)
            return true;
    return false;
}

bool kas_programs_take_gains(const kas_programs *r)
{
    bool all = true;
    for (int p = 0; p < r->count; p++)
        all = all && takes_gain(r->program[p]);
    return all;
}

float kas_programs_gain(const kas_programs *r, int layer)
{
    const int t = target_of(r, layer);
    return t < 0 ? 1 : kas_replacement_gain(r->replacement, t);
}
