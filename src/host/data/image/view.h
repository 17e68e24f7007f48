/* Chooses the part of an encoded image that a network sees, which is then resampled to h x w
 * (resize.h) and perhaps mirrored.
 *
 * Training takes a random part. Its area is a share of the image's, uniform between least_area and
 * 1. Its aspect ratio is that of h x w times a factor whose logarithm is uniform between those of
 * 3/4 and 4/3. Sizes are rounded to pixels. The first of ten such draws that fits is placed at
 * random. When none fits, the part is the middle of the image, with an aspect ratio as near as the
 * image allows. With probability 1/2 it is mirrored. Published ImageNet recipes do the same
 * (Szegedy et al. 2015; torchvision's RandomResizedCrop).
 *
 * Evaluation takes the largest centred part with the aspect ratio of h x w, and of that the inner
 * 7/8. The result is that of resizing the shorter side to 256 and cropping the centre to 224 x 224.
 *
 * The random numbers are those of the stream (seed, KAS_PURPOSE_CROP, epoch * 2^32 + position). */
#ifndef KAS_DATA_IMAGE_VIEW_H
#define KAS_DATA_IMAGE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kas_view {
    bool training;     /* else evaluation */
    bool flip;         /* training: mirror with probability 1/2 */
    double least_area; /* training: smallest share of the area, in (0, 1]; 0.08 in published
                          recipes */
    uint64_t seed;
    uint32_t epoch;
} kas_view;

/* A rectangle in an image, in pixels; its corners need not be whole numbers. */
typedef struct kas_box {
    double x0, y0, x1, y1;
} kas_box;

/* Returns the part of an image of `width` x `height` that is shown at `position` as `w` x `h`.
 * *mirror says whether it is mirrored. */
kas_box kas_view_box(const kas_view *view, uint32_t position, uint32_t width, uint32_t height,
                     uint32_t w, uint32_t h, bool *mirror);

#endif
