#include "host/core/file/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/core/file/target.h"
#include "host/core/sha256.h"

static kas_status fail_path(kas_status code, const char *path, const char *what)
{
    return kas_fail(kas_machine_or(code), "%s: %s: %s", path, what, kas_strerror(errno));
}

/* Whoever gives a data set in place of a text should hear what it is. */
static const char *kind_of(const kas_buf *text)
{
    static const char hdf5[] = "\x89HDF\r\n\x1a\n";
    const size_t size = sizeof hdf5 - 1;
    return text->size >= size && memcmp(text->data, hdf5, size) == 0 ? "; it is an HDF5 file" : "";
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
            return kas_fail(KAS_BAD_INPUT, "%s: file is larger than the limit of %zu bytes%s", path,
                            limit, kind_of(out));
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

/* Flushes the folder of `path`, which makes the rename itself durable. */
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

kas_status kas_file_begin(const char *path, kas_file_place *place, int *fd)
{
    KAS_TRY(kas_file_target(path, place->target));
    if (snprintf(place->temporary, PATH_MAX, "%s" KAS_FILE_UNFINISHED "XXXXXX", place->target) >=
        PATH_MAX)
        return kas_fail(KAS_FAILURE, "%s: path is too long", path);
    *fd = mkostemp(place->temporary, O_CLOEXEC);
    if (*fd < 0)
        return fail_path(KAS_FAILURE, path, "cannot create");
    if (fchmod(*fd, 0644) == 0)
        return KAS_OK;
    const kas_status status = fail_path(KAS_FAILURE, path, "cannot set the mode");
    close(*fd);
    unlink(place->temporary);
    return status;
}

static bool is_idle(int folder, const char *name, int seconds)
{
    struct stat st;
    return seconds == 0 || (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                            time(NULL) - st.st_mtime > seconds);
}

void kas_file_remove_unfinished(const char *path, int idle)
{
    char target[PATH_MAX], folder[PATH_MAX], begin[PATH_MAX + 16];
    if (kas_file_target(path, target) != KAS_OK) /* the next write says so */
        return;
    const char *slash = strrchr(target, '/');
    snprintf(begin, sizeof begin, "%s" KAS_FILE_UNFINISHED, slash ? slash + 1 : target);
    snprintf(folder, sizeof folder, "%s", target);
    DIR *directory = opendir(dirname(folder));
    const size_t length = strlen(begin);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strncmp(entry->d_name, begin, length) == 0 && strlen(entry->d_name) == length + 6 &&
            is_idle(dirfd(directory), entry->d_name, idle))
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
}

/* Writes and flushes a temporary file with a unique name in the folder of the target of `path`. */
static kas_status write_temporary(const char *path, const void *data, size_t size,
                                  kas_file_place *place)
{
    int fd;
    KAS_TRY(kas_file_begin(path, place, &fd));
    kas_status status = write_all(fd, path, data, size);
    if (status == KAS_OK && fsync(fd) != 0)
        status = fail_path(KAS_FAILURE, path, "cannot flush");
    if (close(fd) != 0 && status == KAS_OK)
        status = fail_path(KAS_FAILURE, path, "cannot close");
    if (status != KAS_OK)
        unlink(place->temporary);
    return status;
}

kas_status kas_file_end(const char *path, const kas_file_place *place)
{
    if (rename(place->temporary, place->target) != 0) {
        const kas_status status = fail_path(KAS_FAILURE, path, "cannot rename");
        unlink(place->temporary);
        return status;
    }
    return sync_folder_of(place->target);
}

kas_status kas_file_write_atomic(const char *path, const void *data, size_t size)
{
    kas_file_place place;
    KAS_TRY(write_temporary(path, data, size, &place));
    return kas_file_end(path, &place);
}

kas_status kas_buf_save(kas_buf *text, const char *path, kas_status built)
{
    kas_status status = built == KAS_OK ? kas_buf_status(text) : built;
    if (status == KAS_OK)
        status = kas_file_write_atomic(path, text->data, text->size);
    kas_buf_free(text);
    return status;
}

kas_status kas_file_write_new(const char *path, const void *data, size_t size, bool *existed)
{
    kas_file_place place;
    *existed = false;
    KAS_TRY(write_temporary(path, data, size, &place));
    const int failed = link(place.temporary, place.target) == 0 ? 0 : errno;
    if (failed && failed != EEXIST) /* no hard links here */
        return kas_file_end(path, &place);
    *existed = failed == EEXIST;
    unlink(place.temporary);
    return *existed ? KAS_OK : sync_folder_of(place.target);
}

kas_status kas_file_check_writable(const char *path)
{
    char target[PATH_MAX];
    KAS_TRY(kas_file_target(path, target));
    if (access(dirname(target), W_OK | X_OK) != 0)
        return fail_path(KAS_FAILURE, path, "cannot write into its folder");
    return KAS_OK;
}

static kas_status make_folders(const char *path, mode_t mode)
{
    char copy[PATH_MAX];
    if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
        return kas_fail(KAS_FAILURE, "%s: path is too long", path);
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char saved = *p;
        *p = '\0';
        if (mkdir(copy, mode) != 0 && errno != EEXIST)
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

kas_status kas_mkdirs(const char *path)
{
    return make_folders(path, 0777);
}

kas_status kas_mkdirs_private(const char *path)
{
    return make_folders(path, 0700);
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

kas_status kas_file_digest(const char *path, size_t limit, char hex[65])
{
    kas_buf file = {0};
    KAS_TRY(kas_file_read(path, limit, &file));
    kas_sha256_hex(file.data, file.size, hex);
    kas_buf_free(&file);
    return KAS_OK;
}
