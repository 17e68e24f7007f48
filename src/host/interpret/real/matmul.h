/* Matrix product: y[m][n] = sum over k of a[m][k] * b[k][n], or added to y.
 *
 * `real` is defined by the file that includes this one (engine_f32.c, engine_f64.c); so are all
 * headers of this folder. A panel of b is packed, because rows of images that lie a power of two
 * apart would share few lines of the cache, and is then read once for every few rows of a. */
#ifndef KAS_INTERPRET_REAL_MATMUL_H
#define KAS_INTERPRET_REAL_MATMUL_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    LANES = 64 / sizeof(real),
#ifdef __AVX512F__
    VECTORS = 2, /* accumulators: ROWS * VECTORS of 32 registers, or of 16 of half the size */
    ROWS = 8,
#else
    VECTORS = 1,
    ROWS = 4,
#endif
    COLUMNS = VECTORS * LANES,
    DEPTH = 256 /* of a panel */
};
typedef real vec __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));

/* a[m][k] is at a[m * row + k * column]. */
typedef struct matrix {
    const real *at;
    size_t row, column;
} matrix;

/* A tile of y: `rows` rows of `columns` elements, which are at most `vectors` vectors. */
typedef struct tile {
    real *y;
    size_t row, columns;
    bool add;
} tile;

static inline __attribute__((always_inline)) void
tile_of(int rows, int vectors, size_t depth, const matrix *a, const real *panel, const tile *to)
{
    vec sum[ROWS][VECTORS];
    for (int r = 0; r < rows; r++) /* not = {0}, of which gcc makes a call of memset */
        for (int v = 0; v < vectors; v++)
            sum[r][v] = (vec){0};
    for (size_t k = 0; k < depth; k++) {
        vec b[VECTORS];
        for (int v = 0; v < vectors; v++)
            b[v] = *(const vec *)(panel + (k * (size_t)vectors + (size_t)v) * LANES);
        for (int r = 0; r < rows; r++) {
            const real factor = a->at[(size_t)r * a->row + k * a->column];
            for (int v = 0; v < vectors; v++)
                sum[r][v] += factor * b[v];
        }
    }
    for (int r = 0; r < rows; r++) {
        real *y = to->y + (size_t)r * to->row;
        if (to->columns == (size_t)vectors * LANES) {
            for (int v = 0; v < vectors; v++) {
                vec *part = (vec *)(y + v * LANES);
                const vec before = to->add ? *part : (vec){0};
                *part = before + sum[r][v];
            }
            continue;
        }
        for (size_t c = 0; c < to->columns; c++)
            y[c] = (to->add ? y[c] : 0) + sum[r][c / LANES][c % LANES];
    }
}

static inline __attribute__((always_inline)) void
any_rows(int rows, int vectors, size_t depth, const matrix *a, const real *panel, const tile *to)
{
    switch (rows) {
#ifdef __AVX512F__
    case 8:
        tile_of(8, vectors, depth, a, panel, to);
        return;
    case 7:
        tile_of(7, vectors, depth, a, panel, to);
        return;
    case 6:
        tile_of(6, vectors, depth, a, panel, to);
        return;
    case 5:
        tile_of(5, vectors, depth, a, panel, to);
        return;
#endif
    case 4:
        tile_of(4, vectors, depth, a, panel, to);
        return;
    case 3:
        tile_of(3, vectors, depth, a, panel, to);
        return;
    case 2:
        tile_of(2, vectors, depth, a, panel, to);
        return;
    default:
        tile_of(1, vectors, depth, a, panel, to);
    }
}

static void any_tile(int rows, int vectors, size_t depth, const matrix *a, const real *panel,
                     const tile *to)
{
    if (vectors == 1)
        any_rows(rows, 1, depth, a, panel, to);
    else
        any_rows(rows, VECTORS, depth, a, panel, to);
}

static void pack(size_t depth, size_t columns, size_t width, const real *b, size_t row, real *panel)
{
    for (size_t k = 0; k < depth; k++, panel += width) {
        if (columns == COLUMNS) { /* of known size */
            memcpy(panel, b + k * row, sizeof *panel * COLUMNS);
            continue;
        }
        for (size_t n = 0; n < width; n++)
            panel[n] = n < columns ? b[k * row + n] : 0;
    }
}

/* a: [m][k]; b and y: rows of b_row and y_row elements. */
static void matmul(size_t m, size_t n, size_t k, matrix a, const real *b, size_t b_row, real *y,
                   size_t y_row, bool add)
{
    static _Thread_local real panel[DEPTH * COLUMNS] __attribute__((aligned(64)));
    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        const size_t depth = k - k0 < DEPTH ? k - k0 : DEPTH;
        for (size_t n0 = 0; n0 < n; n0 += COLUMNS) {
            const size_t columns = n - n0 < COLUMNS ? n - n0 : COLUMNS;
            const int vectors = columns <= LANES ? 1 : VECTORS;
            pack(depth, columns, (size_t)vectors * LANES, b + k0 * b_row + n0, b_row, panel);
            for (size_t m0 = 0; m0 < m; m0 += ROWS) {
                const int rows = m - m0 < ROWS ? (int)(m - m0) : ROWS;
                const matrix part = {a.at + m0 * a.row + k0 * a.column, a.row, a.column};
                const tile to = {y + m0 * y_row + n0, y_row, columns, add || k0 > 0};
                any_tile(rows, vectors, depth, &part, panel, &to);
            }
        }
    }
}

/* y[c][r] = x[r][c] */
static void transpose(size_t rows, size_t columns, const real *x, real *y)
{
    enum { BLOCK = 16 };
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK)
        for (size_t c0 = 0; c0 < columns; c0 += BLOCK)
            for (size_t r = r0; r < r0 + BLOCK && r < rows; r++)
                for (size_t c = c0; c < c0 + BLOCK && c < columns; c++)
                    y[c * rows + r] = x[r * columns + c];
}

static inline void add_to(real *to, const real *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

#endif
