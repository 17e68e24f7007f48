#include "host/data/hdf5/hdf5_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/data/hdf5/guard.h"
#include "host/data/hdf5/hdf5_child.h"

/* The objects of one set. `images` are pixels, or the bytes of encoded images. */
typedef struct set {
    const char *images, *labels, *offsets, *crc; /* the last two of encoded images only */
    uint32_t count;
    hid_t images_id, labels_id, offsets_id, crc_id;
    kas_hdf5_pieces pieces;
    uint64_t bytes; /* of all images */
} set;

/* ---- inspection ------------------------------------------------------------------------------ */

static bool is_uint8(hid_t type)
{
    return H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == 1 &&
           H5Tget_sign(type) == H5T_SGN_NONE;
}

static kas_status inspect_pixels(kas_hdf5_child *r, set *s, bool first)
{
    static const char wanted[] =
        "uint8 [N][H][W][C], N >= 1, sides of 1 to 65535 pixels, 1 to 4 channels";
    hid_t type, space;
    hsize_t d[H5S_MAX_RANK];
    int rank;
    KAS_TRY(kas_hdf5_open_set(r, s->images, wanted, &s->images_id, &type, &space, &rank, d));
    if (!is_uint8(type) || rank != 4 || d[0] < 1 || d[0] >= UINT32_MAX || d[1] < 1 ||
        d[1] > KAS_DATASET_MAX_SIDE || d[2] < 1 || d[2] > KAS_DATASET_MAX_SIDE || d[3] < 1 ||
        d[3] > 4)
        return kas_hdf5_expected(r, s->images, wanted, type, space);
    kas_packet *p = &r->packet;
    if (first)
        p->h = (uint32_t)d[1], p->w = (uint32_t)d[2], p->c = (uint32_t)d[3];
    if (d[1] != p->h || d[2] != p->w || d[3] != p->c)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s: expected images of %ux%ux%u (HxWxC) as in train/images, found "
                        "%" PRIuHSIZE "x%" PRIuHSIZE "x%" PRIuHSIZE,
                        r->request->path, s->images, p->h, p->w, p->c, d[1], d[2], d[3]);
    s->count = (uint32_t)d[0];
    s->bytes = d[0] * d[1] * d[2] * d[3];
    return kas_hdf5_look_for_pieces(r, s->images, s->images_id, rank, d, &s->pieces);
}

/* Inspects a list of integers that has one entry for each image, and `more`. */
static kas_status inspect_list(const kas_hdf5_child *r, const set *s, const char *name,
                               uint32_t more, hid_t *id)
{
    char wanted[96];
    hid_t type, space;
    hsize_t d[H5S_MAX_RANK];
    int rank;
    snprintf(wanted, sizeof wanted, "integers [%u], one for each of %s%s", s->count + more,
             s->images, more ? " and one" : "");
    KAS_TRY(kas_hdf5_open_set(r, name, wanted, id, &type, &space, &rank, d));
    if (H5Tget_class(type) != H5T_INTEGER || rank != 1 || d[0] != s->count + more)
        return kas_hdf5_expected(r, name, wanted, type, space);
    return KAS_OK;
}

/* Inspects encoded images, whose number is that of the checksums. */
static kas_status inspect_encoded(kas_hdf5_child *r, set *s)
{
    static const char bytes[] = "uint8 [B], the bytes of all images one after the other";
    static const char checksums[] = "integers [N], the CRC-32 of each image";
    hid_t type, space;
    hsize_t d[H5S_MAX_RANK];
    int rank;
    KAS_TRY(kas_hdf5_open_set(r, s->crc, checksums, &s->crc_id, &type, &space, &rank, d));
    if (H5Tget_class(type) != H5T_INTEGER || rank != 1 || d[0] < 1 || d[0] >= UINT32_MAX)
        return kas_hdf5_expected(r, s->crc, checksums, type, space);
    s->count = (uint32_t)d[0];
    KAS_TRY(inspect_list(r, s, s->offsets, 1, &s->offsets_id));
    KAS_TRY(kas_hdf5_open_set(r, s->images, bytes, &s->images_id, &type, &space, &rank, d));
    if (!is_uint8(type) || rank != 1 || d[0] < 1)
        return kas_hdf5_expected(r, s->images, bytes, type, space);
    s->bytes = d[0];
    return kas_hdf5_look_for_pieces(r, s->images, s->images_id, rank, d, &s->pieces);
}

