#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/machine.h"
#include "host/data/dataset_shell.h"
#include "host/data/hdf5/guard.h"
#include "host/data/hdf5/hdf5_read.h"

/* Reads a number from the environment; it is `otherwise` when the variable is not set. */
static kas_status setting(const char *name, uint64_t otherwise, uint64_t *out)
{
    const char *text = getenv(name);
    *out = otherwise;
    if (!text || !*text)
        return KAS_OK;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value < 1 || value > (UINT64_C(1) << 32))
        return kas_fail(KAS_BAD_INPUT,
                        "environment variable %s: expected an integer of 1 or more, found \"%s\"",
                        name, text);
    *out = value;
    return KAS_OK;
}

/* Checks a path as far as possible before HDF5 sees it. */
static kas_status check_path(const char *path, uint64_t *size)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot open: %s", path, kas_strerror(errno));
    if (!S_ISREG(info.st_mode))
        return kas_fail(KAS_BAD_INPUT, "%s: expected an HDF5 file, found %s", path,
                        S_ISDIR(info.st_mode) ? "a folder"
                                              : "something that is not a regular file");
    if (access(path, R_OK) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot read: %s", path, kas_strerror(errno));
    *size = (uint64_t)info.st_size;
    return KAS_OK;
}

/* The most seconds. Ten times as many still fit into the argument of alarm(). */
enum { MOST_SECONDS = INT32_MAX / 10 };

/* Lets the child read `path` into the memory file `fd`. */
static kas_status read_in_child(const char *path, kas_hdf5_images images, int fd)
{
    uint64_t size = 0, seconds, megabytes;
    KAS_TRY(check_path(path, &size));
    KAS_TRY(setting("KAS_DATA_LIMIT_MB", kas_memory() / 2 >> 20, &megabytes));
    KAS_TRY(setting("KAS_DATA_LIMIT_SECONDS", 60 + size / 20000000, &seconds));
    kas_hdf5_request request = {path, fd, megabytes << 20, images};
    seconds = seconds < MOST_SECONDS ? seconds : MOST_SECONDS;
    kas_guard_limits limits = {2 * request.limit + (UINT64_C(1) << 30), (unsigned)seconds,
                               10 * (unsigned)seconds};
    return kas_guard_run(path, limits, kas_hdf5_read, &request);
}

/* Checks again what the child has left, because the file may have corrupted the child's memory. */
static bool packet_is_sound(const uint8_t *base, uint64_t size, kas_packet_layout *layout)
{
    const kas_packet *p = (const kas_packet *)base;
    if (size < sizeof *p || !kas_packet_layout_of(p, layout) || layout->total != size)
        return false;
    for (uint32_t i = 0; i < p->c; i++)
        if (!isfinite(p->mean[i]) || !(isfinite(p->std[i]) && p->std[i] > 0))
            return false;
    const uint16_t *labels = (const uint16_t *)(base + layout->train_labels);
    for (uint64_t i = 0; i < (uint64_t)p->train_count + p->test_count; i++)
        if (labels[i] >= p->classes)
            return false;
    return true;
}

/* Takes over the places of one set's images, as the child found them. */
static kas_status adopt_storage(kas_dataset *d, kas_images *images, const char *name,
                                const kas_packet_storage *storage, const uint8_t *base,
                                const uint64_t at[3], uint64_t file_size)
{
    images->storage = (kas_storage){
        .path = d->path,
        .name = name,
        .fd = d->fd,
        .count = images->count,
        .total = storage->total,
        .extent_bytes = storage->extent_bytes,
        .extents = storage->extents,
        .extent = (const kas_extent *)(base + at[0]),
        .image_bytes = d->encoded ? 0 : (uint64_t)d->h * d->w * d->c,
        .offset = d->encoded ? (const uint64_t *)(base + at[1]) : NULL,
        .crc = d->encoded ? (const uint32_t *)(base + at[2]) : NULL,
    };
    return kas_storage_check(&images->storage, file_size);
}

