#include "host/tune/versions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/core/log.h"
#include "host/tune/record.h"

kas_status kas_tune_build(const kas_tuner *t, const char *prefix, uint64_t seed, bool unwritten,
                          const kas_schedule_file *file, kas_program **out)
{
    const kas_program_options options = {.prefix = prefix,
                                         .unwritten = unwritten,
                                         .schedule_file = file ? file : t->plain,
                                         .schedule_seed = seed,
                                         .list_schedules = true};
    return kas_programs_build_again(t->programs, t->p, &options, out);
}

kas_operation *kas_tune_launch(const kas_program *p, int i)
{
    return i < p->forwards                  ? &p->forward[i]
           : i < p->forwards + p->backwards ? &p->backward[i - p->forwards]
                                            : &p->epilogue_kernel[i - p->forwards - p->backwards];
}

/* Lowers the program with the schedules of a text, which it frees. */
static kas_status build_text(const kas_tuner *t, kas_buf *text, const char *prefix, bool unwritten,
                             kas_program **out)
{
    kas_schedule_file *file = calloc(1, sizeof *file);
    kas_status status = file ? kas_buf_status(text) : kas_tune_no_memory();
    if (status == KAS_OK)
        status = kas_schedule_file_parse("schedules drawn", kas_buf_text(text), file);
    if (status == KAS_OK)
        status = kas_tune_build(t, prefix, 0, unwritten, file, out);
    if (file)
        kas_schedule_file_free(file);
    free(file);
    kas_buf_free(text);
    return status;
}

/* Lowers the tuner's program with version v of the launches that are searched. */
static kas_status build_version(const kas_tuner *t, int v, const char *prefix, kas_program **out)
{
    kas_buf text = {0};
    kas_buf_puts(&text, kas_buf_text(&t->plain->text));
    for (int i = 0; i < t->out->launches; i++) {
        const kas_tune_search *s = &t->search[i];
        if (s->open && s->trial[v].steps)
            kas_buf_printf(&text, "kernel %s\n%s", t->out->launch[i].name, s->trial[v].steps);
    }
    return build_text(t, &text, prefix, false, out);
}

kas_status kas_tune_build_launch(const kas_tuner *t, int i, const char *steps, kas_program **out)
{
    kas_buf text = {0};
    kas_buf_printf(&text, "%skernel %s\n%s", kas_buf_text(&t->plain->text), t->out->launch[i].name,
                   steps);
    return build_text(t, &text, "t", true, out);
}

/* ---- compiling -------------------------------------------------------------------------------- */

/* The text of a launch by one version of its schedule. */
typedef struct part {
    int v, i;
} part;

static void put_text(const kas_tuner *t, part one, kas_buf *out)
{
    const kas_program *p = t->version[one.v];
    const kas_operation *op = kas_tune_launch(p, one.i);
    kas_buf_add(out, p->source + op->text, op->text_size);
}

static kas_status load(kas_tuner *t, const char *path, const part *list, int count)
{
    kas_module *module;
    if (!KAS_GROW(t->module, t->modules))
        return kas_tune_no_memory();
    KAS_TRY(kas_module_load(t->device, path, &module));
    t->module[t->modules++] = module;
    for (int k = 0; k < count; k++)
        t->search[list[k].i].trial[list[k].v].module = module;
    return KAS_OK;
}

static void leave_out(kas_tuner *t, part one)
{
    kas_tune_search *s = &t->search[one.i];
    kas_warn("%s: %s schedule does not compile and is left out: %s", t->out->launch[one.i].name,
             one.v == 0 ? "the default" : "a", kas_error());
    free(s->trial[one.v].steps);
    s->trial[one.v].steps = NULL;
    s->open = s->open && one.v > 0;
}

/* Compiles texts in one, or leaves those out that do not compile. */
static kas_status compile_list(kas_tuner *t, kas_compiler *compiler, const part *list, int count)
{
    kas_buf text = {0};
    char path[4096];
    kas_tune_tell(t->options, "%d schedules are compiled", count);
    kas_buf_printf(&text, "#undef KAS_DTYPE\n#define KAS_DTYPE %d\n\n", t->version[0]->dtype);
    for (int k = 0; k < count; k++)
        put_text(t, list[k], &text);
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        status = kas_compile(compiler, kas_buf_text(&text), path, NULL);
    kas_buf_free(&text);
    if (status == KAS_OK)
        return load(t, path, list, count);
    if (status != KAS_FAILURE) /* not for the text */
        return status;
    if (count == 1) {
        leave_out(t, list[0]);
        return KAS_OK;
    }
    KAS_TRY(compile_list(t, compiler, list, count / 2));
    return compile_list(t, compiler, list + count / 2, count - count / 2);
}

/* Lists the texts of all versions; the caller frees *list. */
static kas_status list_texts(const kas_tuner *t, part **list, int *count)
{
    *count = 0;
    *list = malloc(sizeof **list * (size_t)(t->out->launches * KAS_TUNE_VERSIONS + 1));
    if (!*list)
        return kas_tune_no_memory();
    for (int v = 0; v < KAS_TUNE_VERSIONS; v++)
        for (int i = 0; i < t->out->launches; i++)
            if (t->search[i].open && t->search[i].trial[v].steps)
                (*list)[(*count)++] = (part){v, i};
    return KAS_OK;
}

kas_status kas_tune_compile(kas_tuner *t, const char *cache_dir)
{
    char prefix[16];
    part *list;
    int count;
    kas_compiler *compiler;
    for (int v = 1; v < KAS_TUNE_VERSIONS; v++) {
        snprintf(prefix, sizeof prefix, "t%d", v);
        KAS_TRY(build_version(t, v, prefix, &t->version[v]));
    }
    KAS_TRY(kas_compiler_open(kas_device_get_info(t->device)->arch, cache_dir, &compiler));
    kas_status status = list_texts(t, &list, &count);
    if (status == KAS_OK)
        status = compile_list(t, compiler, list, count);
    free(list);
    kas_compiler_close(compiler);
    return status;
}
