/* Sizes of convolutions and of targets in one line each, as initialisers that may be constant. Members
 * that have no place of their own stand at the end: CONV_OF(2, 8, 4, 4, 1, 3, 1, .dtype = KAS_F16). */
#ifndef KAS_SUPPORT_SIZES_H
#define KAS_SUPPORT_SIZES_H

#include "host/device/device.h"
#include "host/space/target.h"

/* A kas_conv_desc: images of side x side pixels, a square window, padding of half of it. */
#define CONV_OF(images, side, in, out, parts, window, step, ...)                                   \
    {                                                                                              \
        .n = (images), .h = (side), .w = (side), .c_in = (in), .c_out = (out), .groups = (parts),  \
        .kernel_h = (window), .kernel_w = (window), .stride = (step), .pad_h = (window) / 2,       \
        .pad_w = (window) / 2, __VA_ARGS__                                                         \
    }

/* A kas_target with an output of height x width and a square window; `common` is the greatest common
 * divisor of the channels. */
#define TARGET_OF(label, in, out, common, height, width, window, step, ...)                        \
    {                                                                                              \
        .name = label, .c_in = (in), .c_out = (out), .c = (common), .parts_in = (in) / (common),   \
        .parts_out = (out) / (common), .h = (height), .w = (width), .kernel_h = (window),          \
        .kernel_w = (window), .stride = (step), __VA_ARGS__                                        \
    }

#endif
