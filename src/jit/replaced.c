#include "jit/replaced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/machine.h"
#include "jit/compile/share.h"
#include "jit/compile/units.h"

/* Same kernel, shape and sizes inside, so that one program serves both; stride is outside of it. */
static bool same_program(const kas_replacement *r, int a, int b)
{
    const kas_target *s = &r->target[a], *t = &r->target[b];
    return kas_replacement_kernel(r, a) == kas_replacement_kernel(r, b) && s->c == t->c &&
           s->parts_in == t->parts_in && s->parts_out == t->parts_out && s->h == t->h &&
           s->w == t->w && s->kernel_h == t->kernel_h && s->kernel_w == t->kernel_w &&
           memcmp(&r->solution.binding[a], &r->solution.binding[b], sizeof(kas_binding)) == 0;
}

/* What stands behind the targets that share program number p, each once; how many. */
static int epilogues_of(const kas_replaced *r, int p, kas_epilogue *epilogue)
{
    int epilogues = 0;
    for (int t = 0; t < r->targets; t++) {
        int known = 0;
        while (known < epilogues && !kas_epilogue_same(epilogue[known], r->target[t].epilogue))
            known++;
        if (r->program_of[t] == p && r->target[t].epilogue.norm && known == epilogues)
            epilogue[epilogues++] = r->target[t].epilogue;
    }
    return epilogues;
}

static kas_status allocate(kas_replaced *r)
{
    size_t n = (size_t)r->targets;
    r->program_of = calloc(n, sizeof *r->program_of);
    r->program = calloc(n, sizeof *r->program);
    r->loaded = calloc(n, sizeof *r->loaded);
    if (!r->program_of || !r->program || !r->loaded)
        return kas_fail(KAS_NO_MEMORY, "no memory for the programs of %d targets", r->targets);
    return KAS_OK;
}

/* Which targets share a program; first[p]: the first of them. */
static void number_programs(const kas_replacement *replacement, kas_replaced *out, int *first)
{
    for (int t = 0; t < out->targets; t++) {
        int p = 0;
        out->program_of[t] = -1;
        if (!kas_replacement_kernel(replacement, t))
            continue;
        while (p < out->programs && !same_program(replacement, first[p], t))
            p++;
        out->program_of[t] = p;
        if (p == out->programs)
            first[out->programs++] = t;
    }
}

static kas_status build_program(const kas_replacement *replacement, int target,
                                const kas_program_options *options, int p, kas_replaced *out)
{
    kas_epilogue epilogue[KAS_EPILOGUES_MAX];
    char prefix[16];
    snprintf(prefix, sizeof prefix, "k%d", p);
    const kas_program_options own = {.batch = options->batch,
                                     .training = options->training,
                                     .dtype = options->dtype,
                                     .tf32 = options->tf32,
                                     .linear_policy = options->linear_policy,
                                     .prefix = prefix,
                                     .epilogue = epilogue,
                                     .epilogues =
                                         options->training ? 0 : epilogues_of(out, p, epilogue)};
    const kas_status status =
        kas_program_build(kas_replacement_kernel(replacement, target), &replacement->target[target],
                          &replacement->solution.binding[target], &own, &out->program[p]);
    return status == KAS_OK
               ? KAS_OK
               : kas_fail_context(status, "target %s", replacement->target[target].name);
}

kas_status kas_replaced_build(const kas_replacement *replacement,
                              const kas_program_options *options, kas_replaced *out)
{
    *out = (kas_replaced){0};
    if (!replacement)
        return KAS_OK;
    kas_status status = KAS_OK;
    int first[KAS_REPLACED_MAX]; /* target for which each program is built */
    out->targets = replacement->solution.targets;
    out->target = replacement->target;
    if (out->targets < 1 || out->targets > KAS_REPLACED_MAX)
        return kas_fail(KAS_BAD_INPUT, "%d targets; expected 1 to %d", out->targets,
                        KAS_REPLACED_MAX);
    KAS_TRY_GOTO(allocate(out), fail);
    number_programs(replacement, out, first);
    for (int p = 0; p < out->programs; p++)
        KAS_TRY_GOTO(build_program(replacement, first[p], options, p, out), fail);
    KAS_TRY_GOTO(kas_programs_share(out->program, out->programs), fail);
    return KAS_OK;
fail:
    kas_replaced_free(out);
    return status;
}

kas_status kas_replaced_compile(kas_replaced *r, kas_compiler *compiler, int threads,
                                char (**path)[4096], int *count, kas_compile_stats *stats)
{
    kas_units units;
    char(*image)[4096] = NULL;
    const char **text = NULL;
    kas_status status;
    KAS_TRY_GOTO(kas_units_cut(r->program, r->programs, kas_compiler_arch(compiler), &units), out);
    image = calloc((size_t)units.count + 1, sizeof *image);
    text = calloc((size_t)units.count + 1, sizeof *text);
    if (!image || !text) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for %d compiled pieces", units.count);
        goto out;
    }
    for (int i = 0; i < units.count; i++)
        text[i] = kas_buf_text(&units.text[i]);
    KAS_TRY_GOTO(kas_compile_all(compiler, text, units.count, threads, image, stats), out);
    if (path) {
        *count = units.count;
        *path = image;
        image = NULL;
    }
out:
    free(image);
    free(text);
    kas_units_free(&units);
    return status;
}

int kas_compile_threads(const kas_device_info *info)
{
    return info->kind == KAS_DEVICE_CPU ? info->threads : kas_cores();
}

static kas_status load_modules(kas_replaced *r, kas_device *device, char (*path)[4096], int count)
{
    r->module = calloc((size_t)count + 1, sizeof *r->module);
    if (!r->module)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d modules", count);
    for (; r->modules < count; r->modules++)
        KAS_TRY(kas_module_load(device, path[r->modules], &r->module[r->modules]));
    for (int p = 0; p < r->programs; p++)
        KAS_TRY(kas_program_load(device, r->program[p], r->module, &r->loaded[p]));
    return KAS_OK;
}

kas_status kas_replaced_load(kas_replaced *r, kas_device *device, const char *cache_dir,
                             double *compile_seconds)
{
    const kas_device_info *info = kas_device_get_info(device);
    kas_compiler *compiler = NULL;
    char(*path)[4096] = NULL;
    int units = 0;
    kas_compile_stats stats = {0};
    kas_status status = KAS_OK;
    *compile_seconds = 0;
    if (r->programs == 0)
        return KAS_OK;
    KAS_TRY_GOTO(kas_compiler_open(info->arch, cache_dir, &compiler), out);
    KAS_TRY_GOTO(
        kas_replaced_compile(r, compiler, kas_compile_threads(info), &path, &units, &stats), out);
    KAS_TRY_GOTO(load_modules(r, device, path, units), out);
    *compile_seconds = kas_compile_waited(&stats);
out:
    free(path);
    kas_compiler_close(compiler);
    return status;
}

void kas_replaced_free(kas_replaced *r)
{
    for (int p = 0; p < r->programs && r->loaded; p++)
        kas_loaded_free(r->loaded[p]);
    for (int i = 0; i < r->modules; i++)
        kas_module_free(r->module[i]);
    for (int p = 0; p < r->programs && r->program; p++)
        kas_program_free(r->program[p]);
    free(r->module);
    free(r->loaded);
    free(r->program);
    free(r->program_of);
    *r = (kas_replaced){0};
}

int kas_replaced_program_of_layer(const kas_replaced *r, int layer)
{
    for (int t = 0; t < r->targets; t++)
        if (r->target[t].layer == layer)
            return r->program_of[t];
    return -1;
}
