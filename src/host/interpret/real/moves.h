/* Primitives that move values: group, group_all, shift, unfold, shuffle, slice, concat. And the
 * shifted image that windows are made of. */
#ifndef KAS_INTERPRET_REAL_MOVES_H
#define KAS_INTERPRET_REAL_MOVES_H

#include "host/interpret/real/values.h"

/* An image and a distance to a neighbour. Pixels (row, column) have it inside the image for rows
 * [top, bottom) and columns [left, right). */
typedef struct neighbour {
    long h, w, down, right_by;
    long top, bottom, left, right;
} neighbour;

static neighbour neighbour_at(size_t h, size_t w, long down, long right)
{
    const long hh = (long)h, ww = (long)w;
    neighbour n = {.h = hh, .w = ww, .down = down, .right_by = right};
    n.top = down < 0 ? (-down < hh ? -down : hh) : 0;
    n.bottom = down > 0 ? (hh - down > 0 ? hh - down : 0) : hh;
    n.left = right < 0 ? (-right < ww ? -right : ww) : 0;
    n.right = right > 0 ? (ww - right > 0 ? ww - right : 0) : ww;
    if (n.top >= n.bottom || n.left >= n.right)
        n.top = n.bottom = n.left = n.right = 0;
    return n;
}

/* The pixels from the first one with a neighbour to the last one, in the order of memory. */
static inline long first_pixel(const neighbour *n)
{
    return n->top * n->w + n->left;
}
static inline long end_pixel(const neighbour *n)
{
    return n->bottom > n->top ? (n->bottom - 1) * n->w + n->right : first_pixel(n);
}

/* Clears what a run of pixels in the order of memory has between the rows: pixels whose neighbour
 * is outside on the left or right. */
static void clear_sides(const neighbour *n, real *y)
{
    for (long row = n->top; row + 1 < n->bottom; row++) {
        real *at = y + row * n->w + n->right;
        for (long i = 0; i < n->w - n->right + n->left; i++)
            at[i] = 0;
    }
}

/* y[p] = the neighbour of p, zero outside. */
static void gather(const neighbour *n, const real *x, real *y)
{
    const long begin = first_pixel(n), end = end_pixel(n), area = n->h * n->w;
    const long distance = n->down * n->w + n->right_by;
    memset(y, 0, sizeof *y * (size_t)begin);
    if (end > begin)
        memcpy(y + begin, x + begin + distance, sizeof *y * (size_t)(end - begin));
    memset(y + end, 0, sizeof *y * (size_t)(area - end));
    clear_sides(n, y);
}

/* Adds dy[p] to the neighbour of p. Spoils dy. */
static void scatter(const neighbour *n, real *dy, real *dx)
{
    const long begin = first_pixel(n), end = end_pixel(n);
    const long distance = n->down * n->w + n->right_by;
    clear_sides(n, dy);
    if (end > begin)
        add_to(dx + begin + distance, dy + begin, (size_t)(end - begin));
}

static neighbour tap_of(const kas_step *s, int tap)
{
    return neighbour_at(s->h, s->w, s->dilation * (tap / s->kernel_w - s->kernel_h / 2),
                        s->dilation * (tap % s->kernel_w - s->kernel_w / 2));
}

/* All taps of one image. */
static void gather_taps(const kas_step *s, const real *x, real *y)
{
    for (int tap = 0; tap < s->kernel_h * s->kernel_w; tap++, y += s->h * s->w) {
        const neighbour n = tap_of(s, tap);
        gather(&n, x, y);
    }
}

static void scatter_taps(const kas_step *s, real *dy, real *dx)
{
    for (int tap = 0; tap < s->kernel_h * s->kernel_w; tap++, dy += s->h * s->w) {
        const neighbour n = tap_of(s, tap);
        scatter(&n, dy, dx);
    }
}

static void unfold(const kas_step *s, const values *v, bool backward)
{
    const size_t area = s->h * s->w, taps = (size_t)(s->kernel_h * s->kernel_w);
    for (size_t p = 0; p < s->planes; p++)
        if (backward)
            scatter_taps(s, v->dy + p * taps * area, v->din[0] + p * area);
        else
            gather_taps(s, v->in[0] + p * area, v->y + p * taps * area);
}

/* y[i] = x[(i + offset) mod size] along the axis: two runs. */
static void shift(const kas_step *s, const values *v, bool backward)
{
    const bool rows = s->node->axes == KAS_AXIS_H;
    const size_t size = rows ? s->h : s->w, run = rows ? s->w : 1;
    const size_t outer = s->elements / (size * run);
    const size_t by = (size_t)((s->node->offset % (long)size + (long)size) % (long)size) * run;
    const size_t rest = size * run - by;
    for (size_t o = 0; o < outer; o++) {
        const size_t at = o * size * run;
        if (backward) {
            add_to(v->din[0] + at + by, v->dy + at, rest);
            add_to(v->din[0] + at, v->dy + at + rest, by);
        } else {
            memcpy(v->y + at, v->in[0] + at + by, sizeof(real) * rest);
            memcpy(v->y + at + rest, v->in[0] + at, sizeof(real) * by);
        }
    }
}

static void move(real *to, const real *from, size_t n, bool add)
{
    if (add)
        add_to(to, from, n);
    else
        memcpy(to, from, sizeof *to * n);
}

/* y[.., r * G + g, ..] = x[.., g * X/G + r, ..] */
static void shuffle(const kas_step *s, const values *v, bool backward)
{
    const size_t each = s->length / s->shuffled;
    for (size_t o = 0; o < s->outer; o++)
        for (size_t l = 0; l < s->length; l++) {
            const size_t y = (o * s->length + l) * s->inner;
            const size_t x = (o * s->length + l % s->shuffled * each + l / s->shuffled) * s->inner;
            move(backward ? v->din[0] + x : v->y + y, backward ? v->dy + y : v->in[0] + x, s->inner,
                 backward);
        }
}

static void slice(const kas_step *s, const values *v, bool backward)
{
    const size_t run = s->segment[0] * s->inner;
    for (size_t o = 0; o < s->outer; o++) {
        const size_t x = (o * s->length + s->begin) * s->inner, y = o * run;
        move(backward ? v->din[0] + x : v->y + y, backward ? v->dy + y : v->in[0] + x, run,
             backward);
    }
}

static void concat(const kas_step *s, const values *v, bool backward)
{
    size_t begin = 0;
    for (int k = 0; k < s->node->inputs; begin += s->segment[k++]) {
        const size_t run = s->segment[k] * s->inner;
        for (size_t o = 0; o < s->outer; o++) {
            const size_t y = (o * s->length + begin) * s->inner, x = o * run;
            if (backward)
                add_to(v->din[k] + x, v->dy + y, run);
            else
                memcpy(v->y + y, v->in[k] + x, sizeof(real) * run);
        }
    }
}

static void move_values(const kas_step *s, const values *v, bool backward)
{
    switch (s->op) {
    case KAS_OP_UNFOLD:
        unfold(s, v, backward);
        return;
    case KAS_OP_SHIFT:
        shift(s, v, backward);
        return;
    case KAS_OP_SHUFFLE:
        shuffle(s, v, backward);
        return;
    case KAS_OP_SLICE:
        slice(s, v, backward);
        return;
    case KAS_OP_CONCAT:
        concat(s, v, backward);
        return;
    default: /* group, group_all: the same order in memory */
        move(backward ? v->din[0] : v->y, backward ? v->dy : v->in[0], s->elements, backward);
    }
}

#endif
