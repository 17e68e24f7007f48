#include "host/cli/check/gpus.h"

#include <stdlib.h>

#include "cuda/nvrtc/resources.h"
#include "host/core/file/files.h"
#include "host/core/log.h"

static const char *const arch_names[KAS_CHECK_ARCHS] = {"sm_80", "sm_90"};

kas_status kas_check_gpus_open(kas_check_gpus *gpus)
{
    for (int i = 0; i < KAS_CHECK_ARCHS; i++) {
        const kas_status status = kas_compiler_open(arch_names[i], NULL, &gpus->arch[i]);
        if (status == KAS_UNSUPPORTED) {
            kas_warn("SKIPPED: --nvrtc: %s", kas_error());
            return KAS_OK;
        }
        KAS_TRY(status);
    }
    return KAS_OK;
}

void kas_check_gpus_close(kas_check_gpus *gpus)
{
    for (int i = 0; i < KAS_CHECK_ARCHS; i++)
        kas_compiler_close(gpus->arch[i]);
}

/* Counts what the kernels of a cubin need. Local memory is memory traffic that no source
 * asked for. */
static kas_status count_resources(kas_check_gpus *g, const char *name, const char *arch,
                                  const char *path)
{
    kas_buf image = {0};
    kas_resources *list = NULL;
    int count = 0;
    kas_status status = kas_file_read(path, (size_t)1 << 30, &image);
    if (status == KAS_OK)
        status = kas_cubin_resources(image.data, image.size, &list, &count);
    for (int i = 0; i < count; i++) {
        if (list[i].registers > g->registers)
            g->registers = list[i].registers;
        g->accesses += list[i].accesses;
        g->wide += list[i].wide;
        if (!list[i].local_bytes)
            continue;
        g->local++;
        kas_warn("%s: %s needs %d bytes of local memory on %s", name, list[i].name,
                 list[i].local_bytes, arch);
    }
    g->kernels += count;
    free(list);
    kas_buf_free(&image);
    return status;
}

static void count_accessed(kas_check_gpus *g, const kas_operation *op, int count)
{
    for (int i = 0; i < count; i++) {
        g->accessed.all += op[i].accessed.all;
        g->accessed.contiguous += op[i].accessed.contiguous;
        g->accessed.wide += op[i].accessed.wide;
    }
}

static kas_status count_programs(kas_check_gpus *g, const kas_kernel *kernel,
                                 const kas_check_shapes *s, const kas_agree_options *o)
{
    for (int i = 0; i < s->count; i++) {
        kas_program *program;
        const kas_program_options options = {.batch = o->batch,
                                             .training = true,
                                             .dtype = o->dtype,
                                             .gained = s->gain[i] != 1,
                                             .prefix = "k"};
        KAS_TRY(kas_program_build(kernel, &s->target[i], &s->binding[i], &options, &program));
        count_accessed(g, program->forward, program->forwards);
        count_accessed(g, program->backward, program->backwards);
        kas_program_free(program);
    }
    return KAS_OK;
}

kas_status kas_check_gpus_compile(kas_check_gpus *gpus, const kas_kernel *kernel, const char *name,
                                  const kas_check_shapes *s, const kas_agree_options *o)
{
    kas_buf text = {0};
    kas_agree_options options = *o;
    options.gain = s->gain;
    options.linear_policy = KAS_LINEAR_GPU;
    kas_status status = kas_agree_text(kernel, s->target, s->binding, s->count, &options, &text);
    for (int i = 0; i < KAS_CHECK_ARCHS && status == KAS_OK && gpus->arch[i]; i++) {
        char path[4096];
        const kas_status compiled = kas_compile(gpus->arch[i], kas_buf_text(&text), path, NULL);
        gpus->compiled += compiled == KAS_OK;
        if (compiled == KAS_OK) {
            status = count_resources(gpus, name, arch_names[i], path);
            continue;
        }
        gpus->refused++;
        kas_warn("%s: %s", name, kas_error());
    }
    kas_buf_free(&text);
    return status == KAS_OK && gpus->arch[0] ? count_programs(gpus, kernel, s, o) : status;
}
