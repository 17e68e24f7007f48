/* Imports IDX, the format of MNIST: two zero bytes, a type (8 = uint8), the number of
 * dimensions, their sizes as big-endian 32-bit words, then the numbers. Files are plain or gzip;
 * zlib reads both. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "host/data/import/import.h"

typedef struct idx {
    char path[PATH_MAX];
    gzFile in;
    int rank;
    uint32_t size[4];
} idx;

static kas_status damaged(const idx *f, const char *what)
{
    int code = Z_OK;
    const char *why = f->in ? gzerror(f->in, &code) : "";
    size_t length = strlen(f->path);
    if (strncmp(why, f->path, length) == 0 && why[length] == ':') /* the message names it already */
        why += length + 2;
    return kas_fail(KAS_BAD_INPUT, "%s: %s%s%s: the file is truncated or damaged", f->path, what,
                    code == Z_OK || code == Z_ERRNO ? "" : ": ", code == Z_OK ? "" : why);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Finds the only file of the folder whose name contains one of the two parts, such
 * as "train-images". */
static kas_status find(const char *folder, const char *part, const char *other, idx *f)
{
    DIR *list = opendir(folder);
    if (!list)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot list the folder: %s", folder,
                        kas_strerror(errno));
    kas_status status = KAS_OK;
    char name[NAME_MAX + 1] = "";
    for (struct dirent *e; status == KAS_OK && (e = readdir(list));) {
        if (!strstr(e->d_name, part) && !strstr(e->d_name, other))
            continue;
        if (name[0])
            status = kas_fail(KAS_BAD_INPUT,
                              "%s: expected one file with \"%s\" in its name, found %s and %s",
                              folder, part, name, e->d_name);
        snprintf(name, sizeof name, "%s", e->d_name);
    }
    closedir(list);
    if (status == KAS_OK && !name[0])
        status = kas_fail(KAS_BAD_INPUT,
                          "%s: a file with \"%s\" in its name is missing; expected IDX files of "
                          "images and labels, such as %s-idx3-ubyte.gz",
                          folder, part, part);
    if (status == KAS_OK &&
        snprintf(f->path, sizeof f->path, "%s/%s", folder, name) >= (int)sizeof f->path)
        status = kas_fail(KAS_BAD_INPUT, "%.80s...: the path is too long", folder);
    return status;
}

static kas_status open_idx(idx *f)
{
    uint8_t start[4], word[4];
    f->in = gzopen(f->path, "rb");
    if (!f->in)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot open: %s", f->path, kas_strerror(errno));
    gzbuffer(f->in, 1 << 17);
    if (gzread(f->in, start, 4) != 4)
        return damaged(f, "its header");
    if (start[0] || start[1] || start[2] != 8 || start[3] < 1 || start[3] > 4)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected an IDX file of uint8 with 1 to 4 dimensions (00 00 08 "
                        "0N), found %02x %02x %02x %02x",
                        f->path, start[0], start[1], start[2], start[3]);
    f->rank = start[3];
    for (int i = 0; i < f->rank; i++) {
        if (gzread(f->in, word, 4) != 4)
            return damaged(f, "its header");
        f->size[i] =
            (uint32_t)word[0] << 24 | (uint32_t)word[1] << 16 | (uint32_t)word[2] << 8 | word[3];
    }
    return KAS_OK;
}

static kas_status open_images(const char *folder, const char *part, const char *other, idx *f)
{
    KAS_TRY(find(folder, part, other, f));
    KAS_TRY(open_idx(f));
    uint32_t c = f->rank == 4 ? f->size[3] : 1;
    if (f->rank < 3 || f->size[0] < 1 || f->size[1] < 1 || f->size[1] > 4096 || f->size[2] < 1 ||
        f->size[2] > 4096 || c < 1 || c > 4)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected images, [N][H][W] or [N][H][W][C] with sides of 1 to 4096 "
                        "pixels and 1 to 4 channels, found %d dimensions: %" PRIu32 ", %" PRIu32
                        ", %" PRIu32 ", %" PRIu32,
                        f->path, f->rank, f->size[0], f->size[1], f->size[2], f->size[3]);
    return KAS_OK;
}

