/* Text in HTML and SVG, and the few elements that every section of a report uses.
 *
 * Everything that comes from a file (names, paths, messages, labels) is written with kas_html_text
 * or kas_html_put, which replace the characters that HTML and SVG give a meaning to, in elements
 * and in attributes alike, and the control characters (core/plain.h). Only markup and numbers of
 * our own are written with kas_buf_printf. */
#ifndef KAS_REPORT_HTML_MARKUP_H
#define KAS_REPORT_HTML_MARKUP_H

#include "host/core/buf.h"

void kas_html_text(kas_buf *out, const char *text);
/* Formats, then escapes the whole result. */
void kas_html_put(kas_buf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends JSON so that it may stand in a script element: "<", ">" and "&", which JSON has only
 * inside strings, become \u003c and so on, and bytes that are not UTF-8 are replaced. */
void kas_html_json(kas_buf *out, const char *json);

/* <section> with a heading of our own. */
void kas_html_section(kas_buf *out, const char *heading);
void kas_html_section_end(kas_buf *out);

/* A cell of a table: <td>, or <td class="n"> for a number. */
void kas_html_cell(kas_buf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kas_html_number(kas_buf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes "93.21%", "-" for a number that is not known. */
void kas_html_percent(kas_buf *out, double value);
/* Writes "0.41" or "0.041", "-" where the ratio is not known. */
void kas_html_ratio(kas_buf *out, double value, double base);

/* The name of a kernel as a report shows it: its first 8 digits. */
enum { KAS_SHORT_NAME = 8 };

#endif
