#include "host/data/import/import.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/data/dataset_shell.h"
#include "host/data/dataset_write.h"
#include "host/data/image/render.h"
#include "host/data/import/folder.h"

/* The facts about the files of one set, from decoding each of them once. */
typedef struct facts {
    uint64_t *size;
    uint32_t *crc;
    uint8_t *good;
    char **complaint; /* messages about damaged files; owned */
    kas_pixel_sums sums;
} facts;

typedef struct job {
    const char *source;
    const kas_folder_options *o;
    kas_folder folder;
    facts train, test;
    kas_dataset *dataset; /* the data set that is written, without its images */
} job;

/* ---- which images ---------------------------------------------------------------------------- */

/* Moves a share of each class to the test set if the folder has none. */
static kas_status split_off_test(job *m)
{
    kas_file_list *train = &m->folder.train;
    kas_dataset labels = {.classes = m->folder.classes,
                          .train = {.count = train->count, .labels = train->label}};
    uint32_t *index = NULL, kept, held_out;
    snprintf(labels.path, sizeof labels.path, "%s", m->source);
    kas_status status =
        kas_dataset_split(&labels, m->o->seed, m->o->test_share, &index, &kept, &held_out);
    if (status == KAS_BAD_INPUT)
        return kas_fail(status,
                        "%s: --test-share %g of %" PRIu32 " images in %" PRIu32 " classes leaves "
                        "the training set or the test set empty; give another share, or more "
                        "images",
                        m->source, m->o->test_share, train->count, labels.classes);
    KAS_TRY(status);
    uint8_t *move = calloc(train->count, 1);
    for (uint32_t i = 0; move && i < held_out; i++)
        move[index[kept + i]] = 1;
    status = move ? kas_file_list_move(train, move, &m->folder.test)
                  : kas_fail(KAS_NO_MEMORY, "%s: no memory for a split", m->source);
    free(move);
    free(index);
    return status;
}

static kas_status limit(const job *m, kas_file_list *list, const char *what, uint32_t count)
{
    uint8_t *keep = malloc(list->count ? list->count : 1);
    if (!keep)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for a list of files", m->source);
    kas_status status = kas_limit_labels(what, m->folder.class_name, m->folder.classes, list->label,
                                         list->count, count, keep);
    if (status == KAS_OK)
        kas_file_list_keep(list, keep);
    free(keep);
    return status;
}

static kas_status choose(job *m)
{
    KAS_TRY(kas_folder_scan(m->source, &m->folder));
    if (m->folder.others)
        kas_warn("%s: %" PRIu32 " files that are not .jpg, .jpeg or .png were left out", m->source,
                 m->folder.others);
    if (m->folder.classes < 2)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: all images are of one class (%s), and no network can be trained on "
                        "that; give a folder with a folder for each of two classes at least",
                        m->source, m->folder.class_name[0]);
    if (m->folder.test.count == 0)
        KAS_TRY(split_off_test(m));
    KAS_TRY(limit(m, &m->folder.train, "training images", m->o->limit_train));
    KAS_TRY(limit(m, &m->folder.test, "test images", m->o->limit_test));
    kas_file_list_shuffle(&m->folder.train, m->o->seed);
    return KAS_OK;
}

/* ---- looking at every one -------------------------------------------------------------------- */

typedef struct worker {
    kas_buf file;
    kas_renderer renderer;
    uint8_t *pixels; /* at the size for the network */
    kas_pixel_sums sums;
} worker;

static void worker_free(worker *w)
{
    kas_buf_free(&w->file);
    kas_renderer_free(&w->renderer);
    free(w->pixels);
}

/* Decodes the whole image, although its border is not shown, so that damage anywhere is found. */
static kas_status decode_whole(worker *w, const kas_folder_options *o)
{
    static const kas_view evaluation = {0};
    const uint8_t *bytes = (const uint8_t *)w->file.data;
    uint32_t width, height;
    bool mirror;
    KAS_TRY(kas_decode_size(bytes, w->file.size, &width, &height));
    const kas_box all = {0, 0, width, height};
    KAS_TRY(kas_decode(bytes, w->file.size, o->c, all, 8 * o->side / 7, 8 * o->side / 7,
                       &w->renderer.picture));
    const kas_picture *p = &w->renderer.picture;
    const kas_raster raster = {p->pixels, p->width, p->height, o->c};
    const kas_box middle =
        kas_view_box(&evaluation, 0, p->width, p->height, o->side, o->side, &mirror);
    return kas_resize(&raster, middle, o->side, o->side, false, &w->renderer.resize, w->pixels);
}

