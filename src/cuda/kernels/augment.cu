#include "kernel.h"

/* Makes a batch from bytes: gathers images in the order of the epoch, normalises, crops, mirrors,
 * erases parts, and mixes each image with the next one of its batch (ops.h). */

/* The columns [from, to) of a row. */
typedef struct kas_span {
    int from, to;
} kas_span;

/* One row of an image after everything that concerns this image alone. */
typedef struct kas_view {
    const kas_u8 *from; /* row of the data set */
    int inside;         /* whether there is such a row */
    int left, mirror;   /* column w comes from (w, or its mirror image) + left */
    kas_span cut, erased;
} kas_view;

KAS_FN kas_u32x4 kas_augment_bits(const kas_augment_args *a, kas_u32 position, kas_u32 use)
{
    const kas_u32x4 counter = {position, use, a->state->epoch, 0};
    return kas_philox(counter, a->key0, a->key1);
}

/* Returns the part of a rectangle that lies in `row`. */
KAS_FN kas_span kas_span_of(int row, int top, int left, int h, int w)
{
    const int hit = row >= top && row < top + h;
    const kas_span span = {hit ? left : 0, hit ? left + w : 0};
    return span;
}

/* Returns a square around a random pixel; what lies outside the image is cut off. */
KAS_FN kas_span kas_cutout(const kas_augment_args *a, kas_u32 position, int row)
{
    const kas_u32x4 bits = kas_augment_bits(a, position, 1);
    const int top = kas_scale_u32(bits.x, a->h) - a->cutout / 2;
    const int left = kas_scale_u32(bits.y, a->width) - a->cutout / 2;
    return kas_span_of(row, top, left, a->cutout, a->cutout);
}

/* Random erasing: returns the first of ten rectangles that fits. */
KAS_FN kas_span kas_erase(const kas_augment_args *a, kas_u32 position, int row)
{
    const float pixels = (float)a->h * (float)a->width;
    for (kas_u32 attempt = 0; attempt < KAS_ERASE_ATTEMPTS; attempt++) {
        const kas_u32x4 bits = kas_augment_bits(a, position, 2 + attempt);
        const float area = pixels * kas_fma((float)bits.x, a->area_range, a->area_low);
        const float stretch = kas_exp(kas_fma((float)bits.y, a->stretch_range, a->stretch_low));
        const float side = kas_sqrt(area);
        const int h = (int)(side * stretch + 0.5f), w = (int)(side / stretch + 0.5f);
        if (h < a->h && w < a->width)
            return kas_span_of(row, kas_scale_u32(bits.z, a->h - h + 1),
                               kas_scale_u32(bits.w, a->width - w + 1), h, w);
    }
    return kas_span_of(row, 0, 0, 0, 0);
}

KAS_FN kas_view kas_view_of(const kas_augment_args *a, kas_u32 position, int row)
{
    kas_view v = {a->pixels, 0, 0, 0, {0, 0}, {0, 0}};
    if (position >= a->count)
        return v;
    int up = 0;
    if (a->pad > 0 || a->flip || a->erase_below > 0) {
        const kas_u32x4 bits = kas_augment_bits(a, position, 0);
        up = kas_scale_u32(bits.x, 2 * a->pad + 1) - a->pad;
        v.left = kas_scale_u32(bits.y, 2 * a->pad + 1) - a->pad;
        v.mirror = a->flip ? (int)(bits.z >> 31) : 0;
        if (bits.w < a->erase_below)
            v.erased = kas_erase(a, position, row);
    }
    if (a->cutout > 0)
        v.cut = kas_cutout(a, position, row);
    v.inside = row + up >= 0 && row + up < a->h;
    v.from += ((kas_i64)a->order[position] * a->h + (v.inside ? row + up : 0)) * a->width * a->c;
    return v;
}

/* Return whether anything of this row is erased, and whether column w is. */
KAS_FN int kas_view_hides(const kas_view *v)
{
    return v->cut.to > v->cut.from || v->erased.to > v->erased.from;
}
KAS_FN int kas_view_hidden(const kas_view *v, int w)
{
    return (w >= v->cut.from && w < v->cut.to) || (w >= v->erased.from && w < v->erased.to);
}

