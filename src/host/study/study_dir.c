#include "host/study/study_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/arena.h"
#include "host/core/integer.h"

kas_status kas_study_path(const char *study, const char *relative, char out[KAS_STUDY_PATH])
{
    int size = snprintf(out, KAS_STUDY_PATH, "%s/%s", study, relative);
    return size < KAS_STUDY_PATH ? KAS_OK
                                 : kas_fail(KAS_BAD_INPUT, "%.100s...: path too long", study);
}

static const char *const folders[] = {"kernels", "logs",     "checkpoints",
                                      "best",    "baseline", "weights"};
enum { FOLDERS = sizeof folders / sizeof *folders };

kas_status kas_study_dir_make(const char *study)
{
    char path[KAS_STUDY_PATH];
    for (int i = 0; i < FOLDERS; i++) {
        KAS_TRY(kas_study_path(study, folders[i], path));
        KAS_TRY(kas_mkdirs(path));
    }
    return KAS_OK;
}

void kas_study_dir_remove_empty(const char *study)
{
    char path[KAS_STUDY_PATH];
    for (int i = 0; i < FOLDERS; i++)
        if (kas_study_path(study, folders[i], path) == KAS_OK)
            rmdir(path);
    rmdir(study);
}

bool kas_study_is_candidate(const kas_work *work, const char *text)
{
    int64_t number;
    if (work->kind != KAS_WORK_CANDIDATE)
        return false;
    return kas_integer_read(text, 0, 999999999, &number)
               ? work->index == number
               : strncmp(work->name, text, strlen(text)) == 0;
}

void kas_study_item_name(const kas_work *work, char out[KAS_ITEM_NAME])
{
    char seed[32] = "";
    if (work->seed)
        snprintf(seed, sizeof seed, "-seed%lld", (long long)work->seed);
    if (work->kind == KAS_WORK_CANDIDATE)
        snprintf(out, KAS_ITEM_NAME, "%04lld", (long long)work->index);
    else if (work->kind == KAS_WORK_FINAL || work->kind == KAS_WORK_EARLIER_FINAL)
        snprintf(out, KAS_ITEM_NAME, "final-%04lld%s", (long long)work->index, seed);
    else if (work->kind == KAS_WORK_TURNS)
        snprintf(out, KAS_ITEM_NAME, "turns-%04lld", (long long)work->index);
    else
        snprintf(out, KAS_ITEM_NAME, "%s%s", kas_work_kind_name(work->kind), seed);
}

kas_status kas_study_log_path(const char *study, const kas_work *work, char out[KAS_STUDY_PATH])
{
    char name[KAS_ITEM_NAME], relative[KAS_ITEM_NAME + 32];
    kas_study_item_name(work, name);
    snprintf(relative, sizeof relative, "logs/%s.log", name);
    return kas_study_path(study, relative, out);
}

kas_status kas_study_checkpoint_path(const char *study, const kas_work *work,
                                     char out[KAS_STUDY_PATH])
{
    char name[KAS_ITEM_NAME], relative[KAS_ITEM_NAME + 32];
    kas_study_item_name(work, name);
    snprintf(relative, sizeof relative, "checkpoints/%s.ckpt", name);
    return kas_study_path(study, relative, out);
}

kas_status kas_study_weights_path(const char *study, const kas_work *work, char out[KAS_STUDY_PATH])
{
    out[0] = 0;
    if (work->kind == KAS_WORK_FINAL && work->answers && work->seed == 0)
        return kas_study_path(study, "best/weights.safetensors", out);
    if (work->kind == KAS_WORK_FINAL_BASELINE && work->seed == 0)
        return kas_study_path(study, "baseline/weights.safetensors", out);
    if (work->kind == KAS_WORK_BASELINE)
        return kas_study_path(study, "baseline/search.safetensors", out);
    if (work->kind == KAS_WORK_CANDIDATE) {
        char relative[64];
        snprintf(relative, sizeof relative, "weights/%s.safetensors", work->name);
        return kas_study_path(study, relative, out);
    }
    return KAS_OK;
}

void kas_study_start_path(const char *checkpoint, char out[KAS_STUDY_PATH])
{
    snprintf(out, KAS_STUDY_PATH, "%.*s.start", KAS_STUDY_PATH - 7, checkpoint);
}

void kas_study_drop_checkpoint(const char *study, const kas_work *work)
{
    char path[KAS_STUDY_PATH], start[KAS_STUDY_PATH];
    if (kas_study_checkpoint_path(study, work, path) != KAS_OK)
        return;
    kas_study_start_path(path, start);
    unlink(path);
    unlink(start);
}

typedef struct entry {
    char path[KAS_STUDY_PATH];
    uint64_t size;
    struct timespec changed;
} entry;

static int by_age(const void *a, const void *b)
{
    const struct timespec *x = &((const entry *)a)->changed, *y = &((const entry *)b)->changed;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static kas_status list_files(const char *folder, entry **out, int *count)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return kas_fail(KAS_FAILURE, "%s: cannot be read: %s", folder, kas_strerror(errno));
    kas_status status = KAS_OK;
    for (struct dirent *e; status == KAS_OK && (e = readdir(dir));) {
        entry one = {0};
        struct stat info;
        int size = snprintf(one.path, sizeof one.path, "%s/%s", folder, e->d_name);
        if (size >= (int)sizeof one.path || stat(one.path, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        one.size = (uint64_t)info.st_size;
        one.changed = info.st_mtim;
        if (KAS_GROW(*out, *count))
            (*out)[(*count)++] = one;
        else
            status = kas_fail(KAS_NO_MEMORY, "%s: out of memory", folder);
    }
    closedir(dir);
    return status;
}

/* Returns whether a file is a listed checkpoint or lies beside one: its name with more behind it. */
static bool listed(const char *path, const char *const *list)
{
    for (int i = 0; list && list[i]; i++) {
        const size_t length = strlen(list[i]);
        if (strncmp(path, list[i], length) == 0 && (path[length] == 0 || path[length] == '.'))
            return true;
    }
    return false;
}

kas_status kas_study_trim_checkpoints(const char *study, uint64_t limit, const char *const *keep,
                                      int *dropped)
{
    char folder[KAS_STUDY_PATH];
    entry *file = NULL;
    int count = 0;
    uint64_t total = 0;
    *dropped = 0;
    KAS_TRY(kas_study_path(study, "checkpoints", folder));
    kas_status status = list_files(folder, &file, &count);
    if (status == KAS_OK && count > 0) {
        qsort(file, (size_t)count, sizeof *file, by_age);
        for (int i = 0; i < count; i++)
            total += file[i].size;
        for (int i = 0; i < count && (total > limit || limit == 0); i++)
            if (!listed(file[i].path, keep) && unlink(file[i].path) == 0) {
                total -= file[i].size;
                ++*dropped;
            }
    }
    free(file);
    return status;
}
