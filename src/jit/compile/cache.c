#include "jit/compile/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/file/private.h"
#include "host/core/sha256.h"

enum { MAX_IMAGE = 256 << 20, STALE_SECONDS = 3600 };

/* The end of every entry. */
typedef struct trailer {
    char magic[8];
    uint64_t size; /* bytes of the content */
    uint8_t digest[32];
} trailer;
static const char magic[8] = {'K', 'A', 'S', 'J', 'I', 'T', '\r', '\n'};

static void digest_of(const void *data, size_t size, uint8_t digest[32])
{
    kas_sha256 hash;
    kas_sha256_init(&hash);
    kas_sha256_update(&hash, data, size);
    kas_sha256_final(&hash, digest);
}

static kas_status make_path(const char *folder, const char key[65], const char *suffix, bool shared,
                            char path[4096])
{
    int length = snprintf(path, 4096, "%s/%.2s", folder, key);
    if (length + 80 >= 4096)
        return kas_fail(KAS_FAILURE, "%s: the cache folder's path is too long", folder);
    if (!shared)
        KAS_TRY(kas_private_folder(folder));
    KAS_TRY(shared ? kas_mkdirs(path) : kas_private_folder(path));
    snprintf(path + length, 4096 - (size_t)length, "/%s.%s", key, suffix);
    return KAS_OK;
}

kas_status kas_cache_path(const char *folder, const char key[65], const char *suffix,
                          char path[4096])
{
    return make_path(folder, key, suffix, false, path);
}

kas_status kas_cache_shared_path(const char *folder, const char key[65], const char *suffix,
                                 char path[4096])
{
    return make_path(folder, key, suffix, true, path);
}

static bool whole(const char *data, size_t size)
{
    trailer end;
    uint8_t digest[32];
    if (size < sizeof end)
        return false;
    memcpy(&end, data + size - sizeof end, sizeof end);
    if (memcmp(end.magic, magic, sizeof magic) != 0 || end.size != size - sizeof end)
        return false;
    digest_of(data, size - sizeof end, digest);
    return memcmp(digest, end.digest, sizeof digest) == 0;
}

kas_status kas_cache_read(const char *path, kas_buf *out, bool *found)
{
    *found = false;
    if (!kas_file_exists(path))
        return KAS_OK;
    size_t before = out->size;
    kas_status status = kas_file_read(path, MAX_IMAGE, out);
    if (status == KAS_NO_MEMORY)
        return status;
    *found = status == KAS_OK && whole(out->data + before, out->size - before);
    if (out->data) { /* without the trailer, or nothing at all */
        out->size = *found ? out->size - sizeof(trailer) : before;
        out->data[out->size] = '\0';
    }
    return KAS_OK;
}

/* ---- what killed processes leave ------------------------------------------------------------- */

/* Returns whether the name is that of an entry which was not written to its end (files.h), or of a
 * lock, "KEY.so.lock". */
static bool is_left_over(const char *name)
{
    static const char hex[] = "0123456789abcdef";
    const char *last = strrchr(name, '.');
    return strspn(name, hex) == 64 && last > name + 64 &&
           (strncmp(last, KAS_FILE_UNFINISHED, strlen(KAS_FILE_UNFINISHED)) == 0 ||
            strcmp(last, ".lock") == 0);
}

/* Removes a lock file; only its holder may do that. */
static void remove_left_over(const char *folder, const char *name)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return;
    char *suffix = strrchr(path, '.');
    if (suffix && strcmp(suffix, ".lock") == 0) {
        *suffix = '\0';
        kas_cache_unlock(path, kas_cache_lock(path, 0));
    } else
        unlink(path);
}

void kas_cache_sweep(const char *folder, bool all)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    const time_t now = time(NULL);
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct stat info;
        if (entry->d_name[0] != '.' && (all || is_left_over(entry->d_name)) &&
            fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode) && now - info.st_mtime > STALE_SECONDS)
            remove_left_over(folder, entry->d_name);
    }
    closedir(directory);
}

static void sweep_beside(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    if (slash &&
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path) < (int)sizeof folder)
        kas_cache_sweep(folder, false);
}

/* ---- entries --------------------------------------------------------------------------------- */

static kas_status make_entry(const void *data, size_t size, kas_buf *entry)
{
    trailer end = {.size = size};
    memcpy(end.magic, magic, sizeof magic);
    digest_of(data, size, end.digest);
    kas_buf_add(entry, data, size);
    kas_buf_add(entry, &end, sizeof end);
    return kas_buf_status(entry);
}

/* Removes a folder or a link in the place of an entry, which would stop every write to it. */
static kas_status clear_place(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && !S_ISREG(info.st_mode) ? kas_remove_tree(path) : KAS_OK;
}

kas_status kas_cache_write(const char *path, const void *data, size_t size)
{
    kas_buf entry = {0};
    kas_status status = make_entry(data, size, &entry);
    if (status == KAS_OK)
        status = clear_place(path);
    if (status == KAS_OK)
        status = kas_file_write_atomic(path, entry.data, entry.size);
    kas_buf_free(&entry);
    sweep_beside(path);
    return status;
}

kas_status kas_cache_write_new(const char *path, const void *data, size_t size, bool *existed)
{
    kas_buf entry = {0};
    *existed = false;
    kas_status status = make_entry(data, size, &entry);
    if (status == KAS_OK)
        status = kas_file_write_new(path, entry.data, entry.size, existed);
    kas_buf_free(&entry);
    return status;
}

/* Returns whether the open lock file is still the one on disk. Its holder may have removed it
 * between open and flock; a lock on a removed file excludes nobody. */
static bool still_there(const char *path, int fd)
{
    struct stat by_name, by_fd;
    return stat(path, &by_name) == 0 && fstat(fd, &by_fd) == 0 && by_name.st_ino == by_fd.st_ino &&
           by_name.st_dev == by_fd.st_dev;
}

bool kas_cache_locked(const char *path)
{
    char lock_path[4200];
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    const int fd = open(lock_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

int kas_cache_lock(const char *path, double seconds)
{
    char lock_path[4200];
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    const double step = 0.005;
    for (double waited = 0;;) {
        int fd = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0)
            return -1;
        bool taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (taken && still_there(lock_path, fd))
            return fd;
        bool unsupported = !taken && errno != EWOULDBLOCK && errno != EINTR;
        close(fd);
        if (unsupported)
            return -1;
        if (waited >= seconds)
            return -1;
        nanosleep(&(struct timespec){.tv_nsec = (long)(step * 1e9)}, NULL);
        waited += step;
    }
}

void kas_cache_unlock(const char *path, int lock)
{
    if (lock < 0)
        return;
    char lock_path[4200];
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    unlink(lock_path);
    close(lock);
}