/* Returns the pixel that is there, erased or not. */
KAS_FN float kas_view_pixel(const kas_augment_args *a, const kas_view *v, int w, int c)
{
    const int column = (v->mirror ? a->width - 1 - w : w) + v->left;
    const int shown = v->inside && column >= 0 && column < a->width && c < a->c;
    return shown ? kas_fma((float)v->from[column * a->c + c], a->scale[c], a->offset[c]) : 0.0f;
}

/* Returns own * blend + next * (1 - blend). */
KAS_FN float kas_view_mixed(const kas_augment_args *a, const kas_view *own, const kas_view *next,
                            float blend, int w, int c)
{
    const float mine = kas_view_hidden(own, w) ? 0.0f : kas_view_pixel(a, own, w, c);
    const float other = kas_view_hidden(next, w) ? 0.0f : kas_view_pixel(a, next, w, c);
    return kas_fma(blend, mine - other, other);
}

KAS_FN kas_u16 kas_label_of(const kas_augment_args *a, kas_u32 position)
{
    return position < a->count ? a->labels[a->order[position]] : (kas_u16)KAS_DEV_NO_LABEL;
}

/* Stores a pixel, whose channel c is an expression: on a GPU in one access of 16 bytes. */
#if KAS_RUN > 1
#define KAS_PIXEL_STORE(to, c, ...)                                                                \
    {                                                                                              \
        float pixel[KAS_WIDTH];                                                                    \
        KAS_UNROLL                                                                                 \
        for (int c = 0; c < KAS_IMAGE_PITCH; c++)                                                  \
            pixel[c] = __VA_ARGS__;                                                                \
        KAS_WIDE_STORE_REAL(to, 0, pixel);                                                         \
    }
#else
#define KAS_PIXEL_STORE(to, c, ...)                                                                \
    for (int c = 0; c < KAS_IMAGE_PITCH; c++)                                                      \
        (to)[c] = kas_real_of(__VA_ARGS__);
#endif

KAS_KERNEL(kas_dev_augment, kas_augment_args)
{
    const int row = KAS_BLOCK_X, image = KAS_BLOCK_Y;
    const kas_u32 position = a.state->cursor + (kas_u32)image;
    const kas_view own = kas_view_of(&a, position, row);
    kas_real *to = a.images + ((kas_i64)image * a.h + row) * a.width * KAS_IMAGE_PITCH;
    if (kas_view_hides(&own)) {
        KAS_LANES (w, a.width) {
            KAS_PIXEL_STORE(to + KAS_IMAGE_PITCH * w, c,
                            kas_view_hidden(&own, w) ? 0.0f : kas_view_pixel(&a, &own, w, c))
        }
    } else { /* the usual case, which is faster without the test */
        KAS_LANES (w, a.width) {
            KAS_PIXEL_STORE(to + KAS_IMAGE_PITCH * w, c, kas_view_pixel(&a, &own, w, c))
        }
    }
    if (row == 0)
        KAS_ONE_LANE
        {
            a.labels_out[image] = kas_label_of(&a, position);
        }
}

/* The same, mixed with the next image of the batch (the last image with the first): inside the
 * step's rectangle the next image alone, elsewhere own * blend + next * (1 - blend). */
KAS_KERNEL(kas_dev_augment_mixed, kas_augment_args)
{
    const int row = KAS_BLOCK_X, image = KAS_BLOCK_Y, follower = image + 1 < a.n ? image + 1 : 0;
    const kas_u32 position = a.state->cursor + (kas_u32)image;
    const kas_dev_row mix = a.rows[a.state->step];
    const kas_view own = kas_view_of(&a, position, row);
    const kas_view next = kas_view_of(&a, a.state->cursor + (kas_u32)follower, row);
    const kas_span box = kas_span_of(row, mix.top, mix.left, mix.height, mix.width);
    kas_real *to = a.images + ((kas_i64)image * a.h + row) * a.width * KAS_IMAGE_PITCH;
    KAS_LANES (w, a.width) {
        const float blend = w >= box.from && w < box.to ? 0.0f : mix.blend;
        KAS_PIXEL_STORE(to + KAS_IMAGE_PITCH * w, c, kas_view_mixed(&a, &own, &next, blend, w, c))
    }
    if (row == 0)
        KAS_ONE_LANE
        {
            a.labels_out[image] = kas_label_of(&a, position);
        }
}