static kas_status open_labels(const char *folder, const char *part, const char *other,
                              const idx *images, idx *f)
{
    KAS_TRY(find(folder, part, other, f));
    KAS_TRY(open_idx(f));
    if (f->rank != 1 || f->size[0] != images->size[0])
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected [%" PRIu32 "], a label for each image of %s, found %d "
                        "dimension%s, the first %" PRIu32,
                        f->path, images->size[0], images->path, f->rank, f->rank == 1 ? "" : "s",
                        f->size[0]);
    return KAS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads exactly the bytes that the header promises, and checks that nothing follows. */
static kas_status read_all(const idx *f, uint8_t *out, uint64_t size)
{
    uint8_t more;
    for (uint64_t at = 0; at < size;) {
        unsigned n = size - at < 1 << 24 ? (unsigned)(size - at) : 1 << 24;
        if (gzread(f->in, out + at, n) != (int)n)
            return damaged(f, "it ends before its last value");
        at += n;
    }
    int n = gzread(f->in, &more, 1);
    return n < 0   ? damaged(f, "its end")
           : n > 0 ? damaged(f, "it continues after its last value")
                   : KAS_OK;
}

static kas_status read_set(const kas_dataset *d, const idx *images, const idx *labels,
                           kas_images *out)
{
    uint8_t *narrow = malloc(out->count);
    if (!narrow)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for its labels", labels->path);
    kas_status status = read_all(images, out->pixels, (uint64_t)out->count * d->h * d->w * d->c);
    if (status == KAS_OK)
        status = read_all(labels, narrow, out->count);
    for (uint32_t i = 0; i < out->count && status == KAS_OK; i++)
        out->labels[i] = narrow[i];
    free(narrow);
    return status;
}

/* Counts the classes: the labels are 0 .. K - 1, where K - 1 is the largest label of a
 * training image. */
static kas_status count_classes(const char *source, kas_dataset *d)
{
    uint32_t classes = 0;
    for (uint32_t i = 0; i < d->train.count; i++)
        if (d->train.labels[i] >= classes)
            classes = d->train.labels[i] + 1u;
    for (uint32_t i = 0; i < d->test.count; i++)
        if (d->test.labels[i] >= classes)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: test image %" PRIu32 ": expected a label in [0, %" PRIu32
                            "], those of the training images, found %u",
                            source, i, classes - 1, d->test.labels[i]);
    for (uint32_t k = classes; k < d->classes; k++)
        free(d->class_name[k]);
    d->classes = classes;
    return KAS_OK;
}

enum { TRAIN, TRAIN_LABELS, TEST, TEST_LABELS, FILES };

static kas_status build(const char *source, idx *f, kas_dataset **out)
{
    KAS_TRY(open_images(source, "train-images", "train_images", &f[TRAIN]));
    KAS_TRY(open_labels(source, "train-labels", "train_labels", &f[TRAIN], &f[TRAIN_LABELS]));
    KAS_TRY(open_images(source, "t10k-images", "test-images", &f[TEST]));
    KAS_TRY(open_labels(source, "t10k-labels", "test-labels", &f[TEST], &f[TEST_LABELS]));
    const uint32_t *size = f[TRAIN].size, *other = f[TEST].size;
    uint32_t c = f[TRAIN].rank == 4 ? size[3] : 1, other_c = f[TEST].rank == 4 ? other[3] : 1;
    if (size[1] != other[1] || size[2] != other[2] || c != other_c)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected images of %" PRIu32 "x%" PRIu32 "x%" PRIu32
                        " as in %s, found %" PRIu32 "x%" PRIu32 "x%" PRIu32,
                        f[TEST].path, size[1], size[2], c, f[TRAIN].path, other[1], other[2],
                        other_c);
    KAS_TRY(kas_dataset_create(size[1], size[2], c, 256, size[0], other[0], out));
    KAS_TRY(read_set(*out, &f[TRAIN], &f[TRAIN_LABELS], &(*out)->train));
    KAS_TRY(read_set(*out, &f[TEST], &f[TEST_LABELS], &(*out)->test));
    return count_classes(source, *out);
}

kas_status kas_import_idx(const char *source, kas_dataset **out)
{
    idx *f = calloc(FILES, sizeof *f);
    *out = NULL;
    if (!f)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory to import it", source);
    kas_status status = build(source, f, out);
    for (int i = 0; i < FILES; i++)
        if (f[i].in)
            gzclose_r(f[i].in);
    free(f);
    if (status != KAS_OK) {
        kas_dataset_close(*out);
        *out = NULL;
    }
    return status;
}
