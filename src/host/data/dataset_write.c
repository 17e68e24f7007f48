#include "host/data/dataset_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/sha256.h"
#include "host/data/digest.h"
#include "host/data/hdf5/hdf5_writer.h"

/* BLOCK_BYTES is about the size of the images that are written at a time, CHUNK_BYTES the least
 * size of a chunk. */
enum { BLOCK_BYTES = 4 << 20, CHUNK_BYTES = 16 << 10 };

/* ---- sums ------------------------------------------------------------------------------------ */

void kas_pixel_sums_add(kas_pixel_sums *s, const uint8_t *pixels, uint64_t count, uint32_t c)
{
    for (uint64_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < c; k++) {
            uint64_t value = pixels[i * c + k];
            s->sum[k] += value;
            s->squares[k] += value * value;
        }
    s->pixels += count;
}

void kas_pixel_sums_finish(const kas_pixel_sums *s, uint32_t c, float mean[4], float std[4])
{
    for (uint32_t k = 0; k < c; k++) {
        double middle = (double)s->sum[k] / (double)s->pixels;
        double variance = (double)s->squares[k] / (double)s->pixels - middle * middle;
        mean[k] = (float)(middle / 255);
        std[k] = variance > 1e-9 ? (float)(sqrt(variance) / 255) : 1.0f;
    }
}

/* ---- common to both kinds of images ---------------------------------------------------------- */

/* The names of classes are one attribute, with 16 bytes for each beside the text. */
static bool has_many_classes(const kas_dataset *d)
{
    return d->classes > 4000;
}

static kas_status put_attributes(kas_hdf5_writer *w, const kas_dataset *d)
{
    static const int32_t layout = 1;
    const int32_t input[3] = {(int32_t)d->h, (int32_t)d->w, (int32_t)d->c};
    hid_t text = H5Tcopy(H5T_C_S1), digest = H5Tcopy(H5T_C_S1);
    const kas_hdf5_array list[] = {
        {"layout", 0, {0}, H5T_STD_I32LE, H5T_NATIVE_INT32, &layout},
        {"classes", 1, {d->classes}, text, text, d->class_name},
        {"mean", 1, {d->c}, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, d->mean},
        {"std", 1, {d->c}, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, d->std},
        {"digest", 0, {0}, digest, digest, d->digest},
        {"input", 1, {3}, H5T_STD_I32LE, H5T_NATIVE_INT32, input},
    };
    size_t count = sizeof list / sizeof *list - !d->encoded;
    kas_status status = KAS_OK;
    if (text < 0 || digest < 0 || H5Tset_size(text, H5T_VARIABLE) < 0 ||
        H5Tset_cset(text, H5T_CSET_UTF8) < 0 || H5Tset_size(digest, 64) < 0)
        status = kas_fail(KAS_NO_MEMORY, "%s: no memory for the types of its attributes", w->path);
    for (size_t i = 0; i < count && status == KAS_OK; i++)
        status = kas_hdf5_put_attribute(w, &list[i]);
    H5Tclose(text), H5Tclose(digest);
    return status;
}

