/* Prints to standard output and remembers its failures, so that no command has to check
 * for them. */
#include "host/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/plain.h"

static int first_error; /* errno of the first write that failed: stdio forgets it */

static void put(const char *text)
{
    const size_t size = strlen(text);
    if (fwrite(text, 1, size, stdout) != size && !first_error)
        first_error = errno;
}

static void put_plain(const char *text)
{
    const size_t size = strlen(text) * KAS_PLAIN_GROWTH + 1;
    char *plain = kas_is_plain(text) ? NULL : malloc(size);
    if (plain)
        kas_plain_copy(plain, size, text);
    if (plain || kas_is_plain(text))
        put(plain ? plain : text);
    else if (!first_error)
        first_error = ENOMEM;
    free(plain);
}

void kas_print(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    if (length >= 0)
        put_plain(text);
    else if (!first_error)
        first_error = ENOMEM;
    free(length >= 0 ? text : NULL);
}

kas_status kas_print_buf(kas_buf *text)
{
    const kas_status status = kas_buf_status(text);
    if (status == KAS_OK)
        put_plain(kas_buf_text(text));
    kas_buf_free(text);
    return status;
}

void kas_print_flush(void)
{
    if (fflush(stdout) != 0 && !first_error)
        first_error = errno;
}

kas_status kas_print_end(void)
{
    const bool failed = ferror(stdout);
    kas_print_flush();
    /* Some file systems report only now that there is no room. When a process began without a
     * standard output, its printing has failed before. */
    if (fclose(stdout) != 0 && !first_error && errno != EBADF)
        first_error = errno;
    if (!first_error && !failed)
        return KAS_OK;
    if (first_error == EPIPE) /* the reader has enough, as in `| head` */
        return kas_fail(KAS_FAILURE, "%s", "");
    return kas_fail(KAS_FAILURE, "standard output: %s",
                    kas_strerror(first_error ? first_error : EIO));
}
