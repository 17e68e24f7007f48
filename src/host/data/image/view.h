/* What a network sees of an encoded image: a part of it, resampled to h x w (resize.h), perhaps
 * mirrored.
 *
 * Training: a random part.  Its area is a share of the image's, uniform in least_area to 1, its
 * aspect ratio is that of h x w times a factor whose logarithm is uniform between those of 3/4 and
 * 4/3; sizes are rounded to pixels; of ten such draws the first that fits is placed at random. When
 * none fits: the middle, its aspect ratio as near as the image allows.  Then a mirror image, every
 * other time.  This is what published ImageNet recipes do (Szegedy et al. 2015; torchvision's
 * RandomResizedCrop).
 *
 * Evaluation: the largest part in the middle of the aspect ratio of h x w, and of that the inner
 * 7/8: what resizing the shorter side to 256 and cutting 224 x 224 out of the middle shows.
 *
 * The numbers are those of the stream (seed, KAS_PURPOSE_CROP, epoch * 2^32 + position). */
#ifndef KAS_DATA_IMAGE_VIEW_H
#define KAS_DATA_IMAGE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kas_view {
    bool training;     /* else evaluation */
    bool flip;         /* training: mirror every other image */
    double least_area; /* training: in (0, 1]; 0.08 in published recipes */
    uint64_t seed;
    uint32_t epoch;
} kas_view;

/* A rectangle of an image, in pixels; corners need not be whole. */
typedef struct kas_box {
    double x0, y0, x1, y1;
} kas_box;

/* The part of an image of `width` x `height` that is shown at `position`, as `w` x `h`. */
kas_box kas_view_box(const kas_view *view, uint32_t position, uint32_t width, uint32_t height,
                     uint32_t w, uint32_t h, bool *mirror);

#endif