static kas_status inspect_set(kas_hdf5_child *r, set *s, bool first)
{
    KAS_TRY(r->packet.encoded ? inspect_encoded(r, s) : inspect_pixels(r, s, first));
    return inspect_list(r, s, s->labels, 0, &s->labels_id);
}

/* Returns whether the file has encoded images. For a file without any images the answer is no, so
 * that the message describes pixels. */
static bool has_encoded_images(const kas_hdf5_child *r)
{
    return H5Lexists(r->file, "train", H5P_DEFAULT) > 0 &&
           H5Lexists(r->file, "train/images", H5P_DEFAULT) == 0 &&
           H5Lexists(r->file, "train/bytes", H5P_DEFAULT) > 0;
}

/* ---- room ------------------------------------------------------------------------------------ */

static kas_status cannot_stream(const kas_hdf5_child *r, const set *s, bool too_large)
{
    if (!too_large)
        return kas_fail(KAS_BAD_INPUT, "%s: %s cannot be streamed: %s (datasets/FORMAT.md)",
                        r->request->path, s->images, s->pieces.why_not);
    return kas_fail(KAS_BAD_INPUT,
                    "%s: its images are larger than the limit of %" PRIu64
                    " MiB (KAS_DATA_LIMIT_MB), and %s cannot be streamed: %s (datasets/FORMAT.md)",
                    r->request->path, r->request->limit >> 20, s->images, s->pieces.why_not);
}

/* Decides whether images stay in the file: they do when that is requested, when they are encoded,
 * and when they are too large for memory. */
static kas_status decide(kas_hdf5_child *r, const set *train, const set *test)
{
    kas_packet *p = &r->packet;
    p->train_count = train->count;
    p->test_count = test->count;
    p->streamed = p->encoded || r->request->images != KAS_HDF5_READ;
    const bool too_large = !p->streamed && (!kas_packet_layout_of(p, &r->layout) ||
                                            r->layout.total > r->request->limit);
    p->streamed |= too_large;
    if (!p->streamed || r->request->images == KAS_HDF5_OMIT)
        return KAS_OK;
    if (train->pieces.why_not[0])
        return cannot_stream(r, train, too_large);
    if (test->pieces.why_not[0])
        return cannot_stream(r, test, too_large);
    p->train = train->pieces.storage;
    p->test = test->pieces.storage;
    return KAS_OK;
}

static kas_status no_room(const kas_hdf5_child *r)
{
    const bool streamed = r->packet.streamed;
    if (errno == EFBIG) /* shared memory is a file too */
        return kas_fail(KAS_FAILURE, "%s: its %s take %.2f MiB: %s", r->request->path,
                        streamed ? "labels and pieces" : "images",
                        (double)r->layout.total / (1 << 20), kas_strerror(errno));
    return kas_fail(KAS_NO_MEMORY, "%s: no memory for the %.0f MiB of its %s: %s%s",
                    r->request->path, (double)r->layout.total / (1 << 20),
                    streamed ? "labels and pieces" : "images", kas_strerror(errno),
                    streamed ? "" : KAS_HDF5_LEAVE_IMAGES);
}

static kas_status make_room(kas_hdf5_child *r, uint8_t **base)
{
    const kas_hdf5_request *q = r->request;
    if (!kas_packet_layout_of(&r->packet, &r->layout) || r->layout.total > q->limit)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %u + %u images of %ux%ux%u need more memory than "
                        "the limit of %" PRIu64 " MiB; set KAS_DATA_LIMIT_MB to raise it",
                        q->path, r->packet.train_count, r->packet.test_count, r->packet.h,
                        r->packet.w, r->packet.c, q->limit >> 20);
    if (ftruncate(q->fd, (off_t)r->layout.total) != 0)
        return no_room(r);
    *base = mmap(NULL, r->layout.total, PROT_READ | PROT_WRITE, MAP_SHARED, q->fd, 0);
    if (*base == MAP_FAILED)
        return no_room(r);
    memcpy(*base, &r->packet, sizeof r->packet);
    memcpy(*base + r->layout.names, r->names, r->packet.classes * sizeof *r->names);
    return KAS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static kas_status read_labels(const kas_hdf5_child *r, const set *s, uint16_t *out)
{
    int64_t *wide = malloc(s->count * sizeof *wide);
    if (!wide)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for its labels", r->request->path);
    kas_guard_stage("reading %s", s->labels);
    /* The conversion clips unsigned values that do not fit, so they stay out of range. */
    if (H5Dread(s->labels_id, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, wide) < 0)
        return kas_hdf5_damaged(r, s->labels, "cannot be read");
    for (uint32_t i = 0; i < s->count; i++) {
        if (wide[i] < 0 || wide[i] >= (int64_t)r->packet.classes)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: %s: entry %u: expected a label in [0, %u] (attribute \"classes\" "
                            "has %u names), found %" PRId64,
                            r->request->path, s->labels, i, r->packet.classes - 1,
                            r->packet.classes, wide[i]);
        out[i] = (uint16_t)wide[i];
    }
    free(wide);
    return KAS_OK;
}

