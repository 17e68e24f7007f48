#include "host/core/cgroup.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A mounted hierarchy: a line of /proc/self/mountinfo (proc(5)). */
typedef struct hierarchy {
    char group[PATH_MAX];   /* the group that is visible at the mount point */
    char point[PATH_MAX];   /* the mount point */
    char options[PATH_MAX]; /* v1: contains its controllers */
    bool v2;
} hierarchy;

static bool in_list(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, word, length) == 0 && (p[length] == ',' || p[length] == '\0'))
            return true;
    return false;
}

static FILE *open_below(const char *root, const char *path)
{
    char *whole;
    if (asprintf(&whole, "%s%s", root, path) < 0)
        return NULL;
    FILE *file = fopen(whole, "re");
    free(whole);
    return file;
}

/* ---- folders of groups ----------------------------------------------------------------------- */

static bool read_hierarchy(const char *line, hierarchy *out)
{
    char type[32];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", out->group, out->point) != 2 ||
        sscanf(rest, " - %31s %*s %4095s", type, out->options) != 2)
        return false;
    out->v2 = strcmp(type, "cgroup2") == 0;
    return out->v2 || strcmp(type, "cgroup") == 0;
}

/* Returns this process's group in the hierarchy with `controller`, "" for v2; NULL when it
 * has none. */
static char *own_group(const char *root, const char *controller)
{
    char *line = NULL, *group = NULL;
    size_t capacity = 0;
    FILE *file = open_below(root, "/proc/self/cgroup");
    while (file && !group && getline(&line, &capacity, file) > 0) { /* number:controllers:group */
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        list++;
        path[strcspn(path, "\n")] = '\0';
        if (*controller ? in_list(list, controller) : *list == '\0')
            group = strdup(path);
    }
    free(line);
    if (file)
        fclose(file);
    return group;
}

/* Writes the folder of `group`. When the hierarchy shows another part of the tree, as in a
 * container, it is the folder of the topmost visible group. */
static void folder_of(const hierarchy *h, const char *group, char out[2 * PATH_MAX])
{
    const size_t above = strcmp(h->group, "/") == 0 ? 0 : strlen(h->group);
    const bool inside = strncmp(group, h->group, above) == 0 &&
                        (group[above] == '/' || group[above] == '\0') && !strstr(group, "/..");
    snprintf(out, 2 * PATH_MAX, "%s%s", h->point, inside ? group + above : "");
}

/* ---- limits of a group ----------------------------------------------------------------------- */

/* Reads up to two words of a file, such as "max 100000". Returns false when there is no
 * such file. */
static bool read_words(const char *root, const char *folder, const char *name, char word[2][32])
{
    char path[2 * PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = open_below(root, path);
    word[0][0] = word[1][0] = '\0';
    if (!file)
        return false;
    const int got = fscanf(file, "%31s %31s", word[0], word[1]);
    fclose(file);
    return got >= 1;
}

static void take_memory(const char *text, kas_cgroup_limits *limits)
{
    char *end;
    const unsigned long long bytes = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0' && bytes < limits->memory)
        limits->memory = bytes; /* v1 writes a number near 2^63 for no limit; no machine is
                                   larger */
}

static void take_cores(const char *quota, const char *period, kas_cgroup_limits *limits)
{
    const double time = atof(quota), of = atof(period); /* "max" gives 0, and v1 writes -1 for no
                                                           limit */
    if (time > 0 && of > 0)
        limits->cores = fmin(limits->cores, time / of);
}

static void read_group(const char *root, bool v2, const char *folder, kas_cgroup_limits *limits)
{
    char word[2][32], period[2][32];
    if (read_words(root, folder, v2 ? "memory.max" : "memory.limit_in_bytes", word))
        take_memory(word[0], limits);
    if (v2 && read_words(root, folder, "cpu.max", word))
        take_cores(word[0], word[1], limits);
    if (!v2 && read_words(root, folder, "cpu.cfs_quota_us", word) &&
        read_words(root, folder, "cpu.cfs_period_us", period))
        take_cores(word[0], period[0], limits);
}

/* Reads the limits of the process's own group and of all groups up to the mount point. */
static void read_hierarchy_limits(const char *root, const hierarchy *h, const char *controller,
                                  kas_cgroup_limits *limits)
{
    char folder[2 * PATH_MAX];
    char *group = own_group(root, controller);
    if (!group)
        return;
    folder_of(h, group, folder);
    free(group);
    for (size_t length = strlen(folder); length >= strlen(h->point) && length > 0;) {
        read_group(root, h->v2, folder, limits);
        char *slash = strrchr(folder, '/');
        if (!slash)
            break;
        *slash = '\0';
        length = strlen(folder);
    }
}

kas_cgroup_limits kas_cgroup_read(const char *root)
{
    kas_cgroup_limits limits = {UINT64_MAX, INFINITY};
    static const char *const controllers[] = {"memory", "cpu"};
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = open_below(root, "/proc/self/mountinfo");
    while (file && getline(&line, &capacity, file) > 0) {
        hierarchy h;
        if (!read_hierarchy(line, &h))
            continue;
        if (h.v2)
            read_hierarchy_limits(root, &h, "", &limits);
        for (int i = 0; i < 2 && !h.v2; i++)
            if (in_list(h.options, controllers[i]))
                read_hierarchy_limits(root, &h, controllers[i], &limits);
    }
    free(line);
    if (file)
        fclose(file);
    return limits;
}
