/* Which studies differ only in their seed: their options are compared field by field. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/sections.h"

/* These affect no result, or are what the studies of a group may differ in: the seed, and what follows
 * from it. */
static const char *const ignored[] = {"seed",   "ancestry",     "threads",
                                      "stream", "read_threads", "network"};
enum { MOST_VARYING = 4 };

static cJSON *parse(const kas_report_view *v)
{
    cJSON *options = cJSON_Parse(v->study.options);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(options, ignored[i]);
    if (options)
        cJSON_AddStringToObject(options, "data", v->study.dataset_digest);
    return options;
}

static void add_value(const kas_report_view *v, const cJSON *item, kas_buf *out)
{
    char *text = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
    const char *path = strrchr(v->study.dataset_path, '/');
    kas_buf_printf(out, "%s%s ", out->size ? ", " : "", item->string);
    if (strcmp(item->string, "data") == 0)
        kas_buf_puts(out, path ? path + 1 : v->study.dataset_path);
    else if (cJSON_IsArray(item) && text) /* without its brackets */
        kas_buf_printf(out, "%.*s", text[1] == ']' ? 4 : (int)strlen(text) - 2,
                       text[1] == ']' ? "none" : text + 1);
    else
        kas_buf_puts(out, cJSON_IsString(item) ? item->valuestring : text ? text : "?");
    cJSON_free(text);
}

/* Labels each group with the fields in which it differs from another one. */
static void add_labels(const kas_report_view *v, cJSON *const *options, kas_report_group *group,
                       int groups)
{
    for (int g = 0; g < groups; g++) {
        const cJSON *item;
        kas_buf label = {0};
        int varying = 0;
        cJSON_ArrayForEach(item, options[group[g].study[0]])
        {
            bool differs = false;
            for (int h = 0; h < groups && !differs; h++)
                differs = !cJSON_Compare(
                    item,
                    cJSON_GetObjectItemCaseSensitive(options[group[h].study[0]], item->string),
                    true);
            if (differs && varying++ < MOST_VARYING)
                add_value(&v[group[g].study[0]], item, &label);
        }
        snprintf(group[g].label, sizeof group[g].label, "%s%s",
                 groups == 1 ? "best candidate" : kas_buf_text(&label),
                 varying > MOST_VARYING ? ", ..." : "");
        kas_buf_free(&label);
    }
}

static void collect(cJSON *const *options, int count, kas_report_group *group, int *groups)
{
    for (int i = 0; i < count; i++) {
        int g = 0;
        while (g < *groups && !cJSON_Compare(options[i], options[group[g].study[0]], true))
            g++;
        *groups += g == *groups;
        group[g].study[group[g].count++] = i;
    }
}

kas_status kas_report_groups(const kas_report_view *v, int count, kas_report_group **out,
                             int *groups)
{
    cJSON **options = calloc((size_t)count, sizeof *options);
    bool failed = !options;
    *out = calloc((size_t)count, sizeof **out);
    *groups = 0;
    for (int i = 0; options && i < count; i++)
        failed |= !(options[i] = parse(&v[i]));
    if (!failed && *out) {
        collect(options, count, *out, groups);
        add_labels(v, options, *out, *groups);
    }
    for (int i = 0; options && i < count; i++)
        cJSON_Delete(options[i]);
    free(options);
    return failed || !*out ? kas_fail(KAS_NO_MEMORY, "out of memory for a comparison") : KAS_OK;
}
