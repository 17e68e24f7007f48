/* The pixels of the input on which a pixel of a tensor depends. Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_RECEPTIVE_FIELD_H
#define KAS_SPACE_CANVAS_RECEPTIVE_FIELD_H

#include "host/space/kernel.h"

/* A receptive field relative to the pixel's own place: [low, high] along H and along W. It is the
 * hull where a dilated window leaves gaps between its taps. */
typedef struct kas_receptive_field {
    int16_t low[2], high[2];
} kas_receptive_field;

/* Returns the receptive field of node i from those of its operands. `window` is K_H and K_W. */
kas_receptive_field kas_receptive_field_of(const kas_kernel *kernel, int i,
                                           const kas_receptive_field *const operands[],
                                           const uint32_t window[2]);

/* Returns the width in pixels, the pixel's own place included, along the axis where it is
 * larger. */
int kas_receptive_field_across(const kas_receptive_field *view);

#endif
