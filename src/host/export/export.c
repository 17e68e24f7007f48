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

/* Returns the name of a file of kernel k, or of the only kernel (-1). */
static const char *kernel_file(int k, bool picture, char name[32])
{
    char number[16] = "";
    if (k >= 0)
        snprintf(number, sizeof number, "%d", k);
    snprintf(name, 32, "kernel%s.%s", number, picture ? "dot" : "py");
    return name;
}

/* Removes the kernel files of an earlier export, however many there are. */
static void remove_kernels(const char *dir)
{
    bool found = true;
    for (int k = -1; k <= 0 || found; k++) {
        char name[32], path[4096];
        found = false;
        for (int e = 0; e < 2; e++)
            found |=
                kas_export_path(dir, kernel_file(k, e, name), path) == KAS_OK && unlink(path) == 0;
    }
}

/* Writes kernel.py and kernel.dot, or kernel0.py, kernel0.dot, ... when layers have
 * different kernels. */
static kas_status write_kernels(const kas_export_options *o)
{
    const kas_replacement *r = o->net.replacement;
    remove_kernels(o->dir);
    for (int k = 0; k < r->kernels; k++) {
        const int number = r->kernel_of ? k : -1;
        kas_buf text = {0};
        char name[32];
        KAS_TRY(write_made(o->dir, kernel_file(number, false, name),
                           kas_export_kernel_py(&r->kernel[k], &text), &text));
        KAS_TRY(write_made(o->dir, kernel_file(number, true, name),
                           kas_kernel_write_dot(&r->kernel[k], o->title, NULL, &text), &text));
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

/* Marks a new folder before its first file, so that the same command may go on where this one is
 * killed. */
static kas_status mark(const char *dir)
{
    char path[4096];
    bool existed;
    KAS_TRY(kas_export_path(dir, "README.md", path));
    return kas_file_write_new(path, KAS_EXPORT_MARK "\n", sizeof KAS_EXPORT_MARK, &existed);
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
    KAS_TRY_GOTO(mark(o->dir), out);
    KAS_TRY_GOTO(kas_export_path(o->dir, "weights.safetensors", path), out);
    KAS_TRY_GOTO(kas_export_write_weights(net, o->title, path), out);
    KAS_TRY_GOTO(kas_export_path(o->dir, "check.safetensors", path), out);
    KAS_TRY_GOTO(kas_export_write_check(net, CHECK_IMAGES, images, logits, path), out);
out:
    kas_ref_net_free(net);
    free(images);
    return status;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static bool is_export(const char *readme)
{
    char head[sizeof KAS_EXPORT_MARK - 1];
    FILE *file = fopen(readme, "r");
    const bool is = file && fread(head, 1, sizeof head, file) == sizeof head &&
                    memcmp(head, KAS_EXPORT_MARK, sizeof head) == 0;
    if (file)
        fclose(file);
    return is;
}

static kas_status check_missing(const char *dir, const char *name)
{
    char path[4096];
    KAS_TRY(kas_export_path(dir, name, path));
    return kas_file_exists(path)
               ? kas_fail(
                     KAS_FAILURE,
                     "%s would be replaced, but %s is not the folder of an earlier export (its "
                     "README.md does not begin with \"" KAS_EXPORT_MARK
                     "\"); choose another folder",
                     path, dir)
               : KAS_OK;
}

/* Checks that all files can be written before any is changed: one of them may be the input, or a
 * file of the user. */
static kas_status check_places(const kas_export_options *o)
{
    static const char *const names[] = {
        "kernel.json", "weights.safetensors", "check.safetensors", "network.py", "kernel.cu",
        "kernel.c",    "prelude.h",           "README.md"};
    enum { NAMES = sizeof names / sizeof *names };
    char path[4096], name[32];
    for (size_t i = 0; i < NAMES; i++) {
        KAS_TRY(kas_export_path(o->dir, names[i], path));
        KAS_TRY(kas_file_check_writable(path));
    }
    if (is_export(path)) /* README.md is the last */
        return KAS_OK;
    for (size_t i = 0; i < NAMES; i++)
        KAS_TRY(check_missing(o->dir, names[i]));
    for (int k = -1; k < o->net.replacement->kernels; k++)
        for (int e = 0; e < 2; e++)
            KAS_TRY(check_missing(o->dir, kernel_file(k, e, name)));
    return KAS_OK;
}

kas_status kas_export(const kas_export_options *options)
{
    KAS_TRY(kas_mkdirs(options->dir));
    KAS_TRY(check_places(options));
    KAS_TRY(write_tensors(options)); /* first: weights that are refused change no earlier export */
    return write_texts(options);
}
