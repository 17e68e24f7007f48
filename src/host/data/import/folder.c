#include "host/data/import/folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "host/core/arena.h"
#include "host/core/log.h"
#include "host/core/random.h"
#include "host/data/dataset.h"

/* ---- lists ----------------------------------------------------------------------------------- */

static kas_status no_memory(void)
{
    return kas_fail(KAS_NO_MEMORY, "no memory for a list of files");
}

/* Appends a path and takes ownership of it, even when it fails. */
static kas_status append(kas_file_list *list, char *path, uint16_t label)
{
    if (!path || !KAS_GROW(list->path, list->count) || !KAS_GROW(list->label, list->count)) {
        free(path);
        return no_memory();
    }
    list->path[list->count] = path;
    list->label[list->count++] = label;
    return KAS_OK;
}

static void list_free(kas_file_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free(list->path[i]);
    free(list->path);
    free(list->label);
    *list = (kas_file_list){0};
}

void kas_folder_free(kas_folder *f)
{
    for (uint32_t i = 0; i < f->classes; i++)
        free(f->class_name[i]);
    free(f->class_name);
    list_free(&f->train);
    list_free(&f->test);
    *f = (kas_folder){0};
}

void kas_file_list_keep(kas_file_list *list, const uint8_t *keep)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (keep[i]) {
            list->path[kept] = list->path[i];
            list->label[kept++] = list->label[i];
        } else {
            free(list->path[i]);
        }
    list->count = kept;
}

kas_status kas_file_list_move(kas_file_list *list, const uint8_t *move, kas_file_list *to)
{
    uint32_t kept = 0;
    kas_status status = KAS_OK;
    for (uint32_t i = 0; i < list->count; i++)
        if (move[i] && status == KAS_OK) {
            status = append(to, list->path[i], list->label[i]);
        } else {
            list->path[kept] = list->path[i];
            list->label[kept++] = list->label[i];
        }
    list->count = kept;
    return status;
}

void kas_file_list_shuffle(kas_file_list *list, uint64_t seed)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_DATASET, UINT64_MAX);
    for (uint32_t i = list->count; i > 1; i--) { /* Fisher and Yates */
        uint32_t k = kas_rng_below(&rng, i);
        char *path = list->path[i - 1];
        uint16_t label = list->label[i - 1];
        list->path[i - 1] = list->path[k], list->label[i - 1] = list->label[k];
        list->path[k] = path, list->label[k] = label;
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool is_image(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                   strcasecmp(dot, ".png") == 0);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int no_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Returns "folder/name"; NULL when memory is exhausted. */
static char *join(const char *folder, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* Calls `each` for every entry of a folder, in byte order. `each` owns the path that it gets. */
static kas_status for_entries(const char *folder,
                              kas_status (*each)(void *context, const char *name, char *path),
                              void *context)
{
    struct dirent **entry;
    int count = scandir(folder, &entry, no_dots, by_name);
    if (count < 0)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot list the folder: %s", folder,
                        kas_strerror(errno));
    kas_status status = KAS_OK;
    for (int i = 0; i < count; i++) {
        char *path = status == KAS_OK ? join(folder, entry[i]->d_name) : NULL;
        if (status == KAS_OK)
            status = path ? each(context, entry[i]->d_name, path) : no_memory();
        free(entry[i]);
    }
    free(entry);
    return status;
}

typedef struct scan {
    kas_folder *out;
    kas_file_list *list;
    uint16_t label;
    bool learn; /* adds new classes; otherwise they must be known */
} scan;

static kas_status take_file(void *context, const char *name, char *path)
{
    scan *s = context;
    if (is_image(name) && !is_folder(path))
        return append(s->list, path, s->label);
    s->out->others++;
    free(path);
    return KAS_OK;
}

static kas_status add_class(kas_folder *f, const char *name, const char *path)
{
    if (strlen(name) >= KAS_DATASET_NAME_SIZE || f->classes == KAS_DATASET_MAX_CLASSES)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected at most %d classes with names of 1 to %d bytes", path,
                        KAS_DATASET_MAX_CLASSES, KAS_DATASET_NAME_SIZE - 1);
    if (!KAS_GROW(f->class_name, f->classes) || !(f->class_name[f->classes] = strdup(name)))
        return no_memory();
    f->classes++;
    return KAS_OK;
}

static kas_status find_class(const kas_folder *f, const char *name, const char *path,
                             uint16_t *label)
{
    for (uint32_t low = 0, high = f->classes; low < high;) {
        uint32_t middle = (low + high) / 2;
        int order = strcmp(name, f->class_name[middle]);
        if (order == 0) {
            *label = (uint16_t)middle;
            return KAS_OK;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return kas_fail(KAS_BAD_INPUT, "%s: expected one of the %u classes of the training images",
                    path, f->classes);
}

static kas_status take_class_folder(scan *s, const char *name, const char *path)
{
    uint32_t before = s->list->count;
    if (s->learn)
        KAS_TRY(add_class(s->out, name, path));
    KAS_TRY(find_class(s->out, name, path, &s->label));
    KAS_TRY(for_entries(path, take_file, s));
    if (s->learn && s->list->count == before)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected the images of a class (.jpg, .jpeg or .png), found none",
                        path);
    return KAS_OK;
}

static kas_status take_entry(void *context, const char *name, char *path)
{
    scan *s = context;
    kas_status status = KAS_OK;
    if (is_folder(path))
        status = take_class_folder(s, name, path);
    else
        s->out->others++;
    free(path);
    return status;
}

static kas_status scan_part(const char *root, const char *part, bool learn, kas_folder *out,
                            kas_file_list *list)
{
    char *path = *part ? join(root, part) : strdup(root);
    scan s = {.out = out, .list = list, .learn = learn};
    kas_status status = path ? for_entries(path, take_entry, &s) : no_memory();
    if (status == KAS_OK && list->count == 0)
        status =
            kas_fail(KAS_BAD_INPUT,
                     "%s: expected a folder for each class with .jpg, .jpeg or .png files", path);
    free(path);
    return status;
}

static bool has_part(const char *root, const char *part)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", root, part) < (int)sizeof path && is_folder(path);
}

kas_status kas_folder_scan(const char *source, kas_folder *out)
{
    static const char *const tests[] = {"val", "test", "valid", "validation"};
    *out = (kas_folder){0};
    if (!is_folder(source))
        return kas_fail(KAS_BAD_INPUT, "%s: expected a folder of images", source);
    if (!has_part(source, "train"))
        return scan_part(source, "", true, out, &out->train);
    KAS_TRY(scan_part(source, "train", true, out, &out->train));
    const char *test = NULL;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!has_part(source, tests[i]))
            continue;
        if (test)
            kas_warn("%s: the test set is %s; %s is left out", source, test, tests[i]);
        else
            test = tests[i];
    }
    return test ? scan_part(source, test, false, out, &out->test) : KAS_OK;
}
