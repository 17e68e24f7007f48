#include "host/data/dataset.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/sha256.h"
#include "host/data/guard.h"
#include "host/data/hdf5_read.h"
#include "host/data/packet.h"

void kas_dataset_close(kas_dataset *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; d->class_name && i < d->classes; i++)
        free(d->class_name[i]);
    free(d->class_name);
    if (d->mapping) {
        munmap(d->mapping, d->mapping_size);
    } else {
        free(d->train.pixels), free(d->train.labels);
        free(d->test.pixels), free(d->test.labels);
    }
    free(d);
}

kas_status kas_dataset_name_class(kas_dataset *d, uint32_t index, const char *name)
{
    char *copy = strndup(name, KAS_DATASET_NAME_SIZE - 1);
    if (!copy)
        return kas_fail(KAS_NO_MEMORY, "out of memory for class names");
    free(d->class_name[index]);
    d->class_name[index] = copy;
    return KAS_OK;
}

static kas_status create_images(kas_images *images, uint32_t count, uint64_t image)
{
    images->count = count;
    images->pixels = calloc(count, image);
    images->labels = calloc(count, sizeof *images->labels);
    return images->pixels && images->labels
               ? KAS_OK
               : kas_fail(KAS_NO_MEMORY, "out of memory for %u images of %llu bytes", count,
                          (unsigned long long)image);
}

static kas_dataset *create_shell(const kas_packet *p)
{
    kas_dataset *d = calloc(1, sizeof *d);
    if (!d || !(d->class_name = calloc(p->classes, sizeof *d->class_name))) {
        free(d);
        kas_fail(KAS_NO_MEMORY, "out of memory for %u class names", p->classes);
        return NULL;
    }
    d->h = p->h, d->w = p->w, d->c = p->c, d->classes = p->classes;
    memcpy(d->mean, p->mean, sizeof d->mean);
    memcpy(d->std, p->std, sizeof d->std);
    return d;
}

kas_status kas_dataset_create(uint32_t h, uint32_t w, uint32_t c, uint32_t classes,
                              uint32_t train_count, uint32_t test_count, kas_dataset **out)
{
    kas_packet p = {h, w, c, classes, train_count, test_count, {0}, {1, 1, 1, 1}};
    kas_packet_layout layout;
    *out = NULL;
    if (!kas_packet_layout_of(&p, &layout))
        return kas_fail(KAS_BAD_INPUT,
                        "a data set of %u + %u images of %ux%ux%u in %u classes is out of range",
                        train_count, test_count, h, w, c, classes);
    kas_dataset *d = create_shell(&p);
    if (!d)
        return KAS_NO_MEMORY;
    kas_status status;
    KAS_TRY_GOTO(create_images(&d->train, train_count, (uint64_t)h * w * c), fail);
    KAS_TRY_GOTO(create_images(&d->test, test_count, (uint64_t)h * w * c), fail);
    for (uint32_t i = 0; i < classes; i++) {
        char name[32];
        snprintf(name, sizeof name, "class %u", i);
        KAS_TRY_GOTO(kas_dataset_name_class(d, i, name), fail);
    }
    *out = d;
    return KAS_OK;
fail:
    kas_dataset_close(d);
    return status;
}

static void hash_words(kas_sha256 *hash, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4] = {(uint8_t)words[i], (uint8_t)(words[i] >> 8), (uint8_t)(words[i] >> 16),
                            (uint8_t)(words[i] >> 24)};
        kas_sha256_update(hash, bytes, sizeof bytes);
    }
}

static void hash_images(kas_sha256 *hash, const kas_images *images, uint64_t image)
{
    kas_sha256_update(hash, images->pixels, images->count * image);
    for (uint32_t i = 0; i < images->count; i++) {
        uint8_t bytes[2] = {(uint8_t)images->labels[i], (uint8_t)(images->labels[i] >> 8)};
        kas_sha256_update(hash, bytes, sizeof bytes);
    }
}

void kas_dataset_digest(const kas_dataset *d, char hex[65])
{
    kas_sha256 hash;
    uint8_t digest[32];
    uint32_t words[] = {d->h, d->w, d->c, d->classes, d->train.count, d->test.count};
    kas_sha256_init(&hash);
    hash_words(&hash, words, sizeof words / sizeof *words);
    hash_images(&hash, &d->train, (uint64_t)d->h * d->w * d->c);
    hash_images(&hash, &d->test, (uint64_t)d->h * d->w * d->c);
    kas_sha256_final(&hash, digest);
    kas_sha256_to_hex(digest, hex);
}

