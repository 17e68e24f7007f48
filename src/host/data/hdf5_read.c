#include "host/data/hdf5_read.h"

#include <errno.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/data/dataset.h"
#include "host/data/guard.h"
#include "host/data/hdf5_type.h"
#include "host/data/packet.h"

/* The child ends right after the read, so handles and mappings are not closed on failure. */
typedef struct reader {
    const kas_hdf5_request *request;
    hid_t file;
    kas_packet packet;
    kas_packet_layout layout;
    char (*names)[KAS_DATASET_NAME_SIZE]; /* until the packet's memory exists */
} reader;

typedef struct set {
    const char *images, *labels;
    uint32_t count;
    hid_t images_id, labels_id;
} set;

static kas_status damaged(const reader *r, const char *object, const char *what)
{
    char reason[256];
    kas_hdf5_reason(reason, sizeof reason);
    return kas_fail(KAS_BAD_INPUT, "%s: %s: %s (HDF5: %s): the file is damaged or truncated",
                    r->request->path, object, what, reason);
}

static kas_status expected(const reader *r, const char *object, const char *wanted, hid_t type,
                           hid_t space)
{
    char found[256];
    kas_hdf5_describe(type, space, found, sizeof found);
    return kas_fail(KAS_BAD_INPUT, "%s: %s: expected %s, found %s", r->request->path, object,
                    wanted, found);
}

static kas_status open_file(reader *r)
{
    const char *path = r->request->path;
    /* Locks fail on many network file systems, and a reader needs none: files are never changed in
     * place. A user's own setting is kept. */
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    htri_t is_hdf5 = H5Fis_hdf5(path);
    if (is_hdf5 == 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: not an HDF5 file; `kas-gpu dataset import` or `make` writes one "
                        "(datasets/FORMAT.md)",
                        path);
    r->file = is_hdf5 < 0 ? -1 : H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    return r->file < 0 ? damaged(r, "the file", "cannot be opened") : KAS_OK;
}

/* Opens "train/images" step by step, so that the message names the part that is missing. */
static kas_status open_object(const reader *r, const char *name, const char *wanted, hid_t *out)
{
    char part[64];
    const char *slash = strchr(name, '/');
    size_t cut[2] = {slash ? (size_t)(slash - name) : strlen(name), strlen(name)};
    for (int i = 0; i < 2; i++) {
        snprintf(part, sizeof part, "%.*s", (int)cut[i], name);
        htri_t exists = H5Lexists(r->file, part, H5P_DEFAULT);
        if (exists < 0)
            return damaged(r, part, "cannot be looked up");
        if (exists == 0)
            return kas_fail(KAS_BAD_INPUT, "%s: %s is missing; expected %s", r->request->path, part,
                            i == 0 ? "a group with images and labels" : wanted);
    }
    hid_t object = H5Oopen(r->file, name, H5P_DEFAULT);
    if (object < 0)
        return damaged(r, name, "cannot be opened");
    if (H5Iget_type(object) != H5I_DATASET)
        return kas_fail(KAS_BAD_INPUT, "%s: %s: expected a data set (%s), found %s",
                        r->request->path, name, wanted,
                        H5Iget_type(object) == H5I_GROUP ? "a group" : "another kind of object");
    *out = object;
    return KAS_OK;
}

static kas_status inspect_images(reader *r, set *s, bool first)
{
    static const char wanted[] =
        "uint8 [N][H][W][C], N >= 1, sides of 1 to 65535 pixels, 1 to 4 channels";
    KAS_TRY(open_object(r, s->images, wanted, &s->images_id));
    hid_t type = H5Dget_type(s->images_id), space = H5Dget_space(s->images_id);
    if (type < 0 || space < 0)
        return damaged(r, s->images, "its type or shape cannot be read");
    hsize_t d[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, d, NULL);
    bool is_uint8 = H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == 1 &&
                    H5Tget_sign(type) == H5T_SGN_NONE;
    if (!is_uint8 || rank != 4 || d[0] < 1 || d[0] > UINT32_MAX || d[1] < 1 ||
        d[1] > KAS_DATASET_MAX_SIDE || d[2] < 1 || d[2] > KAS_DATASET_MAX_SIDE || d[3] < 1 ||
        d[3] > 4)
        return expected(r, s->images, wanted, type, space);
    kas_packet *p = &r->packet;
    if (first)
        p->h = (uint32_t)d[1], p->w = (uint32_t)d[2], p->c = (uint32_t)d[3];
    if (d[1] != p->h || d[2] != p->w || d[3] != p->c)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s: expected images of %ux%ux%u (HxWxC) as in train/images, found "
                        "%llux%llux%llu",
                        r->request->path, s->images, p->h, p->w, p->c, (unsigned long long)d[1],
                        (unsigned long long)d[2], (unsigned long long)d[3]);
    s->count = (uint32_t)d[0];
    return KAS_OK;
}