static kas_status adopt_file(kas_dataset *d, const kas_packet *p, const kas_packet_layout *l,
                             const uint8_t *base)
{
    struct stat info;
    d->fd = open(d->path, O_RDONLY | O_CLOEXEC);
    if (d->fd < 0 || fstat(d->fd, &info) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot open: %s", d->path, kas_strerror(errno));
    uint64_t size = (uint64_t)info.st_size;
    const uint64_t train[] = {l->train_extents, l->train_offsets, l->train_crc};
    const uint64_t test[] = {l->test_extents, l->test_offsets, l->test_crc};
    KAS_TRY(adopt_storage(d, &d->train, d->encoded ? "train/bytes" : "train/images", &p->train,
                          base, train, size));
    return adopt_storage(d, &d->test, d->encoded ? "test/bytes" : "test/images", &p->test, base,
                         test, size);
}

static kas_status adopt_names(kas_dataset *d, const char *names)
{
    for (uint32_t i = 0; i < d->classes; i++)
        KAS_TRY(kas_dataset_name_class(d, i, names + (size_t)i * KAS_DATASET_NAME_SIZE));
    return KAS_OK;
}

/* Takes over the digest that the file states, which saves reading all pixels when they stay in
 * the file. */
static kas_status adopt_digest(kas_dataset *d, const char *stated)
{
    bool trusted = d->fd > 0 && !d->encoded && stated[0];
    if (trusted)
        snprintf(d->digest, sizeof d->digest, "%.64s", stated);
    else
        KAS_TRY(kas_dataset_digest(d, d->digest));
    if (stated[0] && strcmp(d->digest, stated) != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: attribute \"digest\" of /: expected %.12s..., that of the images, "
                        "found %.12s...: the file is damaged; if it was changed on purpose, remove "
                        "the attribute",
                        d->path, d->digest, stated);
    return KAS_OK;
}

static kas_status fill(kas_dataset *d, const kas_packet *p, const kas_packet_layout *l,
                       kas_hdf5_images images, uint8_t *base)
{
    char stated[65];
    KAS_TRY(adopt_names(d, (const char *)base + l->names));
    d->encoded = p->encoded;
    d->train = (kas_images){.count = p->train_count,
                            .pixels = p->streamed ? NULL : base + l->train_pixels,
                            .labels = (uint16_t *)(base + l->train_labels)};
    d->test = (kas_images){.count = p->test_count,
                           .pixels = p->streamed ? NULL : base + l->test_pixels,
                           .labels = (uint16_t *)(base + l->test_labels)};
    if (images == KAS_HDF5_OMIT)
        return KAS_OK;
    if (p->streamed)
        KAS_TRY(adopt_file(d, p, l, base));
    snprintf(stated, sizeof stated, "%.64s", p->digest);
    return adopt_digest(d, stated);
}

/* Makes a data set of the mapping, which it owns on success. */
static kas_status adopt(const char *path, kas_hdf5_images images, uint8_t *base, uint64_t size,
                        kas_dataset **out)
{
    kas_packet_layout layout;
    if (!packet_is_sound(base, size, &layout))
        return kas_fail(KAS_BAD_INPUT, "%s: reading gave inconsistent data: the file is damaged",
                        path);
    const kas_packet *p = (const kas_packet *)base;
    kas_dataset *d = kas_dataset_shell(p);
    if (!d)
        return KAS_NO_MEMORY;
    snprintf(d->path, sizeof d->path, "%s", path);
    d->mapping = base;
    d->mapping_size = size;
    kas_status status = fill(d, p, &layout, images, base);
    if (status != KAS_OK) {
        d->mapping = NULL; /* the caller unmaps it */
        d->train = d->test = (kas_images){0};
        kas_dataset_close(d);
        return status;
    }
    *out = d;
    return KAS_OK;
}

static kas_status open_dataset(const char *path, kas_hdf5_images images, kas_dataset **out)
{
    *out = NULL;
    if (strlen(path) >= sizeof(*out)->path)
        return kas_fail(KAS_BAD_INPUT, "%.80s...: the path is longer than %zu bytes", path,
                        sizeof(*out)->path - 1);
    int fd = memfd_create("kas-dataset", MFD_CLOEXEC);
    if (fd < 0)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory to read it into: %s", path,
                        kas_strerror(errno));
    kas_status status = read_in_child(path, images, fd);
    struct stat info;
    if (status == KAS_OK && fstat(fd, &info) != 0)
        status = kas_fail(KAS_FAILURE, "%s: cannot stat its memory: %s", path, kas_strerror(errno));
    if (status == KAS_OK) {
        size_t size = (size_t)info.st_size;
        void *base = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : NULL;
        if (!base || base == MAP_FAILED)
            status = kas_fail(KAS_NO_MEMORY, "%s: cannot map its memory: %s%s", path,
                              size ? kas_strerror(errno) : "it is empty",
                              images == KAS_HDF5_READ ? KAS_HDF5_LEAVE_IMAGES : "");
        else if ((status = adopt(path, images, base, size, out)) != KAS_OK)
            munmap(base, size);
    }
    close(fd);
    return status;
}

kas_status kas_dataset_open(const char *path, kas_dataset **out)
{
    return open_dataset(path, KAS_HDF5_READ, out);
}

kas_status kas_dataset_open_streamed(const char *path, kas_dataset **out)
{
    return open_dataset(path, KAS_HDF5_LEAVE, out);
}

kas_status kas_dataset_open_without_images(const char *path, kas_dataset **out)
{
    return open_dataset(path, KAS_HDF5_OMIT, out);
}
