#include "host/data/import/archive.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "host/core/file/files.h"

enum { BLOCK = 512 };

/* The fields of a tar header (POSIX ustar) that the reader uses. */
enum { NAME = 0, NAME_SIZE = 100, SIZE = 124, SIZE_SIZE = 12, SUM = 148, SUM_SIZE = 8, TYPE = 156 };

static bool parse_octal(const uint8_t *text, size_t size, uint64_t *out)
{
    *out = 0;
    size_t i = 0, digits = 0;
    while (i < size && text[i] == ' ')
        i++;
    for (; i < size && text[i] >= '0' && text[i] <= '7'; i++, digits++)
        *out = *out * 8 + (uint64_t)(text[i] - '0');
    return digits > 0 && (i == size || text[i] == '\0' || text[i] == ' ');
}

static bool header_is_sound(const uint8_t *header)
{
    uint64_t stated, sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= SUM && i < SUM + SUM_SIZE ? ' ' : header[i];
    return parse_octal(header + SUM, SUM_SIZE, &stated) && stated == sum;
}

static kas_status fail_cut(gzFile in, const char *source)
{
    int code = Z_OK;
    const char *why = gzerror(in, &code);
    return kas_fail(KAS_BAD_INPUT, "%s: the archive is truncated or damaged%s%s", source,
                    code == Z_OK || code == Z_ERRNO ? "" : ": ", code == Z_OK ? "" : why);
}

/* Reads `size` bytes, into `out` unless it is NULL, and the padding to whole blocks. */
static kas_status read_body(gzFile in, const char *source, uint64_t size, kas_buf *out)
{
    uint8_t chunk[64 * BLOCK];
    uint64_t padded = (size + BLOCK - 1) / BLOCK * BLOCK;
    for (uint64_t at = 0; at < padded;) {
        uint64_t left = padded - at;
        unsigned n = left < sizeof chunk ? (unsigned)left : (unsigned)sizeof chunk;
        if (gzread(in, chunk, n) != (int)n)
            return fail_cut(in, source);
        if (out && at < size)
            kas_buf_add(out, chunk, size - at < n ? size - at : n);
        at += n;
    }
    return out ? kas_buf_status(out) : KAS_OK;
}

static kas_wanted_file *find(kas_wanted_file *files, size_t count, const uint8_t *header)
{
    char name[NAME_SIZE + 1];
    memcpy(name, header + NAME, NAME_SIZE);
    name[NAME_SIZE] = '\0';
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    bool regular = header[TYPE] == '0' || header[TYPE] == '\0';
    for (size_t i = 0; regular && i < count; i++)
        if (!files[i].found && strcmp(files[i].name, base) == 0)
            return &files[i];
    return NULL;
}

/* Reads to the end of the file, where zlib compares gzip's checksum. */
static kas_status read_to_end(gzFile in, const char *source)
{
    uint8_t rest[4096];
    int n;
    do
        n = gzread(in, rest, sizeof rest);
    while (n > 0);
    int code = Z_OK;
    gzerror(in, &code);
    return n < 0 || code != Z_OK ? fail_cut(in, source) : KAS_OK;
}

/* Reads an archive. Two empty blocks end it, but one is accepted as the end too, as in tar. */
static kas_status read_archive(gzFile in, const char *source, kas_wanted_file *files, size_t count)
{
    uint8_t header[BLOCK];
    static const uint8_t empty[BLOCK];
    for (uint64_t entries = 0;; entries++) {
        int n = gzread(in, header, BLOCK);
        if (n != BLOCK && entries == 0)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: expected a folder or a .tar.gz archive of the binary version",
                            source);
        if (n != BLOCK)
            return fail_cut(in, source);
        if (memcmp(header, empty, BLOCK) == 0)
            return read_to_end(in, source);
        uint64_t size;
        if (!header_is_sound(header) || !parse_octal(header + SIZE, SIZE_SIZE, &size))
            return kas_fail(KAS_BAD_INPUT,
                            entries ? "%s: the archive is damaged: a header's checksum is wrong"
                                    : "%s: expected a folder or a .tar.gz archive",
                            source);
        kas_wanted_file *file = find(files, count, header);
        if (file && size > file->limit)
            return kas_fail(KAS_BAD_INPUT, "%s: %s: expected at most %zu bytes, found %llu", source,
                            file->name, file->limit, (unsigned long long)size);
        KAS_TRY(read_body(in, source, size, file ? &file->data : NULL));
        if (file)
            file->found = true;
    }
}

static kas_status collect_archive(const char *source, kas_wanted_file *files, size_t count)
{
    gzFile in = gzopen(source, "rb");
    if (!in)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot open: %s", source, kas_strerror(errno));
    gzbuffer(in, 1 << 17);
    kas_status status = read_archive(in, source, files, count);
    gzclose_r(in);
    return status;
}

static kas_status collect_folder(const char *source, const char *subfolder, kas_wanted_file *files,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char path[PATH_MAX];
        for (int deep = 0; deep < 2 && !files[i].found; deep++) {
            if (snprintf(path, sizeof path, "%s/%s%s%s", source, deep ? subfolder : "",
                         deep ? "/" : "", files[i].name) >= (int)sizeof path)
                return kas_fail(KAS_BAD_INPUT, "%.80s...: the path is too long", source);
            if (!kas_file_exists(path))
                continue;
            KAS_TRY(kas_file_read(path, files[i].limit, &files[i].data));
            files[i].found = true;
        }
    }
    return KAS_OK;
}

kas_status kas_collect_files(const char *source, const char *subfolder, kas_wanted_file *files,
                             size_t count)
{
    struct stat info;
    if (stat(source, &info) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot open: %s", source, kas_strerror(errno));
    bool folder = S_ISDIR(info.st_mode);
    if (!folder && !S_ISREG(info.st_mode))
        return kas_fail(KAS_BAD_INPUT, "%s: expected a folder or a .tar.gz archive", source);
    KAS_TRY(folder ? collect_folder(source, subfolder, files, count)
                   : collect_archive(source, files, count));
    for (size_t i = 0; i < count; i++)
        if (files[i].required && !files[i].found)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: %s is missing; expected the files of the binary version (%s)",
                            source, files[i].name, subfolder);
    return KAS_OK;
}
