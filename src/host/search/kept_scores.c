#include "host/search/kept_scores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"

enum { MOST_BYTES = 1 << 26 };

static int by_name(const void *a, const void *b)
{
    return strcmp(((const kas_kept_score *)a)->name, ((const kas_kept_score *)b)->name);
}

/* Reads a line that ends at `end`. Returns false where it is damaged. */
static bool read_line(const char *line, const char *end, kas_kept_score *out)
{
    int length = 0;
    _Static_assert(KAS_NAME_SIZE == 17, "the width in the format");
    return sscanf(line, "%16[0-9a-f] %lf %lf%n", out->name, &out->latency, &out->score, &length) ==
               3 &&
           line + length == end;
}

/* Takes the lines behind the digest up to the first damaged one, and adds them to the text as they are. */
static kas_status take_lines(const char *lines, kas_kept_scores *out)
{
    int room = 0;
    const char *at = lines;
    for (const char *line = lines; (line = strchr(line, '\n')); line++)
        room++;
    out->list = calloc((size_t)room + 1, sizeof *out->list);
    if (!out->list)
        return kas_fail(KAS_NO_MEMORY, "kept scores: out of memory");
    for (const char *end; (end = strchr(at, '\n')) && read_line(at, end, &out->list[out->count]);
         at = end + 1)
        out->count++;
    kas_buf_add(&out->text, lines, (size_t)(at - lines));
    qsort(out->list, (size_t)out->count, sizeof *out->list, by_name);
    return KAS_OK;
}

/* Returns what lies behind the first line; NULL: it has another digest. */
static const char *read_head(const char *text, kas_kept_scores *out)
{
    const size_t length = strlen(out->digest);
    const char *end = strchr(text, '\n');
    if (strncmp(text, out->digest, length) != 0 || !end || !strchr(" \n", text[length]))
        return NULL;
    if (sscanf(text + length, "%lf %lf", &out->effort.wall, &out->effort.processor) != 2)
        out->effort = (kas_elapsed){0};
    return end + 1;
}

kas_status kas_kept_scores_open(const char *path, const char *digest, kas_kept_scores *out)
{
    kas_buf file = {0};
    *out = (kas_kept_scores){.path = path};
    if (!path)
        return KAS_OK;
    kas_status status = KAS_OK;
    const char *lines = NULL;
    snprintf(out->digest, sizeof out->digest, "%s", digest);
    if (kas_file_exists(path) && kas_file_read(path, MOST_BYTES, &file) == KAS_OK)
        lines = read_head(kas_buf_text(&file), out);
    if (lines)
        status = take_lines(lines, out);
    kas_buf_free(&file);
    return status;
}

void kas_kept_scores_free(kas_kept_scores *scores)
{
    free(scores->list);
    kas_buf_free(&scores->text);
}

const kas_kept_score *kas_kept_scores_find(const kas_kept_scores *scores, const char *name)
{
    kas_kept_score key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return scores->count ? bsearch(&key, scores->list, (size_t)scores->count, sizeof key, by_name)
                         : NULL;
}

void kas_kept_scores_add(kas_kept_scores *scores, const char *name, double latency, double score)
{
    if (scores->path && !kas_kept_scores_find(scores, name))
        kas_buf_printf(&scores->text, "%s %.17g %.17g\n", name, latency, score);
}

kas_status kas_kept_scores_save(const kas_kept_scores *scores, kas_elapsed effort)
{
    kas_buf file = {0};
    if (!scores->path)
        return KAS_OK;
    kas_buf_printf(&file, "%s %.3f %.3f\n", scores->digest, effort.wall, effort.processor);
    kas_buf_add(&file, kas_buf_text(&scores->text), scores->text.size);
    kas_status status = kas_buf_status(scores->text.failed ? &scores->text : &file);
    if (status == KAS_OK)
        status = kas_file_write_atomic(scores->path, file.data, file.size);
    kas_buf_free(&file);
    return status;
}