static kas_status inspect_labels(const reader *r, set *s)
{
    char wanted[96];
    snprintf(wanted, sizeof wanted, "integers [%u], one for each of %s", s->count, s->images);
    KAS_TRY(open_object(r, s->labels, wanted, &s->labels_id));
    hid_t type = H5Dget_type(s->labels_id), space = H5Dget_space(s->labels_id);
    if (type < 0 || space < 0)
        return damaged(r, s->labels, "its type or shape cannot be read");
    hsize_t d[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, d, NULL);
    if (H5Tget_class(type) != H5T_INTEGER || rank != 1 || d[0] != s->count)
        return expected(r, s->labels, wanted, type, space);
    return KAS_OK;
}

/* Opens an attribute of "/" with one dimension, whose length is written to *length. */
static kas_status open_attribute(const reader *r, const char *name, H5T_class_t kind,
                                 const char *wanted, hid_t *attribute, hid_t *type, hsize_t *length)
{
    char label[64];
    snprintf(label, sizeof label, "attribute \"%s\" of /", name);
    htri_t exists = H5Aexists(r->file, name);
    if (exists == 0)
        return kas_fail(KAS_BAD_INPUT, "%s: %s is missing; expected %s", r->request->path, label,
                        wanted);
    *attribute = exists < 0 ? -1 : H5Aopen(r->file, name, H5P_DEFAULT);
    if (*attribute < 0)
        return damaged(r, label, "cannot be opened");
    hid_t space = H5Aget_space(*attribute);
    *type = H5Aget_type(*attribute);
    if (space < 0 || *type < 0)
        return damaged(r, label, "its type or shape cannot be read");
    hsize_t d[H5S_MAX_RANK];
    if (H5Tget_class(*type) != kind || H5Sget_simple_extent_dims(space, d, NULL) != 1)
        return expected(r, label, wanted, *type, space);
    *length = d[0];
    return KAS_OK;
}

static kas_status read_floats(reader *r, const char *name, bool positive, float out[4])
{
    char wanted[128];
    snprintf(wanted, sizeof wanted,
             "%u %s numbers (float), one a channel, of pixels divided by 255", r->packet.c,
             positive ? "positive" : "finite");
    hid_t attribute, type;
    hsize_t length;
    KAS_TRY(open_attribute(r, name, H5T_FLOAT, wanted, &attribute, &type, &length));
    if (length != r->packet.c)
        return kas_fail(KAS_BAD_INPUT, "%s: attribute \"%s\" of /: expected %s, found %llu",
                        r->request->path, name, wanted, (unsigned long long)length);
    if (H5Aread(attribute, H5T_NATIVE_FLOAT, out) < 0)
        return damaged(r, name, "cannot be read");
    for (uint32_t i = 0; i < r->packet.c; i++)
        if (!isfinite(out[i]) || (positive && out[i] <= 0))
            return kas_fail(KAS_BAD_INPUT, "%s: attribute \"%s\" of /: expected %s, found %g",
                            r->request->path, name, wanted, (double)out[i]);
    return KAS_OK;
}

static kas_status take_name(reader *r, uint32_t i, const char *text, size_t length)
{
    if (!text || length == 0 || length >= KAS_DATASET_NAME_SIZE)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: attribute \"classes\" of /: entry %u: expected a name of 1 to %d "
                        "bytes, found %zu",
                        r->request->path, i, KAS_DATASET_NAME_SIZE - 1, text ? length : 0);
    memcpy(r->names[i], text, length);
    return KAS_OK;
}

static kas_status read_names(reader *r, hid_t attribute, hid_t type)
{
    uint32_t count = r->packet.classes;
    hid_t memory = H5Tcopy(H5T_C_S1);
    bool variable = H5Tis_variable_str(type) > 0;
    size_t width = variable ? sizeof(char *) : H5Tget_size(type) + 1;
    if (memory < 0 || H5Tset_cset(memory, H5Tget_cset(type)) < 0 ||
        H5Tset_size(memory, variable ? H5T_VARIABLE : width) < 0)
        return damaged(r, "attribute \"classes\" of /", "its type cannot be read");
    char *raw = width > 65536 ? NULL : calloc(count, width);
    if (!raw)
        return damaged(r, "attribute \"classes\" of /", "its strings are too long");
    if (H5Aread(attribute, memory, raw) < 0)
        return damaged(r, "attribute \"classes\" of /", "cannot be read");
    for (uint32_t i = 0; i < count; i++) {
        const char *text = variable ? ((char **)raw)[i] : raw + i * width;
        KAS_TRY(take_name(r, i, text, text ? strnlen(text, KAS_DATASET_NAME_SIZE) : 0));
    }
    return KAS_OK;
}