static kas_status read_pixels(const kas_hdf5_child *r, const set *s, uint8_t *pixels)
{
    kas_guard_stage("reading %s", s->images);
    if (H5Dread(s->images_id, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels) < 0)
        return kas_hdf5_damaged(r, s->images, "cannot be read");
    return KAS_OK;
}

static kas_status read_places(const kas_hdf5_child *r, const set *s, uint64_t *offset,
                              uint32_t *crc)
{
    kas_guard_stage("reading %s", s->offsets);
    if (H5Dread(s->offsets_id, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, offset) < 0)
        return kas_hdf5_damaged(r, s->offsets, "cannot be read");
    if (H5Dread(s->crc_id, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, crc) < 0)
        return kas_hdf5_damaged(r, s->crc, "cannot be read");
    for (uint32_t i = 0; i < s->count; i++)
        if (offset[i + 1] <= offset[i] || offset[i + 1] > s->bytes ||
            offset[i + 1] - offset[i] > KAS_ENCODED_LIMIT)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: %s: entries %u and %u: expected places in %s that grow by 1 byte "
                            "to 256 MiB and end at %" PRIu64 ", found %" PRIu64 " and %" PRIu64,
                            r->request->path, s->offsets, i, i + 1, s->images, s->bytes, offset[i],
                            offset[i + 1]);
    return KAS_OK;
}

typedef struct room {
    kas_extent *extent;
    uint64_t *offset;
    uint32_t *crc;
    uint16_t *labels;
    uint8_t *pixels;
} room;

static kas_status read_set(const kas_hdf5_child *r, const set *s, const room *to)
{
    KAS_TRY(read_labels(r, s, to->labels));
    if (r->request->images == KAS_HDF5_OMIT)
        return KAS_OK;
    if (!r->packet.streamed)
        return read_pixels(r, s, to->pixels);
    if (r->packet.encoded)
        KAS_TRY(read_places(r, s, to->offset, to->crc));
    kas_guard_stage("finding the pieces of %s", s->images);
    return kas_hdf5_locate(r, s->images, s->images_id, &s->pieces, to->extent);
}

static kas_status read_attributes(kas_hdf5_child *r)
{
    KAS_TRY(kas_hdf5_read_classes(r));
    KAS_TRY(kas_hdf5_read_mean_and_std(r));
    return kas_hdf5_read_digest(r);
}

kas_status kas_hdf5_read(void *request)
{
    kas_hdf5_child r = {.request = request};
    KAS_TRY(kas_hdf5_open(&r));
    kas_guard_stage("reading the file's structure");
    KAS_TRY(kas_hdf5_read_layout_number(&r));
    r.packet.encoded = has_encoded_images(&r);
    bool encoded = r.packet.encoded;
    set train = {.images = encoded ? "train/bytes" : "train/images",
                 .labels = "train/labels",
                 .offsets = "train/offsets",
                 .crc = "train/crc32"};
    set test = {.images = encoded ? "test/bytes" : "test/images",
                .labels = "test/labels",
                .offsets = "test/offsets",
                .crc = "test/crc32"};
    if (encoded)
        KAS_TRY(kas_hdf5_read_input(&r));
    KAS_TRY(inspect_set(&r, &train, true));
    KAS_TRY(inspect_set(&r, &test, false));
    KAS_TRY(read_attributes(&r));
    KAS_TRY(decide(&r, &train, &test));
    uint8_t *base;
    KAS_TRY(make_room(&r, &base));
    const kas_packet_layout *l = &r.layout;
    const room for_train = {(kas_extent *)(base + l->train_extents),
                            (uint64_t *)(base + l->train_offsets),
                            (uint32_t *)(base + l->train_crc), (uint16_t *)(base + l->train_labels),
                            base + l->train_pixels};
    const room for_test = {(kas_extent *)(base + l->test_extents),
                           (uint64_t *)(base + l->test_offsets), (uint32_t *)(base + l->test_crc),
                           (uint16_t *)(base + l->test_labels), base + l->test_pixels};
    KAS_TRY(read_set(&r, &train, &for_train));
    return read_set(&r, &test, &for_test);
}
