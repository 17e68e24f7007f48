#include "host/export/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/kernels/device_code.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/export/weights.h"
#include "host/space/describe.h"

enum { CHECK_IMAGES = 2 };

kas_status kas_export_path(const char *dir, const char *name, char out[4096])
{
    if (snprintf(out, 4096, "%s/%s", dir, name) >= 4096)
        return kas_fail(KAS_BAD_INPUT, "%s: the path is too long", dir);
    return KAS_OK;
}

static kas_status write_file(const char *dir, const char *name, const char *text)
{
    char path[4096];
    KAS_TRY(kas_export_path(dir, name, path));
    return kas_file_write_atomic(path, text, strlen(text));
}

/* Writes a file with the text that a function has made, and frees the text. */
static kas_status write_made(const char *dir, const char *name, kas_status status, kas_buf *text)
{
    if (status == KAS_OK)
        status = kas_buf_status(text);
    if (status == KAS_OK)
        status = write_file(dir, name, kas_buf_text(text));
    kas_buf_free(text);
    return status;
}

static const struct {
    const char *name, *about;
} sources[] = {
    {"kernel.cu", "/* For the GPU: nvcc -arch=sm_90 -cubin kernel.cu, or NVRTC. */\n"},
    {"kernel.c", /* built as libkernel.so: Python would import a kernel.so as the module kernel */
     "/* For the CPU: clang -O3 -march=native -ffp-contract=fast -fno-math-errno "
     "-fno-trapping-math\n * -Wno-pass-failed -shared -fPIC -o libkernel.so kernel.c -lm "
     "*/\n"}};

static kas_status write_source(const kas_export_options *o, const kas_buf *source)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        kas_buf text = {0};
        kas_buf_printf(&text, "%s#include \"prelude.h\"\n\n%s", sources[i].about,
                       kas_buf_text(source));
        KAS_TRY(write_made(o->dir, sources[i].name, KAS_OK, &text));
    }
    return write_file(o->dir, "prelude.h", kas_prelude_text);
}

/* Removes the source files of an earlier export, which belong to another kernel. */
static void remove_source(const kas_export_options *o)
{
    static const char *const names[] = {"kernel.cu", "kernel.c", "prelude.h"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (kas_export_path(o->dir, names[i], path) == KAS_OK)
            unlink(path);
}

/* Makes the source. A kernel that cannot be lowered is exported without it. */
static kas_status make_source(const kas_export_options *o, bool *made)
{
    kas_buf source = {0};
    kas_status status = kas_export_source(&o->net, o->tuned_on, &source);
    *made = status == KAS_OK;
    if (status == KAS_OK) {
        status = write_source(o, &source);
    } else if (status == KAS_UNSUPPORTED) {
        kas_warn("no source was written: %s", kas_error());
        remove_source(o);
        status = KAS_OK;
    }
    kas_buf_free(&source);
    return status;
}

/* Removes the kernel files of an earlier export, however many there are. */
static void remove_kernels(const char *dir)
{
    bool found = true;
    for (int k = -1; k <= 0 || found; k++) {
        static const char *const endings[] = {"py", "dot"};
        char number[16] = "", name[32], path[4096];
        found = false;
        if (k >= 0)
            snprintf(number, sizeof number, "%d", k);
        for (int e = 0; e < 2; e++) {
            snprintf(name, sizeof name, "kernel%s.%s", number, endings[e]);
            found |= kas_export_path(dir, name, path) == KAS_OK && unlink(path) == 0;
        }
    }
}

/* Writes kernel.py and kernel.dot, or kernel0.py, kernel0.dot, ... when layers have
 * different kernels. */
static kas_status write_kernels(const kas_export_options *o)
{
    const kas_replacement *r = o->net.replacement;
    remove_kernels(o->dir);
    for (int k = 0; k < r->kernels; k++) {
        kas_buf text = {0};
        char number[16] = "", name[32];
        if (r->kernel_of)
            snprintf(number, sizeof number, "%d", k);
        snprintf(name, sizeof name, "kernel%s.py", number);
        KAS_TRY(write_made(o->dir, name, kas_export_kernel_py(&r->kernel[k], &text), &text));
        snprintf(name, sizeof name, "kernel%s.dot", number);
        KAS_TRY(write_made(o->dir, name, kas_kernel_write_dot(&r->kernel[k], o->title, NULL, &text),
                           &text));
    }
    return KAS_OK;
}

static kas_status write_texts(const kas_export_options *o)
{
    kas_buf text = {0};
    bool source;
    KAS_TRY(write_file(o->dir, "kernel.json", o->kernel_text));
    KAS_TRY(write_kernels(o));
    KAS_TRY(write_made(o->dir, "network.py", kas_export_network_py(&o->net, &text), &text));
    KAS_TRY(make_source(o, &source));
    return write_made(o->dir, "README.md", kas_export_readme(o, source, &text), &text);
}

static kas_status write_tensors(const kas_export_options *o)
{
    const kas_export_net *n = &o->net;
    const kas_layer *in = &n->net->layer[0];
    kas_ref_net *net = NULL;
    kas_status status = KAS_OK;
    char path[4096];
    const size_t size = (size_t)CHECK_IMAGES * in->c * in->h * in->w;
    double *images = malloc(sizeof *images * (size + CHECK_IMAGES * (size_t)n->net->classes));
    if (!images)
        return kas_fail(KAS_NO_MEMORY, "export: no memory for %d images", CHECK_IMAGES);
    double *logits = images + size;
    kas_export_check_images(n->net, CHECK_IMAGES, images);
    KAS_TRY_GOTO(kas_ref_net_create_replaced(n->net, n->replacement, &net), out);
    KAS_TRY_GOTO(o->weights ? kas_export_read_weights(o->weights, net)
                            : kas_export_init_weights(net, o->seed, CHECK_IMAGES, images),
                 out);
    KAS_TRY_GOTO(kas_export_logits(net, CHECK_IMAGES, images, logits), out);
    KAS_TRY_GOTO(kas_export_path(o->dir, "weights.safetensors", path), out);
    KAS_TRY_GOTO(kas_export_write_weights(net, o->title, path), out);
    KAS_TRY_GOTO(kas_export_path(o->dir, "check.safetensors", path), out);
    KAS_TRY_GOTO(kas_export_write_check(net, CHECK_IMAGES, images, logits, path), out);
out:
    kas_ref_net_free(net);
    free(images);
    return status;
}

/* Checks that all files can be written before any is changed: one of them may be the input. */
static kas_status check_places(const char *dir)
{
    static const char *const names[] = {"kernel.json", "weights.safetensors", "check.safetensors"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        KAS_TRY(kas_export_path(dir, names[i], path));
        KAS_TRY(kas_file_check_writable(path));
    }
    return KAS_OK;
}

kas_status kas_export(const kas_export_options *options)
{
    KAS_TRY(kas_mkdirs(options->dir));
    KAS_TRY(check_places(options->dir));
    KAS_TRY(write_tensors(options)); /* first: weights that are refused change no earlier export */
    return write_texts(options);
}
