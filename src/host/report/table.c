#include "host/report/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kas_table {
    kas_column *columns;
    int column_count;
    kas_buf text;  /* the text of all cells, each with its NUL */
    kas_buf start; /* size_t for each cell: where it begins in `text` */
};

kas_table *kas_table_create(const kas_column *columns, int count)
{
    kas_table *t = calloc(1, sizeof *t);
    if (!t || !(t->columns = malloc((size_t)count * sizeof *columns))) {
        free(t);
        return NULL;
    }
    memcpy(t->columns, columns, (size_t)count * sizeof *columns);
    t->column_count = count;
    return t;
}

void kas_table_free(kas_table *t)
{
    if (!t)
        return;
    kas_buf_free(&t->text);
    kas_buf_free(&t->start);
    free(t->columns);
    free(t);
}

void kas_table_cell(kas_table *t, const char *format, ...)
{
    if (!t)
        return;
    va_list args;
    va_start(args, format);
    char *cell = NULL;
    int length = vasprintf(&cell, format, args);
    va_end(args);
    if (length < 0) {
        t->text.failed = true;
        return;
    }
    kas_buf_add(&t->start, &t->text.size, sizeof t->text.size);
    kas_buf_add(&t->text, cell, (size_t)length + 1);
    free(cell);
}

/* Bytes that continue a character of UTF-8 are 10xxxxxx. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static size_t cell_count(const kas_table *t)
{
    return t->start.size / sizeof(size_t);
}

/* Row -1 is the header. */
static const char *cell_at(const kas_table *t, long row, int column)
{
    if (row < 0)
        return t->columns[column].title;
    size_t index = (size_t)row * (size_t)t->column_count + (size_t)column, start;
    if (index >= cell_count(t))
        return "";
    memcpy(&start, t->start.data + index * sizeof start, sizeof start);
    return t->text.data + start;
}

static int column_width(const kas_table *t, long rows, int column)
{
    int width = 0;
    for (long row = -1; row < rows; row++) {
        int w = width_of(cell_at(t, row, column));
        width = w > width ? w : width;
    }
    return width;
}

static void write_row(const kas_table *t, long row, const int *width, kas_buf *out)
{
    int blanks = 0; /* written only when something follows them */
    for (int c = 0; c < t->column_count; c++) {
        const char *cell = cell_at(t, row, c);
        int room = width[c] - width_of(cell);
        if (t->columns[c].align == KAS_RIGHT)
            blanks += room;
        if (*cell)
            kas_buf_printf(out, "%*s%s", blanks, "", cell), blanks = 0;
        if (t->columns[c].align == KAS_LEFT)
            blanks += room;
        blanks += 2;
    }
    kas_buf_puts(out, "\n");
}

static void write_rule(const kas_table *t, const int *width, kas_buf *out)
{
    for (int c = 0; c < t->column_count; c++) {
        if (c > 0)
            kas_buf_puts(out, "  ");
        for (int i = 0; i < width[c]; i++)
            kas_buf_puts(out, "-");
    }
    kas_buf_puts(out, "\n");
}

kas_status kas_table_write(const kas_table *t, kas_buf *out)
{
    int *width = t ? malloc((size_t)t->column_count * sizeof *width) : NULL;
    if (!width || t->text.failed || t->start.failed) {
        free(width);
        out->failed = true;
        return kas_fail(KAS_NO_MEMORY, "out of memory for a table");
    }
    size_t columns = (size_t)t->column_count;
    long rows = (long)((cell_count(t) + columns - 1) / columns);
    for (int c = 0; c < t->column_count; c++)
        width[c] = column_width(t, rows, c);
    write_row(t, -1, width, out);
    write_rule(t, width, out);
    for (long row = 0; row < rows; row++)
        write_row(t, row, width, out);
    free(width);
    return kas_buf_status(out);
}

void kas_table_end(kas_table *t, kas_buf *out)
{
    kas_table_write(t, out);
    kas_table_free(t);
}
