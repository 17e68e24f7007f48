/* Decides which candidates' trained weights stay in the study: those of the accuracy/latency
 * frontier and of the candidate that leads, the most accurate first, up to the limit of disk space.
 *
 * A worker writes the weights of every candidate that it trains to the end. The others are deleted
 * here when an item has ended. A crash in between leaves at most one file too many, which is
 * deleted when the next item ends. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/arena.h"
#include "host/leaderboard/judge.h"
#include "host/leaderboard/objective.h"
#include "host/search/supervisor/supervisor_state.h"

typedef struct weights_file {
    const kas_work *work; /* ended */
    bool wanted;
    uint64_t size; /* of its file */
    char path[KAS_STUDY_PATH];
} weights_file;

static int number_of(const kas_supervisor *s, const char *name)
{
    size_t length = strcspn(name, ".");
    for (int i = 0; i < s->count; i++)
        if (s->list[i].kind == KAS_WORK_CANDIDATE && strlen(s->list[i].name) == length &&
            memcmp(s->list[i].name, name, length) == 0)
            return i;
    return -1;
}

/* Adds the file `name` to the list if its candidate has ended; *out grows. */
static kas_status collect(const kas_supervisor *s, const char *name, const kas_work *leader,
                          weights_file **out, int *count)
{
    int i = number_of(s, name);
    struct stat info;
    if (i < 0 || !kas_work_ended(s->list[i].state))
        return KAS_OK;
    if (!KAS_GROW(*out, *count))
        return kas_fail(KAS_NO_MEMORY, "no memory for the list of weights");
    weights_file *k = &(*out)[*count];
    *k = (weights_file){.work = &s->list[i],
                        .wanted =
                            kas_judge_on_frontier(s->list, s->count, i) || &s->list[i] == leader};
    KAS_TRY(kas_study_weights_path(s->options->study, k->work, k->path));
    if (stat(k->path, &info) != 0)
        return KAS_OK; /* another supervisor has deleted it */
    k->size = (uint64_t)info.st_size;
    ++*count;
    return KAS_OK;
}

static int by_rank(const void *a, const void *b)
{
    return kas_objective_compare(((const weights_file *)a)->work, ((const weights_file *)b)->work);
}

static void drop(weights_file *file, int count, uint64_t limit)
{
    uint64_t total = 0;
    if (count > 0)
        qsort(file, (size_t)count, sizeof *file, by_rank);
    for (int i = 0; i < count; i++)
        if (file[i].wanted && total + file[i].size <= limit)
            total += file[i].size;
        else
            unlink(file[i].path);
}

kas_status kas_supervisor_keep_weights(kas_supervisor *s)
{
    char folder[KAS_STUDY_PATH];
    weights_file *file = NULL;
    int count = 0;
    kas_status status = kas_study_path(s->options->study, "weights", folder);
    DIR *dir = status == KAS_OK ? opendir(folder) : NULL;
    if (!dir)
        return status; /* no weights were kept yet */
    const kas_work *leader = kas_supervisor_leader(s);
    for (struct dirent *e; status == KAS_OK && (e = readdir(dir));)
        status = collect(s, e->d_name, leader, &file, &count);
    closedir(dir);
    if (status == KAS_OK)
        drop(file, count, s->options->weights_limit);
    free(file);
    return status;
}
