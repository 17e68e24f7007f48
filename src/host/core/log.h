/* Writes log lines for people to stderr and, on request, to a file. Results never go here. */
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
/* Also writes all later lines to `file`, with the time in front. The caller keeps ownership of it;
 * NULL ends this. */
void kas_log_set_file(FILE *file);
/* Sets the file for lines of the calling thread alone, in place of the common one; NULL returns to
 * the common file. */
void kas_log_set_thread_file(FILE *file);
void kas_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void kas_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void kas_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
