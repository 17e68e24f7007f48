#include "host/core/files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/sha256.h"

static kas_status fail_path(kas_status code, const char *path, const char *what)
{
    return kas_fail(code, "%s: %s: %s", path, what, strerror(errno));
}

static kas_status read_all(int fd, const char *path, size_t limit, kas_buf *out)
{
    char chunk[65536];
    size_t total = 0;
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_path(KAS_BAD_INPUT, path, "cannot read");
        if (n == 0)
            return kas_buf_status(out);
        total += (size_t)n;
        if (total > limit)
            return kas_fail(KAS_BAD_INPUT, "%s: file is larger than the limit of %zu bytes", path,
                            limit);
        kas_buf_add(out, chunk, (size_t)n);
    }
}

kas_status kas_file_read(const char *path, size_t limit, kas_buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_path(KAS_BAD_INPUT, path, "cannot open");
    struct stat info;
    kas_status status;
    if (fstat(fd, &info) != 0)
        status = fail_path(KAS_BAD_INPUT, path, "cannot stat");
    else if (!S_ISREG(info.st_mode))
        status = kas_fail(KAS_BAD_INPUT, "%s: expected a regular file", path);
    else
        status = read_all(fd, path, limit, out);
    close(fd);
    return status;
}

static kas_status write_all(int fd, const char *path, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_path(KAS_FAILURE, path, "cannot write");
        data += n;
        size -= (size_t)n;
    }
    return KAS_OK;
}

/* Makes the rename itself durable. */
static kas_status sync_folder_of(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_path(KAS_FAILURE, path, "cannot open its folder");
    int failed = fsync(fd);
    close(fd);
    return failed ? fail_path(KAS_FAILURE, path, "cannot flush its folder") : KAS_OK;
}

/* A flushed file beside `path`, under a name of its own. */
static kas_status write_temporary(const char *path, const void *data, size_t size,
                                  char temporary[PATH_MAX])
{
    if (snprintf(temporary, PATH_MAX, "%s.XXXXXX", path) >= PATH_MAX)
        return kas_fail(KAS_FAILURE, "%s: path is too long", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return fail_path(KAS_FAILURE, path, "cannot create");
    kas_status status = write_all(fd, path, data, size);
    if (status == KAS_OK && fchmod(fd, 0644) != 0)
        status = fail_path(KAS_FAILURE, path, "cannot set the mode");
    if (status == KAS_OK && fsync(fd) != 0)
        status = fail_path(KAS_FAILURE, path, "cannot flush");
    if (close(fd) != 0 && status == KAS_OK)
        status = fail_path(KAS_FAILURE, path, "cannot close");
    if (status != KAS_OK)
        unlink(temporary);
    return status;
}

static kas_status rename_into_place(const char *temporary, const char *path)
{
    if (rename(temporary, path) != 0) {
        const kas_status status = fail_path(KAS_FAILURE, path, "cannot rename");
        unlink(temporary);
        return status;
    }
    return sync_folder_of(path);
}

kas_status kas_file_write_atomic(const char *path, const void *data, size_t size)
{
    char temporary[PATH_MAX];
    KAS_TRY(write_temporary(path, data, size, temporary));
    return rename_into_place(temporary, path);
}

kas_status kas_file_write_new(const char *path, const void *data, size_t size, bool *existed)
{
    char temporary[PATH_MAX];
    *existed = false;
    KAS_TRY(write_temporary(path, data, size, temporary));
    const int failed = link(temporary, path) == 0 ? 0 : errno;
    if (failed && failed != EEXIST) /* no hard links here */
        return rename_into_place(temporary, path);
    *existed = failed == EEXIST;
    unlink(temporary);
    return *existed ? KAS_OK : sync_folder_of(path);
}

kas_status kas_file_check_writable(const char *path)
{
    char copy[PATH_MAX];
    struct stat info;
    if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
        return kas_fail(KAS_FAILURE, "%.80s...: path is too long", path);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return kas_fail(KAS_FAILURE, "%s: is a folder; give the name of a file to write", path);
    if (access(dirname(copy), W_OK | X_OK) != 0)
        return fail_path(KAS_FAILURE, path, "cannot write into its folder");
    return KAS_OK;
}

kas_status kas_mkdirs(const char *path)
{
    char copy[PATH_MAX];
    if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
        return kas_fail(KAS_FAILURE, "%s: path is too long", path);
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char saved = *p;
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            return fail_path(KAS_FAILURE, copy, "cannot create folder");
        *p = saved;
        if (saved == '\0')
            break;
    }
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return kas_fail(KAS_FAILURE, "%s: exists and is not a folder", path);
    return KAS_OK;
}

bool kas_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

kas_status kas_remove_tree(const char *path)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return fail_path(KAS_FAILURE, path, "cannot remove");
    return KAS_OK;
}

kas_status kas_cache_dir(char out[4096])
{
    const char *own = getenv("KAS_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int length;
    if (own && *own)
        length = snprintf(out, 4096, "%s", own);
    else if (xdg && *xdg)
        length = snprintf(out, 4096, "%s/kas-gpu", xdg);
    else if (home && *home)
        length = snprintf(out, 4096, "%s/.cache/kas-gpu", home);
    else
        length = snprintf(out, 4096, "/tmp/kas-gpu-cache-%u", (unsigned)getuid());
    if (length >= 4096)
        return kas_fail(KAS_FAILURE, "the cache folder's path is too long; set KAS_CACHE_DIR");
    kas_status status = kas_mkdirs(out);
    return status == KAS_OK
               ? status
               : kas_fail_context(status, "the cache of compiled kernels (KAS_CACHE_DIR chooses "
                                          "another folder)");
}

kas_status kas_file_digest(const char *path, size_t limit, char hex[65])
{
    kas_buf file = {0};
    KAS_TRY(kas_file_read(path, limit, &file));
    kas_sha256_hex(file.data, file.size, hex);
    kas_buf_free(&file);
    return KAS_OK;
}
