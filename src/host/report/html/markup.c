#include "host/report/html/markup.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/plain.h"

static void escape(kas_buf *out, const char *text)
{
    for (; *text; text++) {
        const size_t plain = strcspn(text, "&<>\"'");
        kas_buf_add(out, text, plain);
        text += plain;
        switch (*text) {
        case '&':
            kas_buf_puts(out, "&amp;");
            break;
        case '<':
            kas_buf_puts(out, "&lt;");
            break;
        case '>':
            kas_buf_puts(out, "&gt;");
            break;
        case '"':
            kas_buf_puts(out, "&quot;");
            break;
        case '\'':
            kas_buf_puts(out, "&#39;");
            break;
        default:
            return;
        }
    }
}

/* Returns a plain copy, which the caller frees; NULL when memory is exhausted. */
static char *plain_copy(const char *text)
{
    const size_t size = strlen(text) * KAS_PLAIN_GROWTH + 1;
    char *copy = malloc(size);
    if (copy)
        kas_plain_copy(copy, size, text);
    return copy;
}

void kas_html_text(kas_buf *out, const char *text)
{
    char *copy = kas_is_plain(text) ? NULL : plain_copy(text);
    if (copy || kas_is_plain(text))
        escape(out, copy ? copy : text);
    else
        out->failed = true;
    free(copy);
}

static void put(kas_buf *out, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0) {
        out->failed = true;
        return;
    }
    kas_html_text(out, text);
    free(text);
}

void kas_html_put(kas_buf *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put(out, format, args);
    va_end(args);
}

void kas_html_json(kas_buf *out, const char *json)
{
    char *copy = plain_copy(json);
    if (!copy) {
        out->failed = true;
        return;
    }
    for (const char *p = copy; *p;) {
        const size_t plain = strcspn(p, "<>&");
        kas_buf_add(out, p, plain);
        p += plain;
        if (*p)
            kas_buf_printf(out, "\\u%04x", (unsigned)*p++);
    }
    free(copy);
}

void kas_html_section(kas_buf *out, const char *heading)
{
    kas_buf_printf(out, "<section>\n<h2>%s</h2>\n", heading);
}

void kas_html_section_end(kas_buf *out)
{
    kas_buf_puts(out, "</section>\n");
}

void kas_html_cell(kas_buf *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    kas_buf_puts(out, "<td>");
    put(out, format, args);
    kas_buf_puts(out, "</td>");
    va_end(args);
}

void kas_html_number(kas_buf *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    kas_buf_puts(out, "<td class=\"n\">");
    put(out, format, args);
    kas_buf_puts(out, "</td>");
    va_end(args);
}

void kas_html_percent(kas_buf *out, double value)
{
    if (isfinite(value))
        kas_html_number(out, "%.2f%%", 100 * value);
    else
        kas_html_number(out, "-");
}

void kas_html_ratio(kas_buf *out, double value, double base)
{
    if (isfinite(value) && base > 0)
        kas_html_number(out, "%.*f", value / base < 0.1 ? 3 : 2, value / base);
    else
        kas_html_number(out, "-");
}
