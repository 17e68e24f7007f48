#include "host/core/file/target.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/arena.h"

enum { MAX_LINKS = 40 /* as the kernel's */ };

typedef struct input {
    dev_t device;
    ino_t inode;
    char path[256]; /* for messages */
} input;
static input *inputs;
static int input_count;

kas_status kas_file_is_input(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return KAS_OK;
    if (!KAS_GROW(inputs, input_count))
        return kas_fail(KAS_NO_MEMORY, "no memory for the names of %d inputs", input_count + 1);
    input *i = &inputs[input_count++];
    *i = (input){.device = info.st_dev, .inode = info.st_ino};
    snprintf(i->path, sizeof i->path, "%s", path);
    return KAS_OK;
}

void kas_file_forget_inputs(void)
{
    free(inputs);
    inputs = NULL;
    input_count = 0;
}

static const input *find_input(const struct stat *info)
{
    for (int i = 0; i < input_count; i++)
        if (inputs[i].device == info->st_dev && inputs[i].inode == info->st_ino)
            return &inputs[i];
    return NULL;
}

/* Fails when the target is an input, or lies in a folder that is one. */
static kas_status check_inputs(const char *path, const char *target, const struct stat *info)
{
    char folder[PATH_MAX];
    struct stat above = *info;
    const input *found = find_input(info);
    if (!realpath(target, folder))
        return kas_fail(KAS_FAILURE, "%s: cannot be resolved: %s", path, kas_strerror(errno));
    while (!found && strcmp(folder, "/") != 0) {
        dirname(folder);
        if (stat(folder, &above) == 0)
            found = find_input(&above);
    }
    return found ? kas_fail(KAS_FAILURE,
                            "%s: would replace an input of the same command (%s); give another "
                            "name for the output",
                            path, found->path)
                 : KAS_OK;
}

/* Follows one link of a chain. A relative link begins in the folder of the link. */
static kas_status follow(const char *path, char target[PATH_MAX])
{
    char link[PATH_MAX], folder[PATH_MAX];
    const ssize_t length = readlink(target, link, sizeof link - 1);
    if (length < 0)
        return kas_fail(KAS_FAILURE, "%s: cannot be resolved: %s", path, kas_strerror(errno));
    link[length] = '\0';
    snprintf(folder, sizeof folder, "%s", target);
    const int size = *link == '/' ? snprintf(target, PATH_MAX, "%s", link)
                                  : snprintf(target, PATH_MAX, "%s/%s", dirname(folder), link);
    return size < PATH_MAX ? KAS_OK : kas_fail(KAS_FAILURE, "%s: path is too long", path);
}

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
}

kas_status kas_file_target(const char *path, char target[PATH_MAX])
{
    struct stat info;
    bool exists = false;
    if (snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX)
        return kas_fail(KAS_FAILURE, "%.80s...: path is too long", path);
    for (int links = 0;; links++) {
        exists = lstat(target, &info) == 0;
        if (!exists || !S_ISLNK(info.st_mode))
            break;
        if (links == MAX_LINKS)
            return kas_fail(KAS_FAILURE, "%s: %s", path, kas_strerror(ELOOP));
        KAS_TRY(follow(path, target));
    }
    if (!exists)
        return KAS_OK; /* or it cannot be seen, and then not be written either */
    if (S_ISDIR(info.st_mode))
        return kas_fail(KAS_FAILURE, "%s: is a folder; give the name of a file to write", path);
    if (!S_ISREG(info.st_mode))
        return kas_fail(KAS_FAILURE,
                        "%s: is %s, not a regular file; it would be replaced by a file", path,
                        kind_of(info.st_mode));
    return input_count ? check_inputs(path, target, &info) : KAS_OK;
}