static kas_status examine(worker *w, const job *m, const char *path)
{
    kas_buf_clear(&w->file);
    KAS_TRY(kas_file_read(path, KAS_ENCODED_LIMIT, &w->file));
    kas_status status = decode_whole(w, m->o);
    if (status != KAS_OK)
        return kas_fail_context(status, "%s", path);
    kas_pixel_sums_add(&w->sums, w->pixels, (uint64_t)m->o->side * m->o->side, m->o->c);
    return KAS_OK;
}

static void note(facts *f, uint32_t i, kas_status status, const worker *w)
{
    f->good[i] = status == KAS_OK;
    f->size[i] = w->file.size;
    f->crc[i] = (uint32_t)crc32_z(0, (const unsigned char *)kas_buf_text(&w->file), w->file.size);
    if (status != KAS_OK)
        f->complaint[i] = strdup(kas_error());
}

static void add_sums(kas_pixel_sums *to, const kas_pixel_sums *from)
{
    to->pixels += from->pixels;
    for (int k = 0; k < 4; k++)
        to->sum[k] += from->sum[k], to->squares[k] += from->squares[k];
}

static kas_status examine_all(const job *m, const kas_file_list *list, facts *f)
{
    uint32_t count = list->count;
    f->size = calloc(count, sizeof *f->size);
    f->crc = calloc(count, sizeof *f->crc);
    f->good = calloc(count, 1);
    f->complaint = calloc(count, sizeof *f->complaint);
    bool failed = false;
    if (!f->size || !f->crc || !f->good || !f->complaint)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory to look at its images", m->source);
#pragma omp parallel reduction(|| : failed)
    {
        worker w = {.pixels = malloc((size_t)m->o->side * m->o->side * m->o->c)};
        failed |= !w.pixels;
#pragma omp for schedule(dynamic, 16)
        for (uint32_t i = 0; i < count; i++)
            if (!failed) {
                kas_status status = examine(&w, m, list->path[i]);
                note(f, i, status, &w);
            }
#pragma omp critical
        add_sums(&f->sums, &w.sums);
        worker_free(&w);
    }
    return failed ? kas_fail(KAS_NO_MEMORY, "%s: no memory to look at its images", m->source)
                  : KAS_OK;
}

/* Counts the damaged files of a set. `first` becomes the complaint about the first of them, if there
 * is none yet. */
static uint32_t count_damaged(const kas_file_list *list, const facts *f, const char **first)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        bad += !f->good[i];
        if (!f->good[i] && !*first)
            *first = f->complaint[i] ? f->complaint[i] : list->path[i];
    }
    return bad;
}

/* Fails if files are damaged, unless they may be left out and leave images in both sets. */
static kas_status check_damaged(const job *m)
{
    const kas_file_list *train = &m->folder.train, *test = &m->folder.test;
    const char *first = NULL;
    const uint32_t bad_train = count_damaged(train, &m->train, &first);
    const uint32_t bad_test = count_damaged(test, &m->test, &first);
    const char *empty = bad_train == train->count ? "training" : "test";
    if (bad_train == train->count || bad_test == test->count)
        return kas_fail(KAS_BAD_INPUT,
                        "%s (%" PRIu32 " of %" PRIu32 " files cannot be used, among them all of "
                        "the %s set; replace them)",
                        first, bad_train + bad_test, train->count + test->count, empty);
    if (bad_train + bad_test && !m->o->skip_damaged)
        return kas_fail(KAS_BAD_INPUT,
                        "%s (%" PRIu32 " of %" PRIu32 " files cannot be used; replace them, or "
                        "leave them out with --skip-damaged)",
                        first, bad_train + bad_test, train->count + test->count);
    return KAS_OK;
}

static void drop_damaged(kas_file_list *list, facts *f)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (!f->good[i])
            kas_warn("left out: %s", f->complaint[i] ? f->complaint[i] : list->path[i]);
        f->size[kept] = f->size[i];
        f->crc[kept] = f->crc[i];
        kept += f->good[i];
    }
    kas_file_list_keep(list, f->good);
}

/* ---- writing --------------------------------------------------------------------------------- */

static kas_status fill_set(const kas_file_list *list, const facts *f, kas_images *out)
{
    uint64_t *offset = malloc(((size_t)list->count + 1) * sizeof *offset);
    if (!offset)
        return kas_fail(KAS_NO_MEMORY, "no memory for the places of %" PRIu32 " images",
                        list->count);
    offset[0] = 0;
    for (uint32_t i = 0; i < list->count; i++)
        offset[i + 1] = offset[i] + f->size[i];
    *out = (kas_images){.count = list->count,
                        .labels = list->label,
                        .storage = {.count = list->count, .offset = offset, .crc = f->crc}};
    return KAS_OK;
}

