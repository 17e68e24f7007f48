#include "host/core/log.h"

#include <stdarg.h>
#include <time.h>

#include "host/core/plain.h"

enum { LINE_SIZE = 4096 };

static kas_log_level level = KAS_LOG_INFO;
static FILE *log_file;
static _Thread_local FILE *thread_file;

void kas_log_set_level(kas_log_level l)
{
    level = l;
}

void kas_log_set_file(FILE *file)
{
    log_file = file;
}

void kas_log_set_thread_file(FILE *file)
{
    thread_file = file;
}

static void write_line(FILE *out, const char *prefix, const char *format, va_list args)
{
    char raw[LINE_SIZE], text[LINE_SIZE];
    vsnprintf(raw, sizeof raw, format, args);
    kas_plain_copy(text, sizeof text, raw);
    flockfile(out); /* keeps lines of several threads whole */
    fprintf(out, "%s%s\n", prefix, text);
    fflush(out);
    funlockfile(out);
}

static void log_line(kas_log_level at, const char *prefix, const char *format, va_list args)
{
    FILE *file = thread_file ? thread_file : log_file;
    if (file) {
        char stamp[64];
        time_t now = time(NULL);
        struct tm parts;
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ ", gmtime_r(&now, &parts));
        fputs(stamp, file);
        va_list again;
        va_copy(again, args);
        write_line(file, prefix, format, again);
        va_end(again);
    }
    if (level >= at)
        write_line(stderr, prefix, format, args);
}

void kas_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line(KAS_LOG_WARN, "warning: ", format, args);
    va_end(args);
}

void kas_info(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line(KAS_LOG_INFO, "", format, args);
    va_end(args);
}

void kas_debug(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line(KAS_LOG_DEBUG, "debug: ", format, args);
    va_end(args);
}
