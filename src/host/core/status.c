#include "host/core/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "host/core/plain.h"

enum { MESSAGE_SIZE = 2048 };

static _Thread_local char message[MESSAGE_SIZE];
static _Thread_local bool quiet;

bool kas_quiet(bool on)
{
    const bool before = quiet;
    quiet = on;
    return before;
}

bool kas_is_quiet(kas_status code)
{
    return quiet && kas_is_misfit(code);
}

kas_status kas_fail(kas_status code, const char *format, ...)
{
    /* The arguments may point into the present message (kas_error()), so the new one is built in
     * a buffer. */
    char text[MESSAGE_SIZE];
    va_list args;
    if (kas_is_quiet(code))
        return code;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    kas_plain_copy(message, sizeof message, text);
    return code;
}

kas_status kas_fail_context(kas_status code, const char *format, ...)
{
    char context[512];
    va_list args;
    if (kas_is_quiet(code))
        return code;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    return kas_fail(code, "%s: %s", context, message);
}

/* The text of an error from a limit of `ulimit` does not say which limit it was. */
const char *kas_strerror(int error)
{
    static _Thread_local char text[256];
    static const struct {
        int error, resource;
        const char *what;
    } limits[] = {
        {EFBIG, RLIMIT_FSIZE, "the limit on the size of files, `ulimit -f`, is %llu bytes"},
        {EMFILE, RLIMIT_NOFILE, "the limit on open files, `ulimit -n`, is %llu"},
    };
    struct rlimit limit;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (error == limits[i].error && getrlimit(limits[i].resource, &limit) == 0 &&
            limit.rlim_cur != RLIM_INFINITY) {
            char why[128];
            snprintf(why, sizeof why, limits[i].what, (unsigned long long)limit.rlim_cur);
            snprintf(text, sizeof text, "%s (%s)", strerror(error), why);
            return text;
        }
    return strerror(error);
}

kas_status kas_machine_or(kas_status otherwise)
{
    switch (errno) {
    case EAGAIN:
    case EDQUOT:
    case EFBIG: /* the limit on file sizes, since no file here grows without bound */
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENODEV:
    case ENOMEM:
    case ENOSPC:
    case ENXIO:
    case EROFS:
    case ESTALE:
        return KAS_MACHINE;
    default:
        return otherwise;
    }
}

kas_status kas_fail_errno(kas_status code, const char *what)
{
    return kas_fail(kas_machine_or(code), "%s: %s", what, kas_strerror(errno));
}

const char *kas_error(void)
{
    return message;
}

int kas_exit_code(kas_status status)
{
    switch (status) {
    case KAS_SHOWN:
        return KAS_OK;
    case KAS_NO_MEMORY:
    case KAS_MACHINE:
        return KAS_FAILURE;
    case KAS_UNSUPPORTED:
    case KAS_DEVICE_LOST:
        return KAS_DEVICE;
    case KAS_ILLEGAL:
    case KAS_OVER_BUDGET:
        return KAS_BAD_INPUT;
    default:
        return (int)status;
    }
}
