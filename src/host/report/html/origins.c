/* How a study was made: the command, the options, the versions. */
#include <string.h>
#include <time.h>

#include "host/report/html/markup.h"
#include "host/report/html/sections.h"
#include "host/report/line.h"

static void put_term(const char *term, kas_buf *out)
{
    kas_buf_printf(out, "<dt>%s</dt><dd>", term);
}

static void put_date(double seconds, kas_buf *out)
{
    const time_t when = (time_t)seconds;
    struct tm utc;
    char text[40] = "-";
    if (gmtime_r(&when, &utc))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
    kas_html_text(out, text);
}

static void put_facts(const kas_report_view *v, const char *about, kas_buf *out)
{
    char text[32];
    kas_buf_puts(out, "<dl>\n");
    put_term("folder", out);
    kas_html_text(out, v->folder);
    kas_buf_puts(out, "</dd>\n");
    put_term("begun", out);
    put_date(v->study.created, out);
    kas_html_put(out, "; supervisors worked on it for %s, device time %s",
                 kas_human_duration(v->study.busy_seconds, text),
                 kas_human_duration(v->device_seconds, (char[32]){0}));
    kas_buf_puts(out, "</dd>\n");
    put_term("device", out);
    kas_html_text(out, *v->study.device ? v->study.device : "not used yet");
    kas_buf_puts(out, "</dd>\n");
    put_term("data set", out);
    kas_html_put(out, "%s, SHA-256 ", v->study.dataset_path);
    kas_buf_puts(out, "<code>");
    kas_html_text(out, v->study.dataset_digest);
    kas_buf_puts(out, "</code></dd>\n");
    put_term("code", out);
    kas_html_put(out, "%s, sampler version %d",
                 *v->study.code_version ? v->study.code_version : "not recorded",
                 v->study.sampler_version);
    kas_buf_puts(out, "</dd>\n");
    put_term("report", out);
    kas_html_text(out, about);
    kas_buf_puts(out, "</dd>\n</dl>\n");
}

/* Returns what an empty list means. */
static const char *word_for_empty(const char *option)
{
    static const char *const words[][2] = {{"targets", "square (default)"},
                                           {"allow", "all"},
                                           {"kernels", "default"},
                                           {"dilations", "default"},
                                           {"shifts", "default"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(option, words[i][0]) == 0)
            return words[i][1];
    return "none";
}

/* Every option, also those that no command line gave. */
static void put_options(const kas_report_view *v, kas_buf *out)
{
    cJSON *options = cJSON_Parse(v->study.options);
    const cJSON *item;
    kas_buf_puts(out, "<h3>All options</h3>\n<ul class=\"options\">\n");
    cJSON_ArrayForEach(item, options)
    {
        if (strcmp(item->string, "network") == 0) /* a whole file; it lies in the data */
            continue;
        char *text = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
        const char *value = text ? text : cJSON_IsString(item) ? item->valuestring : "";
        kas_buf_puts(out, "<li><span>");
        kas_html_text(out, item->string);
        kas_buf_puts(out, "</span> <span>");
        const bool empty = !*value || strcmp(value, "[]") == 0;
        kas_html_put(out, "%.400s", empty ? word_for_empty(item->string) : value);
        kas_buf_puts(out, "</span></li>\n");
        cJSON_free(text);
    }
    kas_buf_puts(out, "</ul>\n");
    cJSON_Delete(options);
}

/* Says what the command is worth. Two runs differ where a program proposes or timing promotes. */
static void put_worth(const kas_report_view *v, kas_buf *out)
{
    int proposed = 0;
    for (int i = 0; i < v->count; i++)
        proposed += v->work[i].kind == KAS_WORK_CANDIDATE && kas_report_is_proposed(&v->work[i]);
    kas_buf_puts(out,
                 "<p class=\"note\">This command has the study’s options, and goes on with it; "
                 "with another --study it begins one that is equal");
    kas_html_put(out, " if each worker has %d thread%s (--threads is shared by the workers)",
                 v->options.threads, v->options.threads == 1 ? "" : "s");
    if (v->options.asynchronous)
        kas_buf_puts(out, ", but for which candidates go on from a rung");
    if (proposed)
        kas_html_put(out, ". A program proposed %d of its candidates, which the command has not",
                     proposed);
    kas_buf_puts(out, ".</p>\n");
}

kas_status kas_report_origins(const kas_report_view *v, const char *about, kas_buf *out)
{
    kas_buf command = {0};
    kas_search_options_command(&v->options, v->study.dataset_path, v->folder, &command);
    kas_html_section(out, "How it was made");
    kas_buf_puts(out, "<pre class=\"scroll\">");
    kas_html_text(out, kas_buf_text(&command));
    kas_buf_puts(out, "</pre>\n");
    put_worth(v, out);
    put_facts(v, about, out);
    put_options(v, out);
    kas_html_section_end(out);
    const kas_status status = kas_buf_status(&command);
    kas_buf_free(&command);
    return status;
}