static kas_status describe(job *m)
{
    const kas_folder_options *o = m->o;
    kas_packet p = {.h = o->side,
                    .w = o->side,
                    .c = o->c,
                    .classes = m->folder.classes,
                    .train_count = m->folder.train.count,
                    .test_count = m->folder.test.count};
    kas_pixel_sums_finish(&m->train.sums, o->c, p.mean, p.std);
    m->dataset = kas_dataset_shell(&p);
    if (!m->dataset)
        return KAS_NO_MEMORY;
    m->dataset->encoded = !o->pixels;
    for (uint32_t k = 0; k < p.classes; k++)
        KAS_TRY(kas_dataset_name_class(m->dataset, k, m->folder.class_name[k]));
    KAS_TRY(fill_set(&m->folder.train, &m->train, &m->dataset->train));
    return fill_set(&m->folder.test, &m->test, &m->dataset->test);
}

static const kas_file_list *list_of(const job *m, const kas_images *images)
{
    return images == &m->dataset->train ? &m->folder.train : &m->folder.test;
}

static kas_status give_bytes(void *context, const kas_images *images, uint32_t first,
                             uint32_t count, uint8_t *out)
{
    const job *m = context;
    const kas_storage *s = &images->storage;
    const char *path = list_of(m, images)->path[first];
    kas_buf file = {0};
    (void)count;
    KAS_TRY(kas_file_read(path, KAS_ENCODED_LIMIT, &file));
    const unsigned char *bytes = (const unsigned char *)kas_buf_text(&file);
    kas_status status = KAS_OK;
    if (file.size != s->offset[first + 1] - s->offset[first] ||
        crc32_z(0, bytes, file.size) != s->crc[first])
        status = kas_fail(KAS_BAD_INPUT, "%s: the file was changed during the import", path);
    else
        memcpy(out, bytes, file.size);
    kas_buf_free(&file);
    return status;
}

/* Gives pixels, decoded on all cores. Every file was decoded before, so a failure means a changed
 * file or lack of memory. */
static kas_status give_pixels(void *context, const kas_images *images, uint32_t first,
                              uint32_t count, uint8_t *out)
{
    const job *m = context;
    const kas_file_list *list = list_of(m, images);
    size_t image = (size_t)m->o->side * m->o->side * m->o->c;
    uint32_t failed = UINT32_MAX;
#pragma omp parallel reduction(min : failed)
    {
        worker w = {.pixels = malloc(image)};
#pragma omp for schedule(dynamic)
        for (uint32_t i = 0; i < count; i++) {
            if (!w.pixels || examine(&w, m, list->path[first + i]) != KAS_OK)
                failed = i < failed ? i : failed;
            else
                memcpy(out + i * image, w.pixels, image);
        }
        worker_free(&w);
    }
    if (failed == UINT32_MAX)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT, "%s: cannot be decoded any more, or memory is exhausted",
                    list->path[first + failed]);
}

static void facts_free(facts *f, uint32_t count)
{
    for (uint32_t i = 0; f->complaint && i < count; i++)
        free(f->complaint[i]);
    free(f->complaint), free(f->size), free(f->crc), free(f->good);
}

static void import_free(job *m, uint32_t train, uint32_t test)
{
    if (m->dataset) {
        free((void *)(uintptr_t)m->dataset->train.storage.offset);
        free((void *)(uintptr_t)m->dataset->test.storage.offset);
        m->dataset->train = m->dataset->test = (kas_images){0}; /* the lists own the labels */
        kas_dataset_close(m->dataset);
    }
    facts_free(&m->train, train);
    facts_free(&m->test, test);
    kas_folder_free(&m->folder);
}

kas_status kas_import_folder(const char *source, const char *path, const kas_folder_options *o)
{
    job m = {.source = source, .o = o};
    uint32_t train = 0, test = 0; /* files before damaged ones are left out */
    kas_status status;
    KAS_TRY_GOTO(kas_file_check_writable(path), out);
    KAS_TRY_GOTO(choose(&m), out);
    train = m.folder.train.count;
    test = m.folder.test.count;
    KAS_TRY_GOTO(examine_all(&m, &m.folder.train, &m.train), out);
    KAS_TRY_GOTO(examine_all(&m, &m.folder.test, &m.test), out);
    KAS_TRY_GOTO(check_damaged(&m), out);
    drop_damaged(&m.folder.train, &m.train);
    drop_damaged(&m.folder.test, &m.test);
    KAS_TRY_GOTO(describe(&m), out);
    status = o->pixels ? kas_dataset_write_pixels(path, m.dataset, give_pixels, &m, o->compress)
                       : kas_dataset_write_encoded(path, m.dataset, give_bytes, &m);
out:
    import_free(&m, train, test);
    return status;
}
