#include <stdlib.h>
#include <string.h>

#include "jit/compile/compile_backend.h"
#include "jit/compile/compile_known.h"
#include "jit/compile/units.h"

typedef struct work {
    const kas_units *units;
    kas_compiler *compiler;
    int *image;         /* [kernels] number of its image, or -1 */
    char (*path)[4096]; /* [images] */
    int images;
    kas_buf *text;       /* [units] the kernels that are not known; empty: all are */
    const char **wanted; /* [units] of these texts, those that are not empty */
    char (*made)[4096];  /* [units] their images */
} work;

static kas_status prepare(work *w, const kas_units *units, kas_compiler *compiler)
{
    const size_t kernels = (size_t)units->kernels, count = (size_t)units->count;
    *w = (work){.units = units,
                .compiler = compiler,
                .image = calloc(kernels + 1, sizeof *w->image),
                .path = calloc(kernels + 1, sizeof *w->path),
                .text = calloc(count + 1, sizeof *w->text),
                .wanted = calloc(count + 1, sizeof *w->wanted),
                .made = calloc(count + 1, sizeof *w->made)};
    return w->image && w->path && w->text && w->wanted && w->made
               ? KAS_OK
               : kas_fail(KAS_NO_MEMORY, "no memory for the images of %d kernels", units->kernels);
}

static void put_away(work *w)
{
    for (int i = 0; w->text && i < w->units->count; i++)
        kas_buf_free(&w->text[i]);
    free(w->image);
    free(w->path);
    free(w->text);
    free(w->wanted);
    free(w->made);
}

/* Returns the number of an image; -1 when it is not in the list. */
static int find_image(const work *w, const char *path)
{
    for (int i = 0; i < w->images; i++)
        if (strcmp(w->path[i], path) == 0)
            return i;
    return -1;
}

static int add_image(work *w, const char *path)
{
    memcpy(w->path[w->images], path, sizeof *w->path);
    return w->images++;
}

static kas_status text_of(const work *w, const kas_unit_kernel *kernel, kas_buf *out)
{
    kas_buf_clear(out);
    kas_buf_add(out, w->units->text[kernel->unit].data + kernel->at, kernel->size);
    return kas_buf_status(out);
}

static kas_status find_known(work *w)
{
    kas_buf text = {0};
    kas_status status = KAS_OK;
    char path[4096];
    for (int k = 0; k < w->units->kernels && status == KAS_OK; k++) {
        bool known = false;
        w->image[k] = -1;
        status = text_of(w, &w->units->kernel[k], &text);
        if (status == KAS_OK)
            status = kas_compile_find(w->compiler, kas_buf_text(&text), path, &known);
        if (status == KAS_OK && known)
            w->image[k] = find_image(w, path);
        if (status == KAS_OK && known && w->image[k] < 0 && kas_compile_has(path))
            w->image[k] = add_image(w, path);
    }
    kas_buf_free(&text);
    return status;
}

/* Writes the kernels that are not known, each unit's behind what stands in front of its first. */
static kas_status write_unknown(work *w)
{
    for (int k = 0; k < w->units->kernels; k++) {
        const kas_unit_kernel *kernel = &w->units->kernel[k];
        const kas_buf *from = &w->units->text[kernel->unit];
        kas_buf *to = &w->text[kernel->unit];
        if (w->image[k] >= 0)
            continue;
        if (to->size == 0) {
            int first = k;
            while (first > 0 && w->units->kernel[first - 1].unit == kernel->unit)
                first--;
            kas_buf_add(to, from->data, w->units->kernel[first].at);
        }
        kas_buf_add(to, from->data + kernel->at, kernel->size);
        KAS_TRY(kas_buf_status(to));
    }
    return KAS_OK;
}

static kas_status make_unknown(work *w, int threads, kas_compile_stats *stats)
{
    int count = 0;
    for (int i = 0; i < w->units->count; i++)
        if (w->text[i].size > 0)
            w->wanted[count++] = kas_buf_text(&w->text[i]);
    return kas_compile_all(w->compiler, w->wanted, count, threads, w->made, stats);
}

/* Gives each kernel that was compiled its image, and remembers it. (A compiler that stands aside
 * may have made none.) */
static kas_status take_in(work *w)
{
    kas_buf text = {0};
    kas_status status = KAS_OK;
    bool there = false;
    int made = -1, unit = -1, image = -1;
    for (int k = 0; k < w->units->kernels && status == KAS_OK; k++) {
        const kas_unit_kernel *kernel = &w->units->kernel[k];
        if (w->image[k] >= 0)
            continue;
        if (kernel->unit != unit) {
            image = add_image(w, w->made[++made]);
            there = !w->compiler->aside || kas_compile_has(w->made[made]);
            unit = kernel->unit;
        }
        w->image[k] = image;
        status = text_of(w, kernel, &text);
        if (status == KAS_OK && there)
            kas_compile_remember(w->compiler, kas_buf_text(&text), w->path[image]);
    }
    kas_buf_free(&text);
    return status;
}

static void set_images(const work *w, kas_operation *op, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; op[i].kind == KAS_OPERATION_LAUNCH && k < w->units->kernels; k++)
            if (strcmp(op[i].symbol, w->units->kernel[k].operation->symbol) == 0)
                op[i].unit = w->image[k];
}

kas_status kas_units_compile(const kas_units *units, kas_program *const *program, int programs,
                             kas_compiler *compiler, int threads, char (**path)[4096], int *count,
                             kas_compile_stats *stats)
{
    work w;
    kas_status status;
    *path = NULL;
    *count = 0;
    KAS_TRY_GOTO(prepare(&w, units, compiler), out);
    KAS_TRY_GOTO(find_known(&w), out);
    KAS_TRY_GOTO(write_unknown(&w), out);
    KAS_TRY_GOTO(make_unknown(&w, threads, stats), out);
    KAS_TRY_GOTO(take_in(&w), out);
    for (int p = 0; p < programs; p++) {
        set_images(&w, program[p]->forward, program[p]->forwards);
        set_images(&w, program[p]->backward, program[p]->backwards);
        set_images(&w, program[p]->epilogue_kernel, program[p]->epilogues);
    }
    *path = w.path;
    *count = w.images;
    w.path = NULL;
out:
    put_away(&w);
    return status;
}