/* Sums of integers are exact, so the result depends neither on order nor on the machine. */
void kas_dataset_finish(kas_dataset *d)
{
    uint64_t pixels = (uint64_t)d->train.count * d->h * d->w;
    for (uint32_t c = 0; c < d->c; c++) {
        uint64_t sum = 0, squares = 0;
        for (uint64_t i = 0; i < pixels; i++) {
            uint64_t value = d->train.pixels[i * d->c + c];
            sum += value;
            squares += value * value;
        }
        double mean = (double)sum / (double)pixels;
        double variance = (double)squares / (double)pixels - mean * mean;
        d->mean[c] = (float)(mean / 255);
        d->std[c] = variance > 1e-9 ? (float)(sqrt(variance) / 255) : 1.0f;
    }
    kas_dataset_digest(d, d->digest);
}

/* A number from the environment, or `otherwise`. */
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

/* What can be said about a path before HDF5 sees it. */
static kas_status check_path(const char *path, uint64_t *size)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot open: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return kas_fail(KAS_BAD_INPUT, "%s: expected an HDF5 file, found %s", path,
                        S_ISDIR(info.st_mode) ? "a folder" : "something that is no regular file");
    if (access(path, R_OK) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot read: %s", path, strerror(errno));
    *size = (uint64_t)info.st_size;
    return KAS_OK;
}

/* Lets the child read `path` into the memory file `fd`. */
static kas_status read_in_child(const char *path, int fd)
{
    uint64_t size = 0, seconds, megabytes;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    KAS_TRY(check_path(path, &size));
    KAS_TRY(setting("KAS_DATA_LIMIT_MB", memory / 2 >> 20, &megabytes));
    KAS_TRY(setting("KAS_DATA_LIMIT_SECONDS", 60 + size / 20000000, &seconds));
    kas_hdf5_request request = {path, fd, megabytes << 20};
    kas_guard_limits limits = {2 * request.limit + (UINT64_C(1) << 30), (unsigned)seconds,
                               10 * (unsigned)seconds};
    return kas_guard_run(path, limits, kas_hdf5_read, &request);
}

/* The child's memory may have been corrupted by the file, so what it left is checked again. */
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

static kas_status adopt(const char *path, uint8_t *base, uint64_t size, kas_dataset **out)
{
    kas_packet_layout layout;
    if (!packet_is_sound(base, size, &layout))
        return kas_fail(KAS_BAD_INPUT, "%s: reading gave inconsistent data: the file is damaged",
                        path);
    const kas_packet *p = (const kas_packet *)base;
    kas_dataset *d = create_shell(p);
    if (!d)
        return KAS_NO_MEMORY;
    for (uint32_t i = 0; i < d->classes; i++) {
        kas_status status = kas_dataset_name_class(
            d, i, (const char *)base + layout.names + (size_t)i * KAS_DATASET_NAME_SIZE);
        if (status != KAS_OK) {
            kas_dataset_close(d);
            return status;
        }
    }
    snprintf(d->path, sizeof d->path, "%s", path);
    d->train = (kas_images){p->train_count, base + layout.train_pixels,
                            (uint16_t *)(base + layout.train_labels)};
    d->test = (kas_images){p->test_count, base + layout.test_pixels,
                           (uint16_t *)(base + layout.test_labels)};
    d->mapping = base;
    d->mapping_size = size;
    kas_dataset_digest(d, d->digest);
    *out = d;
    return KAS_OK;
}

kas_status kas_dataset_open(const char *path, kas_dataset **out)
{
    *out = NULL;
    if (strlen(path) >= sizeof(*out)->path)
        return kas_fail(KAS_BAD_INPUT, "%.80s...: the path is longer than %zu bytes", path,
                        sizeof(*out)->path - 1);
    int fd = memfd_create("kas-dataset", MFD_CLOEXEC);
    if (fd < 0)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory to read it into: %s", path, strerror(errno));
    kas_status status = read_in_child(path, fd);
    struct stat info;
    if (status == KAS_OK && fstat(fd, &info) != 0)
        status = kas_fail(KAS_FAILURE, "%s: cannot stat its memory: %s", path, strerror(errno));
    if (status == KAS_OK) {
        size_t size = (size_t)info.st_size;
        void *base = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : NULL;
        if (!base || base == MAP_FAILED)
            status = kas_fail(KAS_NO_MEMORY, "%s: cannot map its memory: %s", path,
                              size ? strerror(errno) : "it is empty");
        else if ((status = adopt(path, base, size, out)) != KAS_OK)
            munmap(base, size);
    }
    close(fd);
    return status;
}
