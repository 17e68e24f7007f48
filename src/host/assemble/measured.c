#include "host/assemble/measured.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/arena.h"
#include "host/core/json/json.h"
#include "host/core/sha256.h"

enum { MOST_BYTES = 1 << 28, MOST_DEPTH = 3 };

typedef struct entry {
    char key[KAS_MEASURED_KEY];
    int count;
    double *value;
} entry;

struct kas_measured {
    char *path;
    int fd;
    entry *entry;
    int entries;
};

void kas_measured_key(const char *text, char key[KAS_MEASURED_KEY])
{
    char hex[65];
    kas_sha256_hex(text, strlen(text), hex);
    snprintf(key, KAS_MEASURED_KEY, "%.32s", hex);
}

/* ---- entries --------------------------------------------------------------------------------- */

static kas_status remember(kas_measured *file, const char *key, const double *value, int count)
{
    if (!KAS_GROW(file->entry, file->entries))
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for %d lines", file->path, file->entries + 1);
    entry *to = &file->entry[file->entries];
    snprintf(to->key, sizeof to->key, "%s", key);
    to->count = count;
    to->value = malloc(sizeof *value * ((size_t)count + 1));
    if (!to->value)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for %d numbers", file->path, count);
    memcpy(to->value, value, sizeof *value * (size_t)count);
    file->entries++;
    return KAS_OK;
}

const double *kas_measured_find(const kas_measured *file, const char *key, int count)
{
    for (int i = 0; i < file->entries; i++)
        if (file->entry[i].count == count && strcmp(file->entry[i].key, key) == 0)
            return file->entry[i].value;
    return NULL;
}

static kas_status read_entry(kas_measured *file, const cJSON *json)
{
    const cJSON *key = cJSON_GetObjectItemCaseSensitive(json, "key"),
                *values = cJSON_GetObjectItemCaseSensitive(json, "values"), *one;
    const int count = cJSON_GetArraySize(values);
    int i = 0;
    if (!cJSON_IsString(key) || !cJSON_IsArray(values))
        return KAS_OK;
    double *value = malloc(sizeof *value * ((size_t)count + 1));
    if (!value)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for %d numbers", file->path, count);
    cJSON_ArrayForEach(one, values) value[i++] = cJSON_IsNumber(one) ? one->valuedouble : NAN;
    const kas_status status = remember(file, key->valuestring, value, count);
    free(value);
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static kas_status read_lines(kas_measured *file)
{
    kas_buf text = {0};
    kas_status status = kas_file_read(file->path, MOST_BYTES, &text);
    const char *line = kas_buf_text(&text);
    for (const char *end; status == KAS_OK && (end = strchr(line, '\n')); line = end + 1) {
        cJSON *json = NULL;
        if (kas_json_parse(file->path, line, (size_t)(end - line),
                           (kas_json_limits){MOST_BYTES, MOST_DEPTH}, &json) == KAS_OK)
            status = read_entry(file, json);
        cJSON_Delete(json);
    }
    /* What a process did not write to its end must not become the beginning of the next line. */
    if (status == KAS_OK && *line && write(file->fd, "\n", 1) != 1)
        status =
            kas_fail(KAS_FAILURE, "%s: cannot be written: %s", file->path, kas_strerror(errno));
    kas_buf_free(&text);
    return status;
}

static kas_status open_file(kas_measured *file)
{
    file->fd = open(file->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return kas_fail(kas_machine_or(KAS_BAD_INPUT), "%s: cannot be opened: %s", file->path,
                        kas_strerror(errno));
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: another process works with it; wait for its end, or give another -o",
                        file->path);
    return read_lines(file);
}

kas_status kas_measured_open(const char *path, kas_measured **out)
{
    kas_measured *file = calloc(1, sizeof *file);
    *out = NULL;
    if (!file)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory", path);
    file->fd = -1;
    file->path = strdup(path);
    const kas_status status =
        file->path ? open_file(file) : kas_fail(KAS_NO_MEMORY, "%s: no memory", path);
    if (status == KAS_OK)
        *out = file;
    else
        kas_measured_close(file);
    return status;
}

void kas_measured_close(kas_measured *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    for (int i = 0; i < file->entries; i++)
        free(file->entry[i].value);
    free(file->entry);
    free(file->path);
    free(file);
}

kas_status kas_measured_add(kas_measured *file, const char *key, const char *what,
                            const double *value, int count)
{
    kas_buf line = {0}, list = {0};
    for (int i = 0; i < count; i++)
        if (isfinite(value[i]))
            kas_buf_printf(&list, "%s%.17g", i ? "," : "", value[i]);
        else
            kas_buf_puts(&list, i ? ",null" : "null");
    kas_buf_puts(&line, "{\"key\": ");
    kas_buf_json_string(&line, key);
    kas_buf_puts(&line, ", \"what\": ");
    kas_buf_json_string(&line, what);
    kas_buf_printf(&line, ", \"values\": [%s]}\n", kas_buf_text(&list));
    kas_status status = kas_buf_status(&list);
    if (status == KAS_OK)
        status = kas_buf_status(&line);
    if (status == KAS_OK && write(file->fd, line.data, line.size) != (ssize_t)line.size)
        status = kas_fail(kas_machine_or(KAS_FAILURE), "%s: cannot be written: %s", file->path,
                          kas_strerror(errno));
    if (status == KAS_OK)
        status = remember(file, key, value, count);
    kas_buf_free(&list);
    kas_buf_free(&line);
    return status;
}
