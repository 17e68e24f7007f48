#include "host/core/file/private.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/file/files.h"

#define ELSE_TRUSTED                                                                               \
    "; code is loaded from there: choose another folder with KAS_CACHE_DIR, or set "               \
    "KAS_CACHE_TRUSTED=1 beside it if you trust all who may write there"

static kas_status find_trust(bool *trusted)
{
    const char *text = getenv("KAS_CACHE_TRUSTED"), *folder = getenv("KAS_CACHE_DIR");
    *trusted = text && strcmp(text, "1") == 0 && folder && *folder;
    if (text && *text && strcmp(text, "1") != 0 && strcmp(text, "0") != 0)
        return kas_fail(KAS_USAGE, "KAS_CACHE_TRUSTED=%s: expected 0 or 1", text);
    return KAS_OK;
}

static kas_status fail_path(const char *path, const char *what)
{
    return kas_fail(KAS_FAILURE, "%s: %s: %s", path, what, kas_strerror(errno));
}

static kas_status check_folder(const char *path, const struct stat *info)
{
    if (info->st_uid != geteuid())
        return kas_fail(KAS_FAILURE, "%s: belongs to user %u and not to you (user %u)" ELSE_TRUSTED,
                        path, (unsigned)info->st_uid, (unsigned)geteuid());
    if (info->st_mode & (S_IWGRP | S_IWOTH))
        return kas_fail(KAS_FAILURE,
                        "%s: group or others may write it (mode %04o); if nobody did, "
                        "`chmod go-w` it" ELSE_TRUSTED,
                        path, (unsigned)info->st_mode & 07777);
    return KAS_OK;
}

static kas_status check_above(const char *path)
{
    char above[PATH_MAX];
    struct stat info;
    if (!realpath(path, above))
        return fail_path(path, "cannot be resolved");
    do {
        dirname(above);
        if (stat(above, &info) == 0 && info.st_mode & S_IWOTH && !(info.st_mode & S_ISVTX))
            return kas_fail(KAS_FAILURE,
                            "%s: anybody may replace it, because others may write %s (mode %04o), "
                            "which has no sticky bit" ELSE_TRUSTED,
                            path, above, (unsigned)info.st_mode & 07777);
    } while (strcmp(above, "/") != 0);
    return KAS_OK;
}

static kas_status make_folder(const char *path, bool *made)
{
    char above[PATH_MAX];
    *made = mkdir(path, 0700) == 0;
    if (!*made && errno == ENOENT) {
        snprintf(above, sizeof above, "%s", path);
        KAS_TRY(kas_mkdirs_private(dirname(above)));
        *made = mkdir(path, 0700) == 0;
    }
    if (!*made && errno != EEXIST)
        return fail_path(path, "cannot create folder");
    /* The umask may have removed the owner's own rights. */
    return *made && chmod(path, 0700) != 0 ? fail_path(path, "cannot set the mode") : KAS_OK;
}

static kas_status open_folder(const char *path, int *fd)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd >= 0)
        return KAS_OK;
    struct stat info;
    if (errno == ENOTDIR && lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return kas_fail(KAS_FAILURE,
                        "%s: is a symbolic link, which whoever made it may change; give the folder "
                        "itself" ELSE_TRUSTED,
                        path);
    return fail_path(path, "cannot open folder");
}

/* Creates or checks a folder. With `keep` the mode of an existing folder stays as it is, if nobody
 * else may write it. */
static kas_status own_folder(const char *path, bool keep)
{
    struct stat info;
    bool made;
    int fd;
    KAS_TRY(make_folder(path, &made));
    KAS_TRY(open_folder(path, &fd));
    kas_status status =
        fstat(fd, &info) != 0 ? fail_path(path, "cannot stat") : check_folder(path, &info);
    if (status == KAS_OK && !keep && (info.st_mode & 07777) != 0700 && fchmod(fd, 0700) != 0)
        status = fail_path(path, "cannot set the mode");
    close(fd);
    return status;
}

kas_status kas_private_folder(const char *path)
{
    bool trusted;
    KAS_TRY(find_trust(&trusted));
    return trusted ? kas_mkdirs(path) : own_folder(path, false);
}

kas_status kas_private_file(const char *path)
{
    struct stat info;
    bool trusted;
    KAS_TRY(find_trust(&trusted));
    if (lstat(path, &info) != 0)
        return fail_path(path, "cannot stat");
    if (!S_ISREG(info.st_mode))
        return kas_fail(KAS_FAILURE, "%s: is not a regular file", path);
    if (trusted ||
        ((info.st_uid == geteuid() || info.st_uid == 0) && !(info.st_mode & (S_IWGRP | S_IWOTH))))
        return KAS_OK;
    return kas_fail(KAS_FAILURE, "%s: belongs to user %u, mode %04o: others could write it", path,
                    (unsigned)info.st_uid, (unsigned)info.st_mode & 07777);
}

static kas_status make_cache_dir(const char *path, bool named)
{
    char plain[4096];
    bool trusted;
    KAS_TRY(find_trust(&trusted));
    if (trusted)
        return kas_mkdirs(path);
    size_t length = (size_t)snprintf(plain, sizeof plain, "%s", path);
    while (length > 1 && plain[length - 1] == '/') /* a slash at the end would follow a link */
        plain[--length] = '\0';
    KAS_TRY(own_folder(plain, named));
    return check_above(plain);
}

kas_status kas_cache_dir(char out[4096])
{
    const char *named = getenv("KAS_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int length;
    if (named && *named)
        length = snprintf(out, 4096, "%s", named);
    else if (xdg && *xdg)
        length = snprintf(out, 4096, "%s/kas-gpu", xdg);
    else if (home && *home)
        length = snprintf(out, 4096, "%s/.cache/kas-gpu", home);
    else
        length = snprintf(out, 4096, "/tmp/kas-gpu-cache-%u", (unsigned)getuid());
    if (length >= 4096)
        return kas_fail(KAS_FAILURE, "the cache folder's path is too long; set KAS_CACHE_DIR");
    const kas_status status = make_cache_dir(out, named && *named);
    return status == KAS_OK
               ? KAS_OK
               : kas_fail_context(status, "the cache of compiled kernels (%s)",
                                  named && *named ? "KAS_CACHE_DIR"
                                                  : "set KAS_CACHE_DIR for another folder");
}
