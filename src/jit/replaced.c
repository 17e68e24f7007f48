#include "jit/replaced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/share.h"

/* Same shape and sizes inside, so that one program serves both; stride is outside of it. */
static bool same_program(const kas_replacement *r, int a, int b)
{
    const kas_target *s = &r->target[a], *t = &r->target[b];
    return s->c == t->c && s->parts_in == t->parts_in && s->parts_out == t->parts_out &&
           s->h == t->h && s->w == t->w && s->kernel_h == t->kernel_h &&
           s->kernel_w == t->kernel_w &&
           memcmp(&r->solution->binding[a], &r->solution->binding[b], sizeof(kas_binding)) == 0;
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

kas_status kas_replaced_build(const kas_replacement *replacement, int batch, bool training,
                              kas_replaced *out)
{
    *out = (kas_replaced){0};
    if (!replacement)
        return KAS_OK;
    kas_status status = KAS_OK;
    int first[KAS_REPLACED_MAX]; /* target for which each program was built */
    out->targets = replacement->solution->targets;
    out->target = replacement->target;
    if (out->targets < 1 || out->targets > KAS_REPLACED_MAX)
        return kas_fail(KAS_BAD_INPUT, "%d targets; expected 1 to %d", out->targets,
                        KAS_REPLACED_MAX);
    KAS_TRY_GOTO(allocate(out), fail);
    for (int t = 0; t < out->targets; t++) {
        int p = 0;
        while (p < out->programs && !same_program(replacement, first[p], t))
            p++;
        out->program_of[t] = p;
        if (p < out->programs)
            continue;
        char prefix[16];
        snprintf(prefix, sizeof prefix, "k%d", p);
        kas_program_options options = {.batch = batch, .training = training, .prefix = prefix};
        status = kas_program_build(replacement->kernel, &replacement->target[t],
                                   &replacement->solution->binding[t], &options, &out->program[p]);
        if (status != KAS_OK) {
            kas_fail_context(status, "target %s", replacement->target[t].name);
            goto fail;
        }
        first[out->programs++] = t;
    }
    KAS_TRY_GOTO(kas_programs_share(out->program, out->programs), fail);
    return KAS_OK;
fail:
    kas_replaced_free(out);
    return status;
}

kas_status kas_replaced_text(const kas_replaced *r, kas_buf *text)
{
    for (int p = 0; p < r->programs; p++)
        kas_buf_puts(text, r->program[p]->source);
    return kas_buf_status(text);
}

kas_status kas_replaced_load(kas_replaced *r, kas_device *device, const char *cache_dir,
                             double *compile_seconds)
{
    *compile_seconds = 0;
    if (r->programs == 0)
        return KAS_OK;
    kas_compiler *compiler = NULL;
    kas_buf text = {0};
    char path[4096];
    kas_compile_stats stats = {0};
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_replaced_text(r, &text), out);
    KAS_TRY_GOTO(kas_compiler_open(kas_device_get_info(device)->arch, cache_dir, &compiler), out);
    KAS_TRY_GOTO(kas_compile(compiler, kas_buf_text(&text), path, &stats), out);
    KAS_TRY_GOTO(kas_module_load(device, path, &r->module), out);
    for (int p = 0; p < r->programs; p++)
        KAS_TRY_GOTO(kas_program_load(device, r->program[p], r->module, &r->loaded[p]), out);
    *compile_seconds = stats.cached ? 0 : stats.seconds;
out:
    kas_compiler_close(compiler);
    kas_buf_free(&text);
    return status;
}

void kas_replaced_free(kas_replaced *r)
{
    for (int p = 0; p < r->programs && r->loaded; p++)
        kas_loaded_free(r->loaded[p]);
    kas_module_free(r->module);
    for (int p = 0; p < r->programs && r->program; p++)
        kas_program_free(r->program[p]);
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
