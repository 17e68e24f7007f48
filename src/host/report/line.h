/* Writes JSON results, one object a line, and formats numbers for people.
 *
 *     kas_line_begin(&out);                       {"schema_version": 1
 *     kas_line_text(&out, "state", "finished");   , "state": "finished"
 *     kas_line_number(&out, "accuracy", NAN);     , "accuracy": null
 *     kas_line_end(&out);                         }\n
 *
 * Every object begins with the schema's version.  A number that is not finite becomes null,
 * because JSON has no notation for it; finite numbers are written so that they read back to the
 * same bits. */
#ifndef KAS_REPORT_LINE_H
#define KAS_REPORT_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/buf.h"

enum { KAS_REPORT_SCHEMA = 1 }; /* raised when a field changes its meaning or is removed */

void kas_line_begin(kas_buf *out);
void kas_line_text(kas_buf *out, const char *name, const char *value); /* NULL gives null */
void kas_line_number(kas_buf *out, const char *name, double value);
void kas_line_int(kas_buf *out, const char *name, int64_t value);
void kas_line_uint(kas_buf *out, const char *name, uint64_t value);
void kas_line_bool(kas_buf *out, const char *name, bool value);
/* `json` is JSON text already */
void kas_line_json(kas_buf *out, const char *name, const char *json);
/* Begins a field whose value is JSON that the caller writes behind it */
void kas_line_key(kas_buf *out, const char *name);
void kas_line_end(kas_buf *out);

/* Each of these writes a number for people into `out` and returns `out`; "-" stands for a number
 * that is not finite. */
const char *kas_human_count(double value, char out[32]);      /* 8, 1.23 k, 45.6 M, 789 G */
const char *kas_human_seconds(double seconds, char out[32]);  /* 12.3 us, 4.56 ms, 78.9 s */
const char *kas_human_duration(double seconds, char out[32]); /* 42s, 3m05s, 2h07m, 5d03h */
const char *kas_human_bytes(double bytes, char out[32]);      /* 12 B, 3.45 KiB, 67.8 MiB */

#endif
