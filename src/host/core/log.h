/* Log lines to stderr (and optionally to a file), for people.  Results never go here. */
#ifndef KAS_CORE_LOG_H
#define KAS_CORE_LOG_H

#include <stdio.h>

typedef enum kas_log_level {
    KAS_LOG_QUIET,
    KAS_LOG_WARN,
    KAS_LOG_INFO,
    KAS_LOG_DEBUG
} kas_log_level;

void kas_log_set_level(kas_log_level level); /* default KAS_LOG_INFO */
void kas_log_set_file(FILE *file); /* also write there, with time; NULL = no file; not owned */
/* The same for lines of the calling thread, in place of the file of all; NULL = that one again. */
void kas_log_set_thread_file(FILE *file);
void kas_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void kas_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void kas_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
