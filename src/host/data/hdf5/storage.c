#include "host/data/hdf5/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* ---- checks ---------------------------------------------------------------------------------- */

static kas_status damaged(const kas_storage *s, const char *what)
{
    return kas_fail(KAS_BAD_INPUT, "%s: %s: %s: the file is damaged", s->path, s->name, what);
}

/* Returns the bytes of images in extent e. */
static uint64_t length_of(const kas_storage *s, uint64_t e)
{
    uint64_t start = e * s->extent_bytes, left = s->total - start;
    return left < s->extent_bytes ? left : s->extent_bytes;
}

static kas_status check_offsets(const kas_storage *s)
{
    if (s->image_bytes > 0)
        return s->total / s->count == s->image_bytes && s->total % s->count == 0
                   ? KAS_OK
                   : damaged(s, "its size does not match its images");
    for (uint32_t i = 0; i < s->count; i++)
        if (s->offset[i + 1] <= s->offset[i] || s->offset[i + 1] > s->total ||
            s->offset[i + 1] - s->offset[i] > KAS_ENCODED_LIMIT)
            return damaged(s, "the places of its images contradict one another");
    return KAS_OK;
}

kas_status kas_storage_check(const kas_storage *s, uint64_t file_size)
{
    if (s->count == 0 || s->total == 0 || s->extent_bytes == 0 || s->extents == 0 ||
        (s->total - 1) / s->extent_bytes != s->extents - 1)
        return damaged(s, "its pieces do not add up to its images");
    for (uint64_t e = 0; e < s->extents; e++) {
        const kas_extent *x = &s->extent[e];
        if (x->size > file_size || x->at > file_size - x->size)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: %s: piece %" PRIu64 " lies outside the file of %" PRIu64
                            " bytes: the file is truncated or damaged",
                            s->path, s->name, e, file_size);
        if (!x->deflated && x->size < length_of(s, e))
            return damaged(s, "a piece is smaller than its images");
    }
    return check_offsets(s);
}

/* ---- reading --------------------------------------------------------------------------------- */

void kas_storage_scratch_free(kas_storage_scratch *scratch)
{
    free(scratch->image);
    free(scratch->packed);
    free(scratch->chunk);
    *scratch = (kas_storage_scratch){0};
}

static kas_status reserve(uint8_t **memory, size_t *have, uint64_t wanted)
{
    if (wanted <= *have)
        return KAS_OK;
    free(*memory);
    *have = 0;
    *memory = malloc(wanted);
    if (!*memory)
        return kas_fail(KAS_NO_MEMORY, "no memory for a piece of %" PRIu64 " bytes", wanted);
    *have = wanted;
    return KAS_OK;
}

static kas_status read_file(const kas_storage *s, uint64_t at, uint8_t *out, uint64_t size)
{
    while (size > 0) {
        ssize_t n = pread(s->fd, out, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return kas_fail(KAS_BAD_INPUT, "%s: %s: cannot read at byte %" PRIu64 ": %s", s->path,
                            s->name, at, n < 0 ? kas_strerror(errno) : "the file was truncated");
        out += n;
        at += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return KAS_OK;
}

static kas_status inflate_extent(const kas_storage *s, uint64_t e, kas_storage_scratch *scratch)
{
    const kas_extent *x = &s->extent[e];
    if (scratch->chunk_of == s && scratch->chunk_number == e)
        return KAS_OK;
    scratch->chunk_of = NULL;
    KAS_TRY(reserve(&scratch->packed, &scratch->packed_size, x->size));
    KAS_TRY(reserve(&scratch->chunk, &scratch->chunk_size, s->extent_bytes));
    KAS_TRY(read_file(s, x->at, scratch->packed, x->size));
    uLongf got = s->extent_bytes;
    int code = uncompress(scratch->chunk, &got, scratch->packed, x->size);
    if (code != Z_OK || got < length_of(s, e))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s: chunk %" PRIu64 " cannot be inflated (%s): the "
                        "file is damaged",
                        s->path, s->name, e, code == Z_OK ? "it is too short" : zError(code));
    scratch->chunk_of = s;
    scratch->chunk_number = e;
    return KAS_OK;
}

/* Reads bytes [start, start + size) of the sequence of images, which may cross extents. */
static kas_status read_run(const kas_storage *s, uint64_t start, uint64_t size, uint8_t *out,
                           kas_storage_scratch *scratch)
{
    while (size > 0) {
        uint64_t e = start / s->extent_bytes, within = start % s->extent_bytes;
        uint64_t left = length_of(s, e) - within, n = size < left ? size : left;
        if (s->extent[e].deflated) {
            KAS_TRY(inflate_extent(s, e, scratch));
            memcpy(out, scratch->chunk + within, n);
        } else {
            KAS_TRY(read_file(s, s->extent[e].at + within, out, n));
        }
        out += n;
        start += n;
        size -= n;
    }
    return KAS_OK;
}

static void place_of(const kas_storage *s, uint32_t i, uint64_t *start, uint64_t *size)
{
    *start = s->image_bytes ? i * s->image_bytes : s->offset[i];
    *size = s->image_bytes ? s->image_bytes : s->offset[i + 1] - s->offset[i];
}

kas_status kas_storage_read(const kas_storage *s, uint32_t i, kas_storage_scratch *scratch,
                            const uint8_t **bytes, size_t *size)
{
    uint64_t start, length;
    place_of(s, i, &start, &length);
    KAS_TRY(reserve(&scratch->image, &scratch->image_size, length));
    KAS_TRY(read_run(s, start, length, scratch->image, scratch));
    if (s->crc && crc32_z(0, scratch->image, length) != s->crc[i])
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s: image %" PRIu32 ": its %" PRIu64
                        " bytes do not have the checksum of crc32: the file is damaged",
                        s->path, s->name, i, length);
    *bytes = scratch->image;
    *size = length;
    return KAS_OK;
}

kas_status kas_storage_read_into(const kas_storage *s, uint32_t i, kas_storage_scratch *scratch,
                                 uint8_t *out)
{
    return read_run(s, i * s->image_bytes, s->image_bytes, out, scratch);
}

void kas_storage_prefetch(const kas_storage *s, uint32_t first, uint32_t count)
{
    uint64_t start, end, size;
    place_of(s, first, &start, &size);
    place_of(s, first + count - 1, &end, &size);
    end += size;
    while (start < end) {
        uint64_t e = start / s->extent_bytes, within = start % s->extent_bytes;
        uint64_t left = length_of(s, e) - within, n = end - start < left ? end - start : left;
        const kas_extent *x = &s->extent[e];
        posix_fadvise(s->fd, (off_t)(x->at + (x->deflated ? 0 : within)),
                      (off_t)(x->deflated ? x->size : n), POSIX_FADV_WILLNEED);
        start += n;
    }
}

void kas_storage_forget(const kas_storage *s)
{
    posix_fadvise(s->fd, 0, 0, POSIX_FADV_DONTNEED);
}