static kas_status put_labels(kas_hdf5_writer *w, const kas_images *images, const char *name)
{
    const kas_hdf5_array labels = {
        name, 1, {images->count}, H5T_STD_U16LE, H5T_NATIVE_UINT16, images->labels};
    return kas_hdf5_put(w, &labels);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

typedef struct job {
    kas_hdf5_writer writer;
    const kas_dataset *dataset;
    kas_image_source source;
    void *context;
    bool compress;
    uint8_t *block;
    uint32_t block_images;
    kas_sha256 hash;
    kas_pixel_sums sums; /* of training images */
} job;

static kas_status put_blocks(job *j, const kas_images *images, const kas_hdf5_array *array,
                             hid_t set)
{
    const kas_dataset *d = j->dataset;
    uint64_t image = (uint64_t)d->h * d->w * d->c;
    for (uint32_t at = 0; at < images->count;) {
        uint32_t left = images->count - at, n = left < j->block_images ? left : j->block_images;
        KAS_TRY(j->source(j->context, images, at, n, j->block));
        kas_sha256_update(&j->hash, j->block, n * image);
        if (images == &d->train)
            kas_pixel_sums_add(&j->sums, j->block, n * image / d->c, d->c);
        KAS_TRY(kas_hdf5_put_piece(&j->writer, array, set, at, n, j->block));
        at += n;
    }
    kas_digest_labels(&j->hash, images);
    return KAS_OK;
}

/* Writes pixels. They are contiguous unless compressed: photographs hardly shrink, and contiguous
 * data is read fastest. */
static kas_status put_pixels(job *j, const kas_images *images, const char *name)
{
    const kas_dataset *d = j->dataset;
    const kas_hdf5_array array = {
        name, 4, {images->count, d->h, d->w, d->c}, H5T_STD_U8LE, H5T_NATIVE_UINT8, NULL};
    uint64_t image = (uint64_t)d->h * d->w * d->c;
    hsize_t chunk = j->compress ? (CHUNK_BYTES - 1) / image + 1 : 0;
    hid_t set;
    KAS_TRY(kas_hdf5_open_pieces(&j->writer, &array, chunk, j->compress, &set));
    return kas_hdf5_close_pieces(&j->writer, &array, set, put_blocks(j, images, &array, set));
}

static kas_status put_sets(job *j)
{
    const kas_dataset *d = j->dataset;
    KAS_TRY(put_pixels(j, &d->train, "train/images"));
    KAS_TRY(put_labels(&j->writer, &d->train, "train/labels"));
    KAS_TRY(put_pixels(j, &d->test, "test/images"));
    return put_labels(&j->writer, &d->test, "test/labels");
}

/* Writes a file of pixels. With `fill`, its mean, std and digest are computed from the pixels;
 * NULL: mean and std stay. */
static kas_status write_pixels(const char *path, const kas_dataset *d, kas_image_source source,
                               void *context, bool compress, kas_dataset *fill)
{
    uint64_t image = (uint64_t)d->h * d->w * d->c;
    job j = {.dataset = d,
             .source = source,
             .context = context,
             .compress = compress,
             .block_images = (uint32_t)((BLOCK_BYTES - 1) / image + 1)};
    kas_dataset with_digest = *d;
    kas_status status;
    kas_digest_begin(&j.hash, d);
    j.block = malloc(j.block_images * image);
    if (!j.block)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for a block of images", path);
    KAS_TRY_GOTO(kas_hdf5_begin(&j.writer, path, has_many_classes(d)), out);
    KAS_TRY_GOTO(put_sets(&j), out);
    kas_digest_end(&j.hash, with_digest.digest);
    if (fill) {
        kas_pixel_sums_finish(&j.sums, d->c, fill->mean, fill->std);
        memcpy(fill->digest, with_digest.digest, sizeof fill->digest);
    }
    KAS_TRY_GOTO(put_attributes(&j.writer, fill ? fill : &with_digest), out);
    status = kas_hdf5_finish(&j.writer);
out:
    kas_hdf5_abandon(&j.writer);
    free(j.block);
    return status;
}

kas_status kas_dataset_write_pixels(const char *path, kas_dataset *d, kas_image_source source,
                                    void *context, bool compress)
{
    return write_pixels(path, d, source, context, compress, d);
}

/* The image source of a data set in memory; `context` is the data set. */
static kas_status from_memory(void *context, const kas_images *images, uint32_t first,
                              uint32_t count, uint8_t *out)
{
    const kas_dataset *d = context;
    size_t image = (size_t)d->h * d->w * d->c;
    memcpy(out, images->pixels + first * image, count * image);
    return KAS_OK;
}

kas_status kas_dataset_write(const char *path, const kas_dataset *d)
{
    return write_pixels(path, d, from_memory, (void *)(uintptr_t)d, false, NULL);
}

/* ---- encoded images -------------------------------------------------------------------------- */

static kas_status put_bytes(kas_hdf5_writer *w, const kas_images *images, const char *name,
                            kas_image_source source, void *context)
{
    const uint64_t *offset = images->storage.offset;
    const kas_hdf5_array bytes = {name, 1, {offset[images->count]}, H5T_STD_U8LE, H5T_NATIVE_UINT8,
                                  NULL};
    uint64_t largest = 0;
    for (uint32_t i = 0; i < images->count; i++)
        if (offset[i + 1] - offset[i] > largest)
            largest = offset[i + 1] - offset[i];
    uint8_t *image = malloc(largest);
    hid_t set;
    kas_status status = image ? kas_hdf5_open_pieces(w, &bytes, 0, false, &set)
                              : kas_fail(KAS_NO_MEMORY, "%s: no memory for an image", w->path);
    if (status == KAS_OK) {
        for (uint32_t i = 0; i < images->count && status == KAS_OK; i++) {
            status = source(context, images, i, 1, image);
            if (status == KAS_OK)
                status =
                    kas_hdf5_put_piece(w, &bytes, set, offset[i], offset[i + 1] - offset[i], image);
        }
        status = kas_hdf5_close_pieces(w, &bytes, set, status);
    }
    free(image);
    return status;
}

/* The names of the objects of one set. */
typedef struct names {
    const char *bytes, *offsets, *crc, *labels;
} names;

static kas_status put_encoded(kas_hdf5_writer *w, const kas_images *images, const names *name,
                              kas_image_source source, void *context)
{
    const kas_storage *s = &images->storage;
    const kas_hdf5_array offsets = {
        name->offsets,     1,        {(hsize_t)images->count + 1}, H5T_STD_U64LE,
        H5T_NATIVE_UINT64, s->offset};
    const kas_hdf5_array crc = {name->crc,         1,     {images->count}, H5T_STD_U32LE,
                                H5T_NATIVE_UINT32, s->crc};
    KAS_TRY(put_bytes(w, images, name->bytes, source, context));
    KAS_TRY(kas_hdf5_put(w, &offsets));
    KAS_TRY(kas_hdf5_put(w, &crc));
    return put_labels(w, images, name->labels);
}

kas_status kas_dataset_write_encoded(const char *path, kas_dataset *d, kas_image_source source,
                                     void *context)
{
    static const names train = {"train/bytes", "train/offsets", "train/crc32", "train/labels"};
    static const names test = {"test/bytes", "test/offsets", "test/crc32", "test/labels"};
    kas_hdf5_writer w;
    kas_status status;
    KAS_TRY(kas_dataset_digest(d, d->digest));
    KAS_TRY_GOTO(kas_hdf5_begin(&w, path, has_many_classes(d)), out);
    KAS_TRY_GOTO(put_encoded(&w, &d->train, &train, source, context), out);
    KAS_TRY_GOTO(put_encoded(&w, &d->test, &test, source, context), out);
    KAS_TRY_GOTO(put_attributes(&w, d), out);
    status = kas_hdf5_finish(&w);
out:
    kas_hdf5_abandon(&w);
    return status;
}