static kas_status read_classes(reader *r)
{
    static const char wanted[] = "1 to 65535 strings, the names of the classes";
    hid_t attribute, type;
    hsize_t length;
    KAS_TRY(open_attribute(r, "classes", H5T_STRING, wanted, &attribute, &type, &length));
    if (length < 1 || length > KAS_DATASET_MAX_CLASSES)
        return kas_fail(KAS_BAD_INPUT, "%s: attribute \"classes\" of /: expected %s, found %llu",
                        r->request->path, wanted, (unsigned long long)length);
    r->packet.classes = (uint32_t)length;
    r->names = calloc(length, sizeof *r->names);
    if (!r->names)
        return kas_fail(KAS_NO_MEMORY, "out of memory for %llu class names",
                        (unsigned long long)length);
    return read_names(r, attribute, type);
}

/* Later layouts may add objects; one with another number means that old readers would misread. */
static kas_status check_layout_number(const reader *r)
{
    htri_t exists = H5Aexists(r->file, "layout");
    if (exists == 0)
        return KAS_OK;
    hid_t attribute = exists < 0 ? -1 : H5Aopen(r->file, "layout", H5P_DEFAULT);
    hid_t space = attribute < 0 ? -1 : H5Aget_space(attribute);
    long long value = 0;
    if (space < 0 || H5Sget_simple_extent_npoints(space) != 1 ||
        H5Aread(attribute, H5T_NATIVE_LLONG, &value) < 0)
        return damaged(r, "attribute \"layout\" of /", "expected one integer");
    if (value != 1)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: attribute \"layout\" of /: expected 1, found %lld: the file was "
                        "written by a newer kas-gpu",
                        r->request->path, value);
    return KAS_OK;
}

static kas_status make_room(reader *r, uint8_t **base)
{
    const kas_hdf5_request *q = r->request;
    if (!kas_packet_layout_of(&r->packet, &r->layout) || r->layout.total > q->limit)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %u + %u images of %ux%ux%u are larger than the limit of %llu MiB; set "
                        "KAS_DATA_LIMIT_MB to raise it",
                        q->path, r->packet.train_count, r->packet.test_count, r->packet.h,
                        r->packet.w, r->packet.c, (unsigned long long)(q->limit >> 20));
    if (ftruncate(q->fd, (off_t)r->layout.total) != 0)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for its images: %s", q->path,
                        strerror(errno));
    *base = mmap(NULL, r->layout.total, PROT_READ | PROT_WRITE, MAP_SHARED, q->fd, 0);
    if (*base == MAP_FAILED)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for its images: %s", q->path,
                        strerror(errno));
    memcpy(*base, &r->packet, sizeof r->packet);
    memcpy(*base + r->layout.names, r->names, r->packet.classes * sizeof *r->names);
    return KAS_OK;
}

static kas_status read_labels(const reader *r, const set *s, uint16_t *out)
{
    int64_t *wide = malloc(s->count * sizeof *wide);
    if (!wide)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for its labels", r->request->path);
    kas_guard_stage("reading %s", s->labels);
    /* The conversion clips unsigned values that do not fit, and so they stay out of range. */
    if (H5Dread(s->labels_id, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, wide) < 0)
        return damaged(r, s->labels, "cannot be read");
    for (uint32_t i = 0; i < s->count; i++) {
        if (wide[i] < 0 || wide[i] >= (int64_t)r->packet.classes)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: %s: entry %u: expected a label in [0, %u] (attribute \"classes\" "
                            "has %u names), found %lld",
                            r->request->path, s->labels, i, r->packet.classes - 1,
                            r->packet.classes, (long long)wide[i]);
        out[i] = (uint16_t)wide[i];
    }
    free(wide);
    return KAS_OK;
}

static kas_status read_set(const reader *r, const set *s, uint8_t *pixels, uint16_t *labels)
{
    KAS_TRY(read_labels(r, s, labels));
    kas_guard_stage("reading %s", s->images);
    if (H5Dread(s->images_id, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels) < 0)
        return damaged(r, s->images, "cannot be read");
    return KAS_OK;
}

kas_status kas_hdf5_read(void *request)
{
    reader r = {.request = request};
    set train = {.images = "train/images", .labels = "train/labels"};
    set test = {.images = "test/images", .labels = "test/labels"};
    KAS_TRY(open_file(&r));
    kas_guard_stage("reading the file's structure");
    KAS_TRY(check_layout_number(&r));
    KAS_TRY(inspect_images(&r, &train, true));
    KAS_TRY(inspect_labels(&r, &train));
    KAS_TRY(inspect_images(&r, &test, false));
    KAS_TRY(inspect_labels(&r, &test));
    KAS_TRY(read_classes(&r));
    KAS_TRY(read_floats(&r, "mean", false, r.packet.mean));
    KAS_TRY(read_floats(&r, "std", true, r.packet.std));
    r.packet.train_count = train.count;
    r.packet.test_count = test.count;
    uint8_t *base;
    KAS_TRY(make_room(&r, &base));
    KAS_TRY(read_set(&r, &train, base + r.layout.train_pixels,
                     (uint16_t *)(base + r.layout.train_labels)));
    return read_set(&r, &test, base + r.layout.test_pixels,
                    (uint16_t *)(base + r.layout.test_labels));
}
