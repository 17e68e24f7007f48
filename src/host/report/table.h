/* Formats tables for people: each column is as wide as its widest cell.
 *
 *     const kas_column columns[] = {{"kernel", KAS_LEFT}, {"top-1", KAS_RIGHT}};
 *     kas_table *t = kas_table_create(columns, 2);
 *     kas_table_cell(t, "%s", name);
 *     kas_table_cell(t, "%.2f%%", 100 * accuracy);
 *     kas_table_end(t, &out);
 *
 * Cells fill rows from left to right.  Width counts characters of UTF-8, not bytes. */
#ifndef KAS_REPORT_TABLE_H
#define KAS_REPORT_TABLE_H

#include "host/core/buf.h"
#include "host/core/status.h"

typedef enum kas_align { KAS_LEFT, KAS_RIGHT } kas_align;
typedef struct kas_column {
    const char *title; /* must outlive the table */
    kas_align align;
} kas_column;

typedef struct kas_table kas_table;

/* Creates a table with `count` columns, which are copied; the caller frees it with kas_table_free.
 * Returns NULL when memory is exhausted; the other functions accept that NULL and do nothing, but
 * kas_table_write and kas_table_end fail. */
kas_table *kas_table_create(const kas_column *columns, int count);
void kas_table_free(kas_table *table); /* NULL is allowed */
void kas_table_cell(kas_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends the header, a rule and the rows, with two blanks between columns and none at the ends of
 * lines. An incomplete last row is filled with empty cells. Fails with KAS_NO_MEMORY, and marks `out`
 * as failed, when an allocation failed. */
kas_status kas_table_write(const kas_table *table, kas_buf *out);
/* Writes the table and frees it; kas_buf_status tells whether that failed. */
void kas_table_end(kas_table *table, kas_buf *out);

#endif
