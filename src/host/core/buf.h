/* A growing text buffer, used for generated source, JSON and reports.
 *
 * Always NUL-terminated.  An allocation that fails sets `failed`, and later calls then do
 * nothing, so that a writer checks once at its end (kas_buf_status).  Zero-initialise: `kas_buf b
 * = {0};`. */
#ifndef KAS_CORE_BUF_H
#define KAS_CORE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/core/status.h"

typedef struct kas_buf {
    char *data; /* owned; NULL while nothing was written (use kas_buf_text) */
    size_t size, capacity;
    bool failed;
} kas_buf;

void kas_buf_free(kas_buf *buf);  /* frees and zeroes */
void kas_buf_clear(kas_buf *buf); /* keeps the memory */
void kas_buf_add(kas_buf *buf, const void *bytes, size_t size);
void kas_buf_puts(kas_buf *buf, const char *text);
void kas_buf_printf(kas_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kas_buf_vprintf(kas_buf *buf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* Appends the number with the fewest digits, 15 to 17, that read back to the same number. */
void kas_buf_number(kas_buf *buf, double value);
const char *kas_buf_text(const kas_buf *buf);  /* "" when empty */
kas_status kas_buf_status(const kas_buf *buf); /* KAS_NO_MEMORY when an allocation failed */
/* Ends the buffer. *out gets its text (NULL: nothing was written), which the caller frees with free();
 * NULL when an allocation failed (KAS_NO_MEMORY). */
kas_status kas_buf_take(kas_buf *buf, char **out);

/* Appends `text` as a JSON string with quotes and escapes. */
void kas_buf_json_string(kas_buf *buf, const char *text);

/* Appends `text` as one word of a POSIX shell, with quotes where the shell needs them. It is for
 * commands that a user is told to paste. */
void kas_buf_shell_word(kas_buf *buf, const char *text);

#endif
