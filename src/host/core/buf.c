#include "host/core/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kas_buf_free(kas_buf *buf)
{
    free(buf->data);
    *buf = (kas_buf){0};
}

void kas_buf_clear(kas_buf *buf)
{
    buf->size = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

/* Makes room for `extra` more bytes and the NUL. */
static bool reserve(kas_buf *buf, size_t extra)
{
    if (buf->failed || extra > SIZE_MAX / 4 - buf->size) {
        buf->failed = true;
        return false;
    }
    size_t needed = buf->size + extra + 1;
    if (needed <= buf->capacity)
        return true;
    size_t capacity = buf->capacity ? buf->capacity : 256;
    while (capacity < needed)
        capacity *= 2;
    char *data = realloc(buf->data, capacity);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void kas_buf_add(kas_buf *buf, const void *bytes, size_t size)
{
    if (!reserve(buf, size))
        return;
    if (size)
        memcpy(buf->data + buf->size, bytes, size);
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void kas_buf_puts(kas_buf *buf, const char *text)
{
    kas_buf_add(buf, text, strlen(text));
}

void kas_buf_printf(kas_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    kas_buf_vprintf(buf, format, args);
    va_end(args);
}

void kas_buf_vprintf(kas_buf *buf, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0)
        buf->failed = true;
    else if (reserve(buf, (size_t)length)) {
        vsnprintf(buf->data + buf->size, (size_t)length + 1, format, again);
        buf->size += (size_t)length;
    }
    va_end(again);
}

void kas_buf_number(kas_buf *buf, double value)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    kas_buf_puts(buf, text);
}

const char *kas_buf_text(const kas_buf *buf)
{
    return buf->data ? buf->data : "";
}

kas_status kas_buf_status(const kas_buf *buf)
{
    return buf->failed ? kas_fail(KAS_NO_MEMORY, "out of memory while writing text") : KAS_OK;
}

kas_status kas_buf_take(kas_buf *buf, char **out)
{
    const kas_status status = kas_buf_status(buf);
    if (status != KAS_OK)
        kas_buf_free(buf);
    *out = buf->data;
    *buf = (kas_buf){0};
    return status;
}

void kas_buf_json_string(kas_buf *buf, const char *text)
{
    kas_buf_puts(buf, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            kas_buf_printf(buf, "\\%c", *p);
        else if (*p == '\n')
            kas_buf_puts(buf, "\\n");
        else if (*p < 0x20 || *p == 0x7f)
            kas_buf_printf(buf, "\\u%04x", *p);
        else
            kas_buf_add(buf, p, 1);
    }
    kas_buf_puts(buf, "\"");
}

void kas_buf_shell_word(kas_buf *buf, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=:,+@%";
    if (*text && strspn(text, plain) == strlen(text)) {
        kas_buf_puts(buf, text);
        return;
    }
    kas_buf_puts(buf, "'");
    for (const char *p = text; *p; p++)
        if (*p == '\'')
            kas_buf_puts(buf, "'\\''");
        else
            kas_buf_add(buf, p, 1);
    kas_buf_puts(buf, "'");
}
